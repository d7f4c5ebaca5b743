//! Which objects the lists of a case must contain: those that a selector selects, or only the keys.

use std::sync::Arc;

use load::verify::Verifier;
use workloads::{PlainList, Selector, Strategy};

use super::{CaseRun, EarlyEnd, ObjectSource};
use crate::seed::kube::SeededObjects;

impl CaseRun<'_> {
    /// Narrows what lists are expected to contain to what their strategy asks for. Returns the
    /// nodes that the lists ask for in turn, if a selector is by node.
    pub(super) async fn narrow(
        &self,
        strategy: Strategy,
        verifier: &mut Verifier,
    ) -> Result<Option<Arc<[String]>>, EarlyEnd> {
        if let Strategy::Selector(selector) = strategy {
            return self.select(selector, verifier).await.map(Some);
        }
        let list = strategy.plain().and_then(PlainList::etcd);
        if list.is_some_and(|list| list.keys_only)
            && let (Some(data), Some(expected)) = (self.data(), &mut verifier.expected)
        {
            let data = Arc::clone(data);
            let keys = tokio::task::spawn_blocking(move || data.fingerprint_of_keys());
            let keys = self.unless_stopped(keys).await?;
            let failed = |error| EarlyEnd::Failed(format!("the keys that are expected: {error}"));
            expected.fingerprint = keys.map_err(failed)?;
            // The sum of revisions is over hashes of keys with their values, which a list of keys
            // only does not have.
            expected.revisions = None;
        }
        Ok(None)
    }

    /// Narrows what lists are expected to contain to what a selector selects. Returns the nodes
    /// that the lists ask for in turn, if the selector is by node.
    async fn select(
        &self,
        selector: Selector,
        verifier: &mut Verifier,
    ) -> Result<Arc<[String]>, EarlyEnd> {
        if let ObjectSource::SeededNamespaces(seeded) = &self.source {
            return self.select_seeded(seeded, selector, verifier).await;
        }
        let (ObjectSource::Fresh(data) | ObjectSource::Seeded { data, .. }) = &self.source else {
            if selector.is_per_node() {
                let reason = "whose nodes these are is known only of data that was seeded";
                return Err(EarlyEnd::NotApplicable(reason.to_owned()));
            }
            return Ok(Arc::default());
        };
        let data = Arc::clone(data);
        let selected = tokio::task::spawn_blocking(move || selector.select(&data));
        let selected = self.unless_stopped(selected).await?;
        let selected = selected.map_err(|e| EarlyEnd::Failed(format!("selecting: {e}")))?;
        if let Some(expected) = &mut verifier.expected {
            expected.fingerprint = selected.all;
            expected.revisions = None;
        }
        let mut nodes: Vec<String> = selected.by_node.keys().cloned().collect();
        nodes.sort();
        verifier.by_node = selected.by_node;
        Ok(nodes.into())
    }

    /// Does the same for objects that were seeded through an API. Their labels are kept by the
    /// server, their fields are set by it.
    async fn select_seeded(
        &self,
        seeded: &Arc<SeededObjects>,
        selector: Selector,
        verifier: &mut Verifier,
    ) -> Result<Arc<[String]>, EarlyEnd> {
        if selector.is_field() {
            let reason = "a pod that is seeded is on no node, and its fields are the server's to fill: only labels can be selected by";
            return Err(EarlyEnd::NotApplicable(reason.to_owned()));
        }
        let seeded = Arc::clone(seeded);
        let selected = tokio::task::spawn_blocking(move || seeded.select(selector));
        let selected = self.unless_stopped(selected).await?;
        let selected = selected.map_err(|e| EarlyEnd::Failed(format!("selecting: {e}")))?;
        let unknown = || {
            let reason =
                "which objects a selector selects is known to the generator alone that seeded them";
            EarlyEnd::NotApplicable(reason.to_owned())
        };
        let selected = selected.ok_or_else(unknown)?;
        if let Some(expected) = &mut verifier.expected {
            expected.fingerprint = selected;
            expected.revisions = None;
        }
        Ok(Arc::default())
    }
}
