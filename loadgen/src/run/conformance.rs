//! Checks which rules of the API contract an existing endpoint follows, by probes that only read,
//! before anything is measured on it.

use etcd_api::client::config::ClientConfig;
use tokio_util::sync::CancellationToken;

use super::Run;
use super::target::{Target, unusable};
use crate::exit::Failure;
use crate::probe::kube::KubeEndpoint;
use crate::probe::{Access, Document, RuleVerdict, kube, probe};
use crate::servers::target_spec::TargetSpec;
use crate::to_result;

impl Run<'_> {
    /// Records which rules the endpoint follows, and reports those that it breaks.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 when the endpoint cannot be reached.
    pub(super) async fn conformance(
        &mut self,
        target: &Target,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        let document = match self.probed(target, stop).await {
            // The reason for the stop, reported elsewhere, says more than this error.
            Err(_) if stop.is_cancelled() => return Ok(()),
            probed => probed?,
        };
        for finding in &document.rules {
            if finding.verdict == RuleVerdict::Broken {
                let (rule, received) = (finding.rule, &finding.received);
                self.progress
                    .say(&format!("{target}: breaks the rule {rule}: {received}"));
            }
        }
        let found = to_result::conformance(&target.name, &document);
        self.result.report.conformance.push(found);
        Ok(())
    }

    async fn probed(&self, target: &Target, stop: &CancellationToken) -> Result<Document, Failure> {
        let bad = |error: &dyn std::fmt::Display| unusable(target, error);
        let (launcher, run_id) = (&self.plan.launcher, &self.plan.run_id);
        if let TargetSpec::Etcd(endpoints) = &target.spec {
            let config = ClientConfig {
                endpoints: ClientConfig::new(endpoints).map_err(|e| bad(&e))?.endpoints,
                ..launcher.connect.clone()
            };
            let probed = probe(&config, Access::Read, run_id, stop).await;
            return probed.map_err(|e| bad(&e));
        }
        let (url, access) = launcher.kube_of(&target.spec).map_err(|e| bad(&e))?;
        let endpoint = KubeEndpoint {
            url: url.trim_end_matches('/').to_owned(),
            access,
            storage: None,
        };
        let probed = kube::probe(&endpoint, false, run_id, self.progress, stop).await;
        probed.map_err(|e| bad(&e))
    }
}
