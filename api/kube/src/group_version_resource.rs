//! A resource type by group, version and resource, from which the paths to its objects are built.

use std::fmt;

/// The only version of the core group.
const CORE_VERSION: &str = "v1";

/// A resource type in one version of its API group, such as `deployments` of `apps/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupVersionResource {
    api_version: String,
    resource: String,
}

impl GroupVersionResource {
    /// Returns the resource type with these names. The name of the core group is empty.
    #[must_use]
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        let api_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        Self {
            api_version,
            resource: resource.to_owned(),
        }
    }

    /// Returns a resource type of the core group, such as `pods`.
    #[must_use]
    pub fn core(resource: &str) -> Self {
        Self::new("", CORE_VERSION, resource)
    }

    /// Returns the `apiVersion` of its objects: `v1`, or `GROUP/VERSION`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the name of its API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// Returns the version without the group, such as `v1`.
    #[must_use]
    pub fn version(&self) -> &str {
        let whole = self.api_version.as_str();
        whole.split_once('/').map_or(whole, |(_, version)| version)
    }

    /// Returns the resource's name in URLs, the lower-case plural.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the path of the collection: the objects of one namespace, or all.
    #[must_use]
    pub fn collection(&self, namespace: Option<&str>) -> String {
        let Self {
            api_version,
            resource,
        } = self;
        let root = match api_version.contains('/') {
            true => "/apis",
            false => "/api",
        };
        match namespace {
            Some(namespace) => format!("{root}/{api_version}/namespaces/{namespace}/{resource}"),
            None => format!("{root}/{api_version}/{resource}"),
        }
    }

    /// Returns the path of one object in a namespace.
    #[must_use]
    pub fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(Some(namespace)))
    }
}

/// Writes the name in kubectl's syntax: `pods`, `deployments.v1.apps`.
impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.group(), self.version()) {
            ("", CORE_VERSION) => f.write_str(&self.resource),
            (group, version) => write!(f, "{}.{version}.{group}", self.resource),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_names_are_kubernetes() {
        let pods = GroupVersionResource::core("pods");
        assert_eq!(pods.to_string(), "pods");
        assert_eq!((pods.group(), pods.version()), ("", "v1"));
        assert_eq!(pods.api_version(), "v1");
        assert_eq!(pods.collection(None), "/api/v1/pods");
        assert_eq!(pods.object("a", "p"), "/api/v1/namespaces/a/pods/p");

        let widgets = GroupVersionResource::new("example.com", "v1beta1", "widgets");
        assert_eq!(widgets.to_string(), "widgets.v1beta1.example.com");
        assert_eq!(
            (widgets.group(), widgets.version(), widgets.resource()),
            ("example.com", "v1beta1", "widgets")
        );
        assert_eq!(widgets.api_version(), "example.com/v1beta1");
        let all = "/apis/example.com/v1beta1/widgets";
        assert_eq!(widgets.collection(None), all);
        let of_one = "/apis/example.com/v1beta1/namespaces/a/widgets";
        assert_eq!(widgets.collection(Some("a")), of_one);
    }
}
