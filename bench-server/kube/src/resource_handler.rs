//! The handler of one resource's requests.

use std::sync::Arc;

use etcd_api::kubernetes::KubernetesEtcd;
use memory::admission::Admission;

use crate::cache::WatchCache;
use crate::feature_gates::FeatureGates;
use crate::metrics::Metrics;
use crate::resource::Resource;
use crate::storage::decoder::Decoder;
use crate::storage::list_reader::StreamSupport;

/// The handler of the requests for one resource. [`crate::list`], [`crate::get`], [`crate::watch`]
/// and [`mod@crate::write`] each add the methods for their requests.
#[derive(Clone)]
pub struct ResourceHandler {
    /// The resource.
    pub resource: &'static Resource,
    /// The prefix of the resource's keys in storage.
    pub prefix: Vec<u8>,
    /// The watch cache; `None` with `--watch-cache=false`.
    pub cache: Option<Arc<WatchCache>>,
    /// The mechanisms that are on.
    pub gates: FeatureGates,
    /// The storage of the objects.
    pub backend: Arc<dyn KubernetesEtcd>,
    /// Whether storage is expected to support RangeStream.
    pub streams: Arc<StreamSupport>,
    /// The metrics of the tier.
    pub metrics: Metrics,
    /// Limits the memory for lists that are read from storage.
    pub admission: Admission,
}

impl std::fmt::Debug for ResourceHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResourceHandler({})", self.resource.name)
    }
}

impl ResourceHandler {
    /// Returns the decoder of the resource's stored values.
    pub(crate) fn decoder(&self) -> Decoder<'_> {
        Decoder {
            resource: self.resource,
            prefix: &self.prefix,
            metrics: &self.metrics,
        }
    }
}
