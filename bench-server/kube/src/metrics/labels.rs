//! The label set of most metrics: the resource.

use prometheus_client::encoding::EncodeLabelSet;

use crate::resource::Resource;

/// The resource that a metric is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByResource {
    group: &'static str,
    resource: &'static str,
}

impl ByResource {
    pub(crate) fn of(resource: &Resource) -> Self {
        Self {
            group: resource.group,
            resource: resource.name,
        }
    }
}
