//! A resource type that a server serves, as its discovery documents describe it.

use crate::group_version_resource::GroupVersionResource;

/// A resource type, with the facts that are needed to read its lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    /// Group, version and resource, from which paths are built.
    pub name: GroupVersionResource,
    /// Kind of one object, such as `Deployment`.
    pub kind: String,
    /// Kind of a list, such as `DeploymentList`.
    pub list_kind: String,
    /// Whether its objects are namespaced.
    pub is_namespaced: bool,
    /// Whether it can be watched.
    pub is_watchable: bool,
    /// Whether it is also served in protobuf. Custom resources are served in JSON only.
    pub has_protobuf: bool,
}

impl ApiResource {
    /// Returns a namespaced resource type of the core group, such as `pods` of kind `Pod`.
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

/// Returns the default kind of lists of a kind, which a custom resource definition may change.
pub(crate) fn list_kind(kind: &str) -> String {
    format!("{kind}List")
}
