//! One generator's share of a load: the objects, the rendezvous, the case, and the cleanup.
//!
//! On a Kubernetes API, each generator takes the same precautions as a single one, since the API
//! may hold other people's data. An etcd that generators share held no keys before.

use std::future::pending;
use std::sync::Arc;
use std::time::SystemTime;

use etcd_api::client::config::ClientConfig;
use load::operation::leases::GrantedLeases;
use load::verify::Expected;
use workloads::{DataSet, Fingerprint};

use super::StartTime;
use super::note_store::NoteStoreAddress;
use super::rendezvous::{
    Agreed, Appointment, DONE_TIMEOUT, Rendezvous, RendezvousError, STOP_TIMEOUT,
};
use crate::exit::Failure;
use crate::progress::Progress;
use crate::run::case::ObjectSource;
use crate::run::foreign::{InNamespaces, Listed, Seeded, leases_left};
use crate::run::target::{Target, unusable};
use crate::run::{Run, both};
use crate::seed::kube::{Api, Namespaces, SeededObjects};
use crate::seed::revoke;
use crate::servers::target_spec::TargetSpec;

/// A clock difference above this is reported.
const CLOCKS_WORTH_A_LINE_MS: f64 = 50.0;
/// The number of a shared run's only data set.
const ONLY_DATA_SET: usize = 1;

/// Objects that the first generator has written.
enum SharedObjects {
    OnEtcd(Seeded),
    InNamespaces(InNamespaces, Arc<SeededObjects>),
}

impl SharedObjects {
    fn expected(&self) -> &Expected {
        match self {
            Self::OnEtcd(seeded) => &seeded.expected,
            Self::InNamespaces(_, seeded) => &seeded.expected,
        }
    }

    fn source(&self) -> ObjectSource {
        match self {
            Self::OnEtcd(seeded) => seeded.source(),
            Self::InNamespaces(_, seeded) => ObjectSource::SeededNamespaces(Arc::clone(seeded)),
        }
    }

    async fn clean_up(self, keep: bool, progress: &Progress) -> Result<(), String> {
        match self {
            Self::OnEtcd(seeded) => seeded.clean_up(keep, progress).await,
            Self::InNamespaces(namespaces, _) => namespaces.clean_up(keep, progress).await,
        }
    }
}

impl Run<'_> {
    /// Runs this generator's share of a load.
    pub(in crate::run) async fn share(
        &mut self,
        target: &Target,
        data: &Arc<DataSet>,
        at: SystemTime,
    ) -> Result<(), Failure> {
        let place = self.note_store_address(target, data)?;
        if let NoteStoreAddress::Kube { .. } = place
            && !self.reach(target, &data.spec().name).await?
        {
            return Ok(());
        }
        let shard = self.plan.together.shard;
        let appointment = Appointment {
            place: &place,
            shard,
            at,
        };
        let environment = &self.result.report.environment;
        let agreed = Agreed {
            build: format!("{}, {}", environment.program(), environment.profile),
            scenario: self.scenario.to_toml(),
        };
        match shard.index() {
            0 => self.first_share(target, data, appointment, agreed).await,
            _ => self.other_share(target, data, appointment, agreed).await,
        }
    }

    /// Returns where the generators of this run synchronize. Each generator can compute it.
    fn note_store_address(
        &self,
        target: &Target,
        data: &DataSet,
    ) -> Result<NoteStoreAddress, Failure> {
        let plan = self.plan;
        if let TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) = target.spec {
            let api = plan.launcher.kube_of(&target.spec);
            let (url, access) = api.map_err(|e| unusable(target, e))?;
            let namespace = self.namespaces(data).names().first().cloned();
            return Ok(NoteStoreAddress::Kube {
                api: Api { url, access },
                namespace: namespace.unwrap_or_default(),
            });
        }
        let endpoints = ClientConfig::new(&target.spec.to_string());
        Ok(NoteStoreAddress::Etcd {
            config: ClientConfig {
                endpoints: endpoints.map_err(|e| unusable(target, e))?.endpoints,
                ..plan.launcher.connect.clone()
            },
            prefix: format!("/loadgen/{}.meeting/", plan.run_id),
        })
    }

    /// Returns the namespaces of the run, which the first generator creates.
    fn namespaces(&self, data: &DataSet) -> Namespaces {
        Namespaces::new(&self.plan.run_id, ONLY_DATA_SET, data.namespaces())
    }

    /// Writes the objects. `None` when stopped meanwhile.
    async fn write(
        &self,
        target: &Target,
        data: &Arc<DataSet>,
        place: &NoteStoreAddress,
    ) -> Result<Option<SharedObjects>, Failure> {
        let (plan, progress, stop) = (self.plan, self.progress, self.stop);
        Ok(match place {
            NoteStoreAddress::Etcd { .. } => {
                let seeded = Seeded::create(plan, target, data, progress, stop);
                seeded.await?.map(SharedObjects::OnEtcd)
            }
            NoteStoreAddress::Kube { .. } => {
                let made = InNamespaces::create(plan, target, data, ONLY_DATA_SET, progress, stop);
                let made = made.await?;
                made.map(|(namespaces, seeded)| SharedObjects::InNamespaces(namespaces, seeded))
            }
        })
    }

    /// Runs the share of the first generator, which loads the objects and removes everything.
    async fn first_share(
        &mut self,
        target: &Target,
        data: &Arc<DataSet>,
        appointment: Appointment<'_>,
        agreed: Agreed,
    ) -> Result<(), Failure> {
        let Some(written) = self.write(target, data, appointment.place).await? else {
            self.result.report.interrupted = true;
            return Ok(());
        };
        let opened = async {
            let fingerprint = match &written {
                // On an etcd, the stored objects are those of the data set.
                SharedObjects::OnEtcd(seeded) => seeded.expected.fingerprint,
                SharedObjects::InNamespaces(..) => fingerprint_of(target, data).await?,
            };
            let opened =
                Rendezvous::open(appointment, agreed, fingerprint, written.expected()).await;
            opened.map_err(|error| unusable(target, error))
        };
        let measured = match opened.await {
            Err(failure) => Err(failure),
            Ok(rendezvous) => {
                self.begin_with(appointment.at, rendezvous);
                let measured = self.measured(target, data, written.source()).await;
                let ended = self.end_rendezvous().await;
                both(measured, ended.map_err(|error| unusable(target, error)))
            }
        };
        let deleted = written.clean_up(self.plan.keep_data, self.progress).await;
        let deleted = deleted.map_err(|left| unusable(target, left));
        both(measured, deleted)
    }

    /// Runs the share of another generator, which waits for the first one.
    async fn other_share(
        &mut self,
        target: &Target,
        data: &Arc<DataSet>,
        appointment: Appointment<'_>,
        agreed: Agreed,
    ) -> Result<(), Failure> {
        self.progress.say(&format!(
            "{target}: waiting for generator 0 to load the objects"
        ));
        let joined = async {
            let fingerprint = fingerprint_of(target, data).await?;
            let joined = Rendezvous::join(appointment, &agreed, fingerprint).await;
            joined.map_err(|e| unusable(target, e))
        };
        let (rendezvous, expected) = tokio::select! {
            joined = joined => joined?,
            () = self.stop.cancelled() => {
                self.result.report.interrupted = true;
                return Ok(());
            }
        };
        let clock = rendezvous.clock();
        if clock.at_most_ms() > CLOCKS_WORTH_A_LINE_MS {
            self.progress.say(&format!(
                "{target}: the clock here is {:.0} ms ahead of generator 0's (± {:.1} ms); the load begins by that one",
                clock.ahead_ms, clock.within_ms
            ));
        }
        let beginning = self.begin_with(appointment.at, rendezvous);
        let leases: Arc<GrantedLeases> = Arc::default();
        let source = match appointment.place {
            NoteStoreAddress::Etcd { .. } => ObjectSource::Seeded {
                data: Arc::clone(data),
                root: self.plan.foreign_root(data),
                expected,
                leases: Arc::clone(&leases),
            },
            NoteStoreAddress::Kube { .. } => {
                let namespaces = Arc::new(self.namespaces(data));
                let seeded = SeededObjects::by_another(data, &namespaces, expected);
                ObjectSource::SeededNamespaces(Arc::new(seeded))
            }
        };
        let (progress, stop) = (self.progress, self.stop);
        let stopping = async {
            let Some(rendezvous) = &beginning.rendezvous else {
                return pending().await;
            };
            // Before the load begins, the rendezvous itself reports that it cannot begin.
            rendezvous.stopped(|| beginning.has_begun()).await;
            progress.say(&format!(
                "{target}: generator 0 was interrupted and removes the objects; this one ends, too"
            ));
            stop.cancel();
            pending().await
        };
        let measured = tokio::select! {
            measured = self.measured(target, data, source) => measured,
            never = stopping => match never {},
        };
        let Some(rendezvous) = &beginning.rendezvous else {
            return measured;
        };
        let revoked = match appointment.place {
            NoteStoreAddress::Etcd { config, .. } => revoke(config, leases.take()).await,
            NoteStoreAddress::Kube { .. } => Ok(()),
        };
        let revoked = revoked.map_err(|error| unusable(target, leases_left(&error)));
        let done = rendezvous.done().await;
        let left = both(revoked, done.map_err(|error| unusable(target, error)));
        both(measured, left)
    }

    fn begin_with(&mut self, at: SystemTime, rendezvous: Rendezvous) -> Arc<StartTime> {
        let beginning = StartTime::with(at, rendezvous);
        Arc::clone(self.beginning.insert(beginning))
    }

    /// Runs the only case of a shared scenario.
    async fn measured(
        &mut self,
        target: &Target,
        data: &DataSet,
        source: ObjectSource,
    ) -> Result<(), Failure> {
        if let ObjectSource::SeededNamespaces(_) = &source {
            let collection = self.plan.collection(self.scenario, &data.spec().name);
            let listed = Listed::Collection(collection);
            let data_set = &data.spec().name;
            return self
                .with_care(target, listed, &source, data_set, None)
                .await;
        }
        let case = self.scenario.cases_on(&data.spec().name).next();
        if let Some((tier, spec)) = case {
            self.case(target, tier, spec, source, None).await;
        }
        Ok(())
    }

    /// Waits for the other generators, if they may still read the objects, and removes the notes of
    /// the rendezvous.
    async fn end_rendezvous(&self) -> Result<(), RendezvousError> {
        let Some(beginning) = &self.beginning else {
            return Ok(());
        };
        let Some(rendezvous) = &beginning.rendezvous else {
            return Ok(());
        };
        let waited = match beginning.has_begun() {
            true => self.wait_for_others(rendezvous).await,
            false => Ok(()),
        };
        // The notes are removed in any case: leftover notes would prevent the next run.
        waited.and(rendezvous.close().await)
    }

    async fn wait_for_others(&self, rendezvous: &Rendezvous) -> Result<(), RendezvousError> {
        rendezvous.done().await?;
        self.progress.say("waiting for the other generators");
        let missing = tokio::select! {
            missing = rendezvous.others_done(DONE_TIMEOUT) => missing?,
            () = self.stop.cancelled() => {
                self.progress.say(
                    "interrupted: the other generators are told to end, and the objects removed",
                );
                rendezvous.stop_all().await?;
                rendezvous.others_done(STOP_TIMEOUT).await?
            }
        };
        if !missing.is_empty() {
            self.progress.say(&format!(
                "generators {missing:?} are not done, and what they read is removed now"
            ));
        }
        Ok(())
    }
}

/// Returns the fingerprint of a data set as it is created. Takes as long as creating every object:
/// seconds for gigabytes.
async fn fingerprint_of(target: &Target, data: &Arc<DataSet>) -> Result<Fingerprint, Failure> {
    let objects = Arc::clone(data);
    let made = move || objects.fingerprint(0..objects.len());
    let made = tokio::task::spawn_blocking(made).await;
    made.map_err(|e| unusable(target, e))
}
