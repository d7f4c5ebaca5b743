//! The initial list: everything that storage holds of a resource becomes the state of its cache.

use std::sync::Arc;

use etcd_api::error::Error;
use etcd_api::kubernetes::KubernetesEtcd;

use super::WatchCache;
use super::index::{Indexes, build};
use crate::storage::list_reader::{ListReader, StreamSupport};

impl WatchCache {
    /// Lists everything; answers the revision at which that is true.
    pub(super) async fn initial_list(
        &self,
        backend: &dyn KubernetesEtcd,
        streams: &StreamSupport,
    ) -> Result<i64, Error> {
        let reader = ListReader {
            backend,
            decoder: self.decoder(),
            below: "",
            start: "",
            revision: 0,
        };
        // Beside the list: what storage says about itself is known while a long first list is read.
        let (listed, ()) = tokio::join!(reader.read(streams), self.check_progress_support(backend));
        let listed = listed?;
        tracing::info!(
            "{}: {} objects at revision {}",
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
            let kept = state.past_snapshot();
            state.past_snapshots.reset(listed.revision, kept);
            state.inconsistent = false;
            state.ready = true;
        });
        Ok(listed.revision)
    }
}
