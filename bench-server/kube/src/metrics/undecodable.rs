//! Counts objects, stored or in the cache, that cannot be decoded or converted.

use prometheus_client::metrics::counter::Counter;

/// The counters of one resource: apiserver's metric and `bench_undecodable_objects`. Clones share
/// their counts.
#[derive(Debug, Clone, Default)]
pub struct Undecodable(pub(super) [Counter; 2]);

impl Undecodable {
    pub(crate) fn count(&self) {
        for counter in &self.0 {
            counter.inc();
        }
    }
}
