//! The served resources: their names, their keys in storage, and the encodings of their objects.
//!
//! - [`object`]: an object in the cache's encoding; [`mod@filter`]: selectors
//! - [`media_type`], [`representation`], [`table`]: the forms in which responses contain objects
//! - [`strategy`], [`name_rule`], [`merge_keys`]: the differences between kinds in writes
//! - [`discovery`]: describes the served resources to kubectl and client libraries

pub(crate) mod discovery;
pub(crate) mod filter;
pub mod media_type;
pub(crate) mod merge_keys;
pub(crate) mod name_rule;
pub mod object;
pub mod representation;
pub(crate) mod strategy;
pub(crate) mod table;

use kube_api::custom_resource::custom_resource_to_json;
use kube_api::schema::{self, Message};
use kube_api::{ToJsonError, to_json};

use self::Field::{Flag, Never, Text, TextOr};

/// A served resource.
#[derive(Debug)]
pub struct Resource {
    /// The name in URLs.
    pub name: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The API version of objects and lists: `v1`, or `GROUP/VERSION`.
    pub api_version: &'static str,
    /// Whether the objects are in namespaces.
    pub namespaced: bool,
    /// The kind of one object.
    pub kind: &'static str,
    /// The kind of a list of objects.
    pub list_kind: &'static str,
    /// The lower-case singular, for discovery.
    pub singular: &'static str,
    /// The abbreviations for kubectl, for discovery.
    pub short_names: &'static [&'static str],
    /// The categories of the resource, for discovery: `kubectl get all` requests the resources of
    /// the category `all`.
    pub categories: &'static [&'static str],
    /// The part of the storage keys between the registry's prefix and the namespace or name.
    pub directory: &'static str,
    /// The schema of the objects; `None` for a custom resource, which is stored as JSON.
    pub message: Option<&'static Message>,
    /// The fields by which lists can be selected, in addition to `metadata.name` and
    /// `metadata.namespace`. `None` for kinds that have only those two, whose errors are worded
    /// differently.
    pub selectable: Option<&'static [(&'static str, Field)]>,
}

/// The path to a selectable field, as field numbers, and its type.
#[derive(Debug, Clone, Copy)]
pub enum Field {
    /// A text.
    Text(&'static [u32]),
    /// A text, or another one if the first is empty.
    TextOr(&'static [u32], &'static [u32]),
    /// A boolean: `true` or `false`.
    Flag(&'static [u32]),
    /// A field that is accepted in selectors, but empty in every object.
    Never,
}

/// All served resources.
pub static RESOURCES: [Resource; 8] = [
    Resource {
        name: "pods",
        group: "",
        api_version: "v1",
        namespaced: true,
        kind: "Pod",
        list_kind: "PodList",
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        directory: "pods",
        message: Some(&schema::POD),
        selectable: Some(&[
            ("spec.nodeName", Text(&[2, 10])),
            ("spec.restartPolicy", Text(&[2, 3])),
            ("spec.schedulerName", Text(&[2, 19])),
            ("spec.serviceAccountName", Text(&[2, 8])),
            ("spec.hostNetwork", Flag(&[2, 11])),
            ("status.phase", Text(&[3, 1])),
            ("status.podIP", Text(&[3, 6])),
            ("status.podIPs", Never),
            ("status.nominatedNodeName", Text(&[3, 11])),
        ]),
    },
    Resource {
        name: "configmaps",
        group: "",
        api_version: "v1",
        namespaced: true,
        kind: "ConfigMap",
        list_kind: "ConfigMapList",
        singular: "configmap",
        short_names: &["cm"],
        categories: &[],
        directory: "configmaps",
        message: Some(&schema::CONFIG_MAP),
        selectable: None,
    },
    Resource {
        name: "secrets",
        group: "",
        api_version: "v1",
        namespaced: true,
        kind: "Secret",
        list_kind: "SecretList",
        singular: "secret",
        short_names: &[],
        categories: &[],
        directory: "secrets",
        message: Some(&schema::SECRET),
        selectable: Some(&[("type", Text(&[3]))]),
    },
    Resource {
        name: "nodes",
        group: "",
        api_version: "v1",
        namespaced: false,
        kind: "Node",
        list_kind: "NodeList",
        singular: "node",
        short_names: &["no"],
        categories: &[],
        // Kubernetes stores nodes under their name from before its first release.
        directory: "minions",
        message: Some(&schema::NODE),
        selectable: Some(&[("spec.unschedulable", Flag(&[2, 4]))]),
    },
    Resource {
        name: "namespaces",
        group: "",
        api_version: "v1",
        namespaced: false,
        kind: "Namespace",
        list_kind: "NamespaceList",
        singular: "namespace",
        short_names: &["ns"],
        categories: &[],
        directory: "namespaces",
        message: Some(&schema::NAMESPACE),
        selectable: Some(&[("status.phase", Text(&[3, 1]))]),
    },
    Resource {
        name: "events",
        group: "",
        api_version: "v1",
        namespaced: true,
        kind: "Event",
        list_kind: "EventList",
        singular: "event",
        short_names: &["ev"],
        categories: &[],
        directory: "events",
        message: Some(&schema::EVENT),
        selectable: Some(&[
            ("involvedObject.kind", Text(&[2, 1])),
            ("involvedObject.namespace", Text(&[2, 2])),
            ("involvedObject.name", Text(&[2, 3])),
            ("involvedObject.uid", Text(&[2, 4])),
            ("involvedObject.apiVersion", Text(&[2, 5])),
            ("involvedObject.resourceVersion", Text(&[2, 6])),
            ("involvedObject.fieldPath", Text(&[2, 7])),
            ("reason", Text(&[3])),
            ("reportingComponent", Text(&[14])),
            ("source", TextOr(&[5, 1], &[14])),
            ("type", Text(&[9])),
        ]),
    },
    Resource {
        name: "leases",
        group: "coordination.k8s.io",
        api_version: "coordination.k8s.io/v1",
        namespaced: true,
        kind: "Lease",
        list_kind: "LeaseList",
        singular: "lease",
        short_names: &[],
        categories: &[],
        directory: "leases",
        message: Some(&schema::LEASE),
        selectable: None,
    },
    Resource {
        name: "widgets",
        group: "bench.example.com",
        api_version: "bench.example.com/v1",
        namespaced: true,
        kind: "Widget",
        list_kind: "WidgetList",
        singular: "widget",
        short_names: &[],
        categories: &[],
        directory: "bench.example.com/widgets",
        message: None,
        selectable: Some(&[]),
    },
];

impl Resource {
    /// Returns the storage prefix below `registry` (kube-apiserver's `--etcd-prefix`), with a slash
    /// at its end.
    pub fn prefix(&self, registry: &str) -> Vec<u8> {
        format!("{}/{}/", registry.trim_end_matches('/'), self.directory).into_bytes()
    }

    /// Returns the version without the group: `v1`.
    pub fn version(&self) -> &'static str {
        match self.api_version.split_once('/') {
            Some((_, version)) => version,
            None => self.api_version,
        }
    }

    /// Returns the schema of the objects; `None` for a custom resource, which is stored as JSON.
    pub fn schema(&self) -> Option<&'static Message> {
        self.message
    }

    /// Returns `"kind":…,"apiVersion":…`, with which the JSON of a single object begins.
    pub fn json_head(&self) -> String {
        format!(
            "\"kind\":\"{}\",\"apiVersion\":\"{}\"",
            self.kind, self.api_version
        )
    }

    /// Returns an object's storage key without the resource's prefix.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        match self.namespaced {
            true => format!("{namespace}/{name}"),
            false => name.to_owned(),
        }
    }

    /// Appends an object, given in the cache's encoding, as JSON. `head` is [`Self::json_head`] for
    /// a single object and empty for an item of a list. Custom objects contain their kind and API
    /// version in either case.
    ///
    /// # Errors
    /// The encoded object is malformed. `out` then ends with a part of it.
    pub fn put_json(
        &self,
        encoded: &[u8],
        head: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), ToJsonError> {
        match self.message {
            Some(message) => to_json(message, encoded, head, out),
            None => {
                custom_resource_to_json(encoded, out).map_err(|source| ToJsonError::Malformed {
                    message: self.kind,
                    source,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_keys_are_an_apiservers() {
        let prefix = |name: &str| {
            let resource = RESOURCES.iter().find(|resource| resource.name == name);
            let prefix = resource.expect("served").prefix("/registry/");
            String::from_utf8(prefix).expect("text")
        };
        assert_eq!(prefix("pods"), "/registry/pods/");
        assert_eq!(prefix("nodes"), "/registry/minions/");
        assert_eq!(prefix("leases"), "/registry/leases/");
        assert_eq!(prefix("widgets"), "/registry/bench.example.com/widgets/");
    }
}
