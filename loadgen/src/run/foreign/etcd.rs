//! Seeding and cleaning up an etcd that loadgen did not start.

use std::pin::pin;
use std::sync::Arc;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use load::operation::leases::GrantedLeases;
use load::verify::Expected;
use tokio_util::sync::CancellationToken;
use workloads::DataSet;

use crate::exit::Failure;
use crate::progress::{Counted, Phase, Progress};
use crate::run::case::{ObjectSource, created_root};
use crate::run::plan::Plan;
use crate::run::target::{Target, answered, unusable};
use crate::safety::{Refused, Survey, left_behind, must_be_empty, stored_bytes};
use crate::seed::{NotUnseeded, SeededSlices, remove_created, revoke, seed, unseed};

/// A data set on an existing etcd. [`Seeded::clean_up`] deletes it again.
pub(in crate::run) struct Seeded {
    pub(in crate::run) root: String,
    pub(in crate::run) expected: Expected,
    /// The number of keys that the endpoint held before.
    pub(in crate::run) others: u64,
    /// Leases that loads were granted and have not revoked.
    pub(in crate::run) leases: Arc<GrantedLeases>,
    target: Target,
    config: ClientConfig,
    data: Arc<DataSet>,
    written: Arc<SeededSlices>,
}

impl Seeded {
    /// Writes a data set below a prefix of the run, if the endpoint may be seeded. `None` when
    /// stopped meanwhile, with everything deleted again.
    pub(in crate::run) async fn create(
        plan: &Plan,
        target: &Target,
        data: &Arc<DataSet>,
        progress: &Progress,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, Failure> {
        let bad = |error: &dyn std::fmt::Display| unusable(target, error);
        let endpoints = ClientConfig::new(&target.spec.to_string()).map_err(|e| bad(&e))?;
        let config = ClientConfig {
            endpoints: endpoints.endpoints,
            ..plan.launcher.connect.clone()
        };
        let root = plan.foreign_root(data);
        let looked = async {
            let client = Client::connect(config.clone()).await.map_err(|e| bad(&e))?;
            let survey = Survey::take(&client).await.map_err(|e| bad(&e))?;
            if survey.keys > 0 && !plan.together.shard.is_whole() {
                return Err(bad(&Refused::NotEmpty(survey.keys)));
            }
            survey
                .may_seed(plan.seed_data, data, &root)
                .map_err(|e| bad(&e))?;
            for ours in [root.clone(), created_root(&root)] {
                must_be_empty(&client, &ours)
                    .await
                    .map_err(|e| bad(&e))?
                    .map_err(|e| bad(&e))?;
            }
            Ok(survey.keys)
        };
        let others = tokio::select! {
            looked = answered(target, looked) => looked?,
            () = stop.cancelled() => return Ok(None),
        };

        progress.say(&format!("{}: writing below {root}", target.name));
        let mut seeded = Self {
            root,
            expected: Expected {
                fingerprint: workloads::Fingerprint::default(),
                revisions: None,
                revision: 0,
            },
            others,
            leases: Arc::default(),
            target: target.clone(),
            config,
            data: Arc::clone(data),
            written: Arc::default(),
        };
        let phase = progress.phase(
            &format!("seeding {}", target.name),
            data.len(),
            Counted::Objects,
        );
        let written = seeded.write(&phase, stop).await;
        match written {
            Some(Ok(expected)) => {
                phase.done("written");
                seeded.expected = expected;
                Ok(Some(seeded))
            }
            Some(Err(error)) => {
                let left = seeded.clean_up(false, progress).await.err();
                let left = left.map(|left| format!("; {left}")).unwrap_or_default();
                Err(bad(&format!("seeding: {error}{left}")))
            }
            None => match seeded.clean_up(false, progress).await {
                Ok(()) => Ok(None),
                Err(left) => Err(bad(&left)),
            },
        }
    }

    /// Returns the source of the cases' objects.
    pub(in crate::run) fn source(&self) -> ObjectSource {
        ObjectSource::Seeded {
            data: Arc::clone(&self.data),
            root: self.root.clone(),
            expected: self.expected.clone(),
            leases: Arc::clone(&self.leases),
        }
    }

    /// Writes all objects. `None` when stopped meanwhile, with no write in flight.
    async fn write(
        &self,
        phase: &Phase,
        stop: &CancellationToken,
    ) -> Option<Result<Expected, EtcdError>> {
        let seeding = seed(&self.config, &self.data, &self.root, &self.written, phase);
        let mut seeding = pin!(seeding);
        tokio::select! {
            written = &mut seeding => Some(written),
            () = stop.cancelled() => {
                self.written.stop();
                // Its result does not matter, since everything is deleted.
                seeding.await.ok();
                None
            }
        }
    }

    /// Deletes exactly the objects that were written and the keys that loads created, unless `keep`
    /// is set. Revokes the leases of loads in any case. An interruption waits for this, so it must
    /// not be interrupted itself.
    ///
    /// # Errors
    /// One line with what may be left behind.
    pub(in crate::run) async fn clean_up(
        self,
        keep: bool,
        progress: &Progress,
    ) -> Result<(), String> {
        let revoked = revoke(&self.config, self.leases.take()).await;
        let revoked = revoked.map_err(|error| leases_left(&error));
        if keep {
            revoked?;
            progress.say(&format!(
                "{}: left below {} as asked",
                self.target, self.root
            ));
            return Ok(());
        }
        let slices = self.written.take();
        let sent: u64 = slices.iter().map(|slice| slice.end - slice.start).sum();
        let title = format!("deleting from {}", self.target.name);
        let phase = progress.phase(&title, sent, Counted::Objects);
        let left =
            |root: &str, error: NotUnseeded| format!("keys may be left below {root}: {error}");
        let made_below = created_root(&self.root);
        let made = remove_created(&self.config, &made_below).await;
        let deleted = unseed(&self.config, &self.data, &self.root, &slices, &phase).await;
        // What could be removed is removed, whatever else could not.
        let mut failures: Vec<String> = revoked.err().into_iter().collect();
        failures.extend(made.err().map(|error| left(&made_below, error)));
        let deleted = match deleted {
            Ok(deleted) if failures.is_empty() => deleted,
            deleted => {
                failures.extend(deleted.err().map(|error| left(&self.root, error)));
                return Err(failures.join("; "));
            }
        };
        let bytes = stored_bytes(&self.data, &self.root) / self.data.len() * deleted;
        phase.done(&left_behind(deleted, bytes));
        Ok(())
    }
}

/// Returns the error text for leases that could not be revoked.
pub(in crate::run) fn leases_left(error: &EtcdError) -> String {
    format!("leases of loads may be left, for an hour at most: {error}")
}
