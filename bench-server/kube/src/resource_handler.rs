//! What handles the requests for one resource.

use std::sync::Arc;

use etcd_api::kubernetes::KubernetesEtcd;
use memory::admission::Admission;

use crate::cache::WatchCache;
use crate::feature_gates::FeatureGates;
use crate::metrics::Metrics;
use crate::resource::Resource;
use crate::storage::decoder::Decoder;
use crate::storage::list_reader::StreamSupport;

/// Handles the requests for one resource: [`crate::list`], [`crate::get`], [`crate::watch`] and
/// [`mod@crate::write`] each add their methods.
#[derive(Clone)]
pub struct ResourceHandler {
    /// The resource.
    pub resource: &'static Resource,
    /// Its prefix in storage.
    pub prefix: Vec<u8>,
    /// Its cache; `None` with `--watch-cache=false`.
    pub cache: Option<Arc<WatchCache>>,
    /// What is switched off.
    pub gates: FeatureGates,
    /// Storage.
    pub backend: Arc<dyn KubernetesEtcd>,
    /// Whether storage has RangeStream.
    pub streams: Arc<StreamSupport>,
    /// Metrics.
    pub metrics: Metrics,
    /// Room for lists that are read from storage as a whole.
    pub admission: Admission,
}

impl std::fmt::Debug for ResourceHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResourceHandler({})", self.resource.name)
    }
}

impl ResourceHandler {
    /// Reads what storage has of the resource.
    pub(crate) fn decoder(&self) -> Decoder<'_> {
        Decoder {
            resource: self.resource,
            prefix: &self.prefix,
            metrics: &self.metrics,
        }
    }
}
