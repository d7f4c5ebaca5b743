//! Cases on existing endpoints, one endpoint after the other. The endpoint is either seeded once
//! for all its cases and always cleaned up, or its existing contents are listed.

use std::sync::Arc;

use workloads::{DataSet, Tier};

use super::availability::combination::needs_kubernetes;
use super::case::ObjectSource;
use super::foreign::{InNamespaces, Listed, Precautions, Seeded};
use super::target::{answered, unusable};
use super::{Run, Target, both};
use crate::exit::Failure;
use crate::servers::target_spec::TargetSpec;

impl Run<'_> {
    /// Runs all cases on an existing endpoint, with its existing contents or with a data set that
    /// is written once and always cleaned up.
    pub(super) async fn foreign(
        &mut self,
        target: &Target,
        data: &Arc<DataSet>,
    ) -> Result<(), Failure> {
        let together = self.plan.together;
        if let Some(at) = together.start_at.filter(|_| !together.shard.is_whole()) {
            return self.share(target, data, at).await;
        }
        if let TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) = target.spec {
            return match self.plan.seed_data {
                true => self.in_namespaces(target, data).await,
                false => self.whatever_is_there(target, &data.spec().name).await,
            };
        }
        let seeded = Seeded::create(self.plan, target, data, self.progress, self.stop);
        let Some(seeded) = seeded.await? else {
            self.result.report.interrupted = true;
            return Ok(());
        };
        let source = seeded.source();
        let data_set = &data.spec().name;
        // An endpoint without keys was set up to be measured, so its cases run without precautions,
        // as on started servers.
        let measured = if seeded.others > 0 {
            let listed = Listed::ours(data, &seeded.root);
            self.with_care(target, listed, &source, data_set, None)
                .await
        } else {
            for (tier, spec) in self.scenario.cases_on(data_set) {
                self.case(target, tier, spec, source.clone(), None).await;
            }
            Ok(())
        };
        let deleted = seeded.clean_up(self.plan.keep_data, self.progress).await;
        let deleted = deleted.map_err(|left| unusable(target, left));
        both(measured, deleted)
    }

    /// Runs all cases on an existing Kubernetes API, in namespaces that are created for them and
    /// always removed.
    async fn in_namespaces(&mut self, target: &Target, data: &Arc<DataSet>) -> Result<(), Failure> {
        if let Some(reason) = needs_kubernetes(data.spec().kind, Tier::Kube) {
            self.progress.say(&format!("{target}: {reason}"));
            return Ok(());
        }
        if !self.reach(target, &data.spec().name).await? {
            return Ok(());
        }
        self.loads += 1;
        let (plan, progress) = (self.plan, self.progress);
        let nth = self.loads;
        let made = InNamespaces::create(plan, target, data, nth, progress, self.stop).await?;
        let Some((namespaces, loaded)) = made else {
            self.result.report.interrupted = true;
            return Ok(());
        };
        let collection = plan.collection(self.scenario, &data.spec().name);
        let source = ObjectSource::SeededNamespaces(Arc::clone(&loaded));
        let listed = Listed::Collection(collection);
        let data_set = &data.spec().name;
        let measured = self
            .with_care(target, listed, &source, data_set, None)
            .await;
        let removed = namespaces.clean_up(plan.keep_data, progress).await;
        let removed = removed.map_err(|left| unusable(target, left));
        both(measured, removed)
    }

    /// Runs the cases of `--prefix`: everything below the prefix is listed, and nothing written.
    pub(super) async fn prefix(&mut self) -> Result<(), Failure> {
        let name = format!("prefix:{}", self.plan.prefix.as_deref().unwrap_or_default());
        for target in &self.plan.targets {
            if !target.spec.is_started() && !self.is_over {
                self.whatever_is_there(target, &name).await?;
            }
        }
        Ok(())
    }

    /// Checks that an endpoint responds and accepts the credentials. Returns false when stopped
    /// meanwhile.
    ///
    /// # Errors
    /// [`Failure`] when it does not: the command line is wrong, rather than a case failed.
    pub(super) async fn reach(&mut self, target: &Target, data_set: &str) -> Result<bool, Failure> {
        let collection = self.plan.collection(self.scenario, data_set);
        let reach = async {
            let launcher = &self.plan.launcher;
            let (path, accept) = (collection.path(), collection.media_type());
            let reached = launcher.reach(&target.spec, &path, accept).await;
            reached.map_err(|e| unusable(target, e))
        };
        tokio::select! {
            reached = answered(target, reach) => reached.map(|()| true),
            () = self.stop.cancelled() => {
                self.result.report.interrupted = true;
                Ok(false)
            }
        }
    }

    async fn whatever_is_there(&mut self, target: &Target, name: &str) -> Result<(), Failure> {
        if !self.reach(target, name).await? {
            return Ok(());
        }
        let plan = self.plan;
        let listed = Listed::there(plan, target, self.scenario, name);
        let collection = plan.collection(self.scenario, name);
        let shown = plan.name_of(&collection, name);
        let source = ObjectSource::Existing {
            prefix: plan.prefix.clone().unwrap_or_default(),
            collection,
        };
        self.with_care(target, listed, &source, name, Some(&shown))
            .await
    }

    /// Runs the cases of a data set on an endpoint that holds other people's data, from the
    /// cheapest to the most expensive and with all precautions. `name` names the data in results,
    /// if it is not the data set itself.
    pub(super) async fn with_care(
        &mut self,
        target: &Target,
        listed: Listed,
        source: &ObjectSource,
        data_set: &str,
        name: Option<&str>,
    ) -> Result<(), Failure> {
        let (plan, scenario, progress) = (self.plan, self.scenario, self.progress);
        let begun = Precautions::begin(
            plan, target, listed, scenario, data_set, progress, self.stop,
        );
        let Some(care) = begun.await? else {
            self.result.report.interrupted = true;
            return Ok(());
        };
        // The first of several generators checks this for all of them.
        if plan.together.shard.index() == 0 {
            self.conformance(target, care.stop()).await?;
        }
        for (tier, spec) in care.in_order(scenario, data_set) {
            self.case_with_precautions(target, tier, spec, source.clone(), name, Some(&care))
                .await;
        }
        self.is_over |= care.stopped().is_some();
        Ok(())
    }
}
