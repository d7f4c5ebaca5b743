//! Metrics of the lists that are being sent. They are read from the caches when metrics are
//! scraped.

use std::sync::Arc;

use memory::open_lists;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::WatchCache;
use crate::metrics::labels::ByResource;

/// Collects what open lists, and initial events of watches, keep in memory of these caches'
/// snapshots.
#[derive(Debug)]
pub(crate) struct OpenListCollector {
    caches: Vec<Arc<WatchCache>>,
}

impl OpenListCollector {
    pub(crate) fn new(caches: Vec<Arc<WatchCache>>) -> Self {
        Self { caches }
    }
}

impl Collector for OpenListCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let caches = self.caches.iter();
        let pinned = caches.map(|cache| (ByResource::of(cache.resource()), cache.pinned()));
        open_lists::encode(&mut encoder, &pinned.collect::<Vec<_>>())
    }
}
