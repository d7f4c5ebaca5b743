//! Why a case cannot be had: its target cannot have it at all, this machine cannot hold it, or the
//! server does not know the call.

use etcd_api::error::Error as EtcdError;
use load::endpoint::TargetEndpoint;
use load::operation::list::{ListCase, ListError};
use tokio::time::timeout;
use workloads::EtcdResponse;

use crate::run::availability::combination::never;
use crate::run::availability::machine::Needs;
use crate::run::case::{CaseRun, Early, ObjectSource};
use crate::run::foreign::Precautions;
use crate::servers::running::Running;
use crate::timeouts::ANSWERS_WITHIN;

impl CaseRun<'_> {
    /// Checks what can be said before anything is started.
    pub(in crate::run) fn check_possible(&self) -> Result<(), Early> {
        let loaded = self.data().map(|data| data.spec().kind);
        match never(
            &self.target.spec,
            self.scenario,
            self.tier,
            self.spec,
            loaded,
        ) {
            Some(reason) => Err(Early::NotApplicable(reason.to_owned())),
            None => match self.strategy().go_client() {
                Some(client) => self.plan.go_clients.program(client).map(drop),
                None => Ok(()),
            }
            .map_err(Early::NotApplicable),
        }
    }

    /// Checks that the case may be run on a server that holds other people's data.
    pub(in crate::run) fn check_allowed(&self) -> Result<(), Early> {
        let refuse = |care: &Precautions| care.refuse(self.scenario, self.tier, self.spec);
        match self.care.and_then(refuse) {
            Some(reason) => Err(Early::NotApplicable(reason)),
            None => Ok(()),
        }
    }

    /// Checks that this machine holds the case. What the target cannot do at all is found out
    /// before, so that a case is N/A for the reason that more memory would not change.
    pub(in crate::run) fn check_fits(&self) -> Result<(), Early> {
        let ObjectSource::Fresh(data) = &self.source else {
            return Ok(());
        };
        let workers = self.strategy().workers();
        let clients = workers.map_or(self.clients(), std::num::NonZeroU32::get);
        let target = &self.target.spec;
        let needs = Needs::of(target, self.tier, self.strategy(), data, clients);
        // A kernel that does not tell what is free does not stop anybody.
        let memory = measure::free_memory_bytes().unwrap_or(u64::MAX);
        let disk = measure::free_disk_bytes(&std::env::temp_dir()).unwrap_or(u64::MAX);
        match needs.refuse(memory, disk, data.len()) {
            Some(reason) => Err(Early::NotApplicable(reason)),
            None => Ok(()),
        }
    }

    /// Checks that the target knows the call, before anything is written to it for nothing.
    pub(in crate::run) async fn probe(
        &self,
        case: &ListCase,
        running: &Running,
    ) -> Result<(), Early> {
        // Only RangeStream can be unknown to an etcd, and to begin any other list is for the server
        // to read all of it.
        if self.care.is_some()
            && case.by_our_client().strategy.etcd_response() != Some(EtcdResponse::Stream)
        {
            return Ok(());
        }
        let endpoint = TargetEndpoint::from(running);
        let probe = async {
            let mut list_client = case.by_our_client().connect(&endpoint).await?;
            list_client.first_object().await
        };
        let probe = timeout(ANSWERS_WITHIN, probe);
        let probed = self.unless_stopped(probe).await?;
        match probed.unwrap_or(Err(ListError::Slow(ANSWERS_WITHIN))) {
            Err(ListError::Etcd(EtcdError::Unimplemented(text))) => Err(Early::NotApplicable(
                format!("{} has no RangeStream: {text}", running.setup.program),
            )),
            other => Ok(other?),
        }
    }
}
