//! The resources that are served, and where etcd keeps them.

use kube_api::schema::{self, Message};

/// One served resource type.
#[derive(Debug)]
pub struct Resource {
    /// Name in URLs and in storage keys.
    pub name: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// Kind of one object.
    pub kind: &'static str,
    /// Kind of a list of them.
    pub list_kind: &'static str,
    /// API version of both.
    pub api_version: &'static str,
    /// Lower-case singular, for discovery.
    pub singular: &'static str,
    /// Abbreviation that kubectl knows.
    pub short_name: &'static str,
    /// Its fields.
    pub message: &'static Message,
    /// Text fields that lists can be selected by (besides name and namespace), with the field numbers that
    /// lead to them.
    pub selectable: &'static [(&'static str, &'static [u32])],
}

/// Everything that is served. All are namespaced.
pub static RESOURCES: [Resource; 2] = [
    Resource {
        name: "pods",
        group: "",
        namespaced: true,
        kind: "Pod",
        list_kind: "PodList",
        api_version: "v1",
        singular: "pod",
        short_name: "po",
        message: &schema::POD,
        selectable: &[
            ("spec.nodeName", &[2, 10]),
            ("spec.restartPolicy", &[2, 3]),
            ("spec.schedulerName", &[2, 19]),
            ("spec.serviceAccountName", &[2, 8]),
            ("status.nominatedNodeName", &[3, 11]),
            ("status.phase", &[3, 1]),
            ("status.podIP", &[3, 6]),
        ],
    },
    Resource {
        name: "configmaps",
        group: "",
        namespaced: true,
        kind: "ConfigMap",
        list_kind: "ConfigMapList",
        api_version: "v1",
        singular: "configmap",
        short_name: "cm",
        message: &schema::CONFIG_MAP,
        selectable: &[],
    },
];

impl Resource {
    /// Storage prefix below `registry` (kube-apiserver's `--etcd-prefix`), with a slash at its end.
    pub fn prefix(&self, registry: &str) -> Vec<u8> {
        format!("{}/{}/", registry.trim_end_matches('/'), self.name).into_bytes()
    }

    /// Its fields; `None` for custom resources, which are stored as JSON.
    pub fn schema(&self) -> Option<&'static Message> {
        Some(self.message)
    }

    /// `"kind":…,"apiVersion":…`, which JSON shows on an object that stands alone.
    pub fn json_head(&self) -> String {
        format!(
            "\"kind\":\"{}\",\"apiVersion\":\"{}\"",
            self.kind, self.api_version
        )
    }
}
