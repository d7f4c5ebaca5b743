//! Why a case is not available: its target cannot run it at all, this machine does not have the
//! memory or disk, or the server does not know the RPC.

use etcd_api::error::Error as EtcdError;
use load::endpoint::TargetEndpoint;
use load::operation::list::{ListCase, ListError};
use tokio::time::timeout;
use workloads::EtcdResponse;

use crate::run::availability::combination::never;
use crate::run::availability::machine::Needs;
use crate::run::case::{CaseRun, EarlyEnd, ObjectSource};
use crate::run::foreign::Precautions;
use crate::servers::running::Running;
use crate::timeouts::RESPONSE_TIMEOUT;

impl CaseRun<'_> {
    /// Checks what is known before anything is started.
    pub(in crate::run) fn check_possible(&self) -> Result<(), EarlyEnd> {
        let loaded = self.data().map(|data| data.spec().kind);
        match never(
            &self.target.spec,
            self.scenario,
            self.tier,
            self.spec,
            loaded,
        ) {
            Some(reason) => Err(EarlyEnd::NotApplicable(reason.to_owned())),
            None => match self.strategy().go_client() {
                Some(client) => self.plan.go_clients.program(client).map(drop),
                None => Ok(()),
            }
            .map_err(EarlyEnd::NotApplicable),
        }
    }

    /// Checks that the case may be run on a server that holds other people's data.
    pub(in crate::run) fn check_allowed(&self) -> Result<(), EarlyEnd> {
        let refuse = |care: &Precautions| care.refuse(self.scenario, self.tier, self.spec);
        match self.care.and_then(refuse) {
            Some(reason) => Err(EarlyEnd::NotApplicable(reason)),
            None => Ok(()),
        }
    }

    /// Checks that this machine has the memory and disk for the case. This follows the checks of
    /// the target, so that a case that the target cannot run is N/A for that reason, which more
    /// memory would not change.
    pub(in crate::run) fn check_fits(&self) -> Result<(), EarlyEnd> {
        let ObjectSource::Fresh(data) = &self.source else {
            return Ok(());
        };
        let workers = self.strategy().workers();
        let clients = workers.map_or(self.clients(), std::num::NonZeroU32::get);
        let target = &self.target.spec;
        let needs = Needs::of(target, self.tier, self.strategy(), data, clients);
        // If the kernel does not report free memory or disk, the case runs.
        let memory = measure::free_memory_bytes().unwrap_or(u64::MAX);
        let disk = measure::free_disk_bytes(&std::env::temp_dir()).unwrap_or(u64::MAX);
        match needs.refuse(memory, disk, data.len()) {
            Some(reason) => Err(EarlyEnd::NotApplicable(reason)),
            None => Ok(()),
        }
    }

    /// Checks that the target knows the RPC, before data is written to it in vain.
    pub(in crate::run) async fn probe(
        &self,
        case: &ListCase,
        running: &Running,
    ) -> Result<(), EarlyEnd> {
        // RangeStream is the only RPC that an etcd may not know, and a server reads all of any
        // other list as soon as it begins.
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
        let probe = timeout(RESPONSE_TIMEOUT, probe);
        let probed = self.unless_stopped(probe).await?;
        match probed.unwrap_or(Err(ListError::Slow(RESPONSE_TIMEOUT))) {
            Err(ListError::Etcd(EtcdError::Unimplemented(text))) => Err(EarlyEnd::NotApplicable(
                format!("{} has no RangeStream: {text}", running.setup.program),
            )),
            other => Ok(other?),
        }
    }
}
