//! Loads a data set through a Kubernetes API that loadgen did not start, into namespaces that are
//! removed again.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use workloads::DataSet;

use crate::exit::Failure;
use crate::progress::{Counted, Progress};
use crate::run::plan::Plan;
use crate::run::target::{Target, unusable};
use crate::safety::stored_bytes;
use crate::seed::kube::{Api, Namespaces, SeedError, SeededObjects, seed};

/// A data set in namespaces of the run. [`InNamespaces::clean_up`] removes them again.
pub(in crate::run) struct InNamespaces {
    target: Target,
    api: Api,
    resource: &'static str,
    namespaces: Arc<Namespaces>,
}

impl InNamespaces {
    /// Creates namespaces for the run's `nth` data set and fills them. `None` when stopped
    /// meanwhile. If this fails or is stopped, the namespaces are removed again.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 and the API's error.
    pub(in crate::run) async fn create(
        plan: &Plan,
        target: &Target,
        data: &Arc<DataSet>,
        nth: usize,
        progress: &Progress,
        stop: &CancellationToken,
    ) -> Result<Option<(Self, Arc<SeededObjects>)>, Failure> {
        let api = plan.launcher.kube_of(&target.spec);
        let (url, access) = api.map_err(|e| unusable(target, e))?;
        let namespaces = Namespaces::new(&plan.run_id, nth, data.namespaces());
        let own = Self {
            target: target.clone(),
            api: Api { url, access },
            resource: data.prefix().trim_end_matches('/'),
            namespaces: Arc::new(namespaces),
        };
        progress.say(&format!(
            "{target}: writing {} {}, some {} MiB, into {} namespaces {}…",
            data.len(),
            own.resource,
            stored_bytes(data, "/registry/") >> 20,
            data.namespaces(),
            own.namespaces.names_begin()
        ));
        let title = format!("loading {target}");
        let phase = progress.phase(&title, data.len(), Counted::Objects);
        let loading = async {
            own.namespaces.create(&own.api).await?;
            seed(&own.api, data, &own.namespaces, &phase).await
        };
        let seeded: Option<Result<SeededObjects, SeedError>> = tokio::select! {
            seeded = loading => Some(seeded),
            () = stop.cancelled() => None,
        };
        match seeded {
            Some(Ok(seeded)) => {
                phase.done("written");
                Ok(Some((own, Arc::new(seeded))))
            }
            Some(Err(error)) => {
                let left = own.clean_up(false, progress).await.err();
                let left = left.map(|left| format!("; {left}")).unwrap_or_default();
                Err(unusable(target, format!("{error}{left}")))
            }
            None => match own.clean_up(false, progress).await {
                Ok(()) => Ok(None),
                Err(left) => Err(unusable(target, left)),
            },
        }
    }

    /// Removes the namespaces with everything in them, unless `keep` is set. An interruption waits
    /// for this, for five minutes at most, so it must not be interrupted itself.
    ///
    /// # Errors
    /// One line with what is left behind.
    pub(in crate::run) async fn clean_up(
        self,
        keep: bool,
        progress: &Progress,
    ) -> Result<(), String> {
        let target = &self.target;
        if keep {
            progress.say(&format!("{target}: {}", self.namespaces.kept()));
            return Ok(());
        }
        let names = self.namespaces.names().len() as u64;
        let title = format!("removing namespaces from {target}");
        let phase = progress.phase(&title, names, Counted::Namespaces);
        let removed = self
            .namespaces
            .remove(&self.api, self.resource, &phase)
            .await;
        removed.map_err(|left| left.to_string())?;
        phase.done("done");
        Ok(())
    }
}
