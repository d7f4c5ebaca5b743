//! The store's metrics, with etcd's names where etcd has them.

use std::sync::Arc;

use memory::metrics::gauge;
use memory::open_lists;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::Node;

/// Reads the store when it is scraped, so that requests have no cost.
#[derive(Debug)]
pub struct StoreCollector {
    node: Arc<Node>,
}

impl StoreCollector {
    /// Returns a collector of `node`'s metrics.
    pub fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let store = &self.node.store;
        let size = store.size_bytes() as i64;
        let e = &mut encoder;
        gauge(
            e,
            "etcd_debugging_mvcc_current_revision",
            "Revision of the last write",
            store.revision(),
        )?;
        gauge(
            e,
            "etcd_debugging_mvcc_compact_revision",
            "Last compacted revision",
            store.compact_revision(),
        )?;
        gauge(
            e,
            "etcd_server_quota_backend_bytes",
            "Most bytes that are stored; negative is no limit",
            store.reported_quota(),
        )?;
        // Compaction frees memory, so all of it is in use.
        gauge(
            e,
            "etcd_mvcc_db_total_size_in_use_in_bytes",
            "Bytes that are in use",
            size,
        )?;
        gauge(
            e,
            "etcd_mvcc_db_total_size_in_bytes",
            "Bytes that the quota is weighed against",
            size,
        )?;
        gauge(
            e,
            "etcd_debugging_mvcc_watcher_total",
            "Watchers of all streams",
            store.watchers() as i64,
        )?;
        const NO_LABELS: [(&str, &str); 0] = [];
        open_lists::encode(e, &[(NO_LABELS, store.pinned())])
    }
}
