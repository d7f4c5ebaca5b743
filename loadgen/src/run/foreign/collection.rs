//! The collection that is listed on an existing Kubernetes API.

use std::fmt;

use kube_api::{ApiResource, envelope, media_type};

/// The objects of a resource type, in all namespaces or in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) struct Collection {
    /// The resource type.
    pub(in crate::run) resource: ApiResource,
    /// The namespace; `None` for all namespaces.
    pub(in crate::run) namespace: Option<String>,
}

impl Collection {
    /// Returns the path of lists of this collection.
    pub(in crate::run) fn path(&self) -> String {
        self.resource.name.collection(self.namespace.as_deref())
    }

    /// Returns the media type for lists of this collection: protobuf, if the resource supports it,
    /// else JSON.
    pub(in crate::run) fn media_type(&self) -> &'static str {
        match self.resource.has_protobuf {
            true => envelope::MEDIA_TYPE,
            false => media_type::JSON,
        }
    }
}

/// Formats it as `deployments.v1.apps`, or `NAMESPACE/deployments.v1.apps`.
impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        self.resource.name.fmt(f)
    }
}
