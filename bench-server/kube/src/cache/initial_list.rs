//! The initial list: reads all objects of a resource from storage into the cache.

use std::sync::Arc;

use etcd_api::error::Error;
use etcd_api::kubernetes::KubernetesEtcd;

use super::WatchCache;
use super::index::{Indexes, build};
use crate::storage::list_reader::{ListReader, StreamSupport};

impl WatchCache {
    /// Lists all objects, replaces the state of the cache by them, and returns their revision.
    pub(super) async fn initial_list(
        &self,
        backend: &dyn KubernetesEtcd,
        streams: &StreamSupport,
    ) -> Result<i64, Error> {
        let reader = ListReader {
            backend,
            decoder: self.decoder(),
            namespace_prefix: "",
            start: "",
            revision: 0,
        };
        // Both run concurrently, because reading a large resource takes long.
        let (listed, ()) = tokio::join!(reader.read(streams), self.check_progress_support(backend));
        let listed = listed?;
        tracing::info!(
            "{}: the watch cache has {} objects at revision {}",
            self.resource.name,
            listed.tree.len(),
            listed.revision
        );
        let indexes = match self.gates.cache_index {
            true => {
                let (resource, tree) = (self.resource, listed.tree.clone());
                build::run_blocking(move || Indexes::build(resource, &tree)).await
            }
            false => Indexes::default(),
        };
        self.change(|state| {
            state.generation += 1;
            if listed.revision < state.revision {
                state.abandoned_revision = state.abandoned_revision.max(state.revision);
            }
            state.replaced_bytes += state.tree.weight();
            state.history.reset(listed.revision);
            state.revision = listed.revision;
            state.tree = listed.tree;
            state.indexes = Arc::new(indexes);
            let snapshot = state.past_snapshot();
            state.past_snapshots.reset(listed.revision, snapshot);
            state.inconsistent = false;
            state.ready = true;
        });
        Ok(listed.revision)
    }
}
