//! The initial list: everything that storage holds of a resource becomes the state of its cache.

use std::sync::Arc;

use etcd_api::error::Error;
use etcd_api::kubernetes::KubernetesEtcd;

use super::WatchCache;
use super::index::{Indexes, build};
use crate::storage::list_reader::{Source, StreamSupport};

impl WatchCache {
    /// Lists everything; answers the revision at which that is true.
    pub(super) async fn fill(
        &self,
        backend: &dyn KubernetesEtcd,
        streams: &StreamSupport,
    ) -> Result<i64, Error> {
        let source = Source {
            backend,
            decoder: self.decoder(),
            below: "",
            start: "",
            revision: 0,
        };
        // Beside the list: what storage says about itself is known while a long first list is read.
        let (filled, ()) = tokio::join!(source.read(streams), self.learn_progress(backend));
        let filled = filled?;
        tracing::info!(
            "{}: {} objects at revision {}",
            self.resource.name,
            filled.tree.len(),
            filled.revision
        );
        let indexes = match self.gates.cache_index {
            true => {
                let (resource, tree) = (self.resource, filled.tree.clone());
                build::elsewhere(move || Indexes::build(resource, &tree)).await
            }
            false => Indexes::default(),
        };
        self.change(|state| {
            state.generation += 1;
            if filled.revision < state.revision {
                state.abandoned = state.abandoned.max(state.revision);
            }
            state.replaced += state.tree.weight();
            state.ring.reset(filled.revision);
            state.revision = filled.revision;
            state.tree = filled.tree;
            state.indexes = Arc::new(indexes);
            let kept = state.kept();
            state.snapshots.reset(filled.revision, kept);
            state.inconsistent = false;
            state.ready = true;
        });
        Ok(filled.revision)
    }
}
