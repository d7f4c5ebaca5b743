//! What a server says of a resource type that it serves.

use crate::group_version_resource::GroupVersionResource;

/// A resource type with what must be known of it to read its lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    /// What its paths are built from.
    pub name: GroupVersionResource,
    /// Kind of one object, as `Deployment`.
    pub kind: String,
    /// Kind of a list, as `DeploymentList`.
    pub list_kind: String,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
    /// Whether it can be watched.
    pub is_watchable: bool,
    /// Whether it is served in protobuf, too: custom resources are served in JSON only.
    pub has_protobuf: bool,
}

impl ApiResource {
    /// Returns a resource type of the core group that is in namespaces, as `pods` of kind `Pod`.
    #[must_use]
    pub fn core(resource: &str, kind: &str) -> Self {
        Self {
            name: GroupVersionResource::core(resource),
            kind: kind.to_owned(),
            list_kind: list_kind(kind),
            is_namespaced: true,
            is_watchable: true,
            has_protobuf: true,
        }
    }
}

/// Returns what lists of a kind are called unless their definition says otherwise.
pub(crate) fn list_kind(kind: &str) -> String {
    format!("{kind}List")
}
