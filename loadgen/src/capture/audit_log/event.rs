//! One event of an audit log: the object of its request, and how the request asks for it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The subresources whose requests read or write objects: those of others (logs, exec, proxies,
/// tokens) ask little of etcd.
const SUBRESOURCES: [&str; 9] = [
    "",
    "status",
    "scale",
    "finalize",
    "approval",
    "resize",
    "binding",
    "eviction",
    "ephemeralcontainers",
];
/// The groups with a dot that are Kubernetes' own, and whose objects' keys lack the group.
const OWN_GROUPS: [&str; 14] = [
    "admissionregistration.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];
/// The status of a response to a request that has created an object.
const CREATED: u16 = 201;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    pub(super) stage: String,
    pub(super) verb: String,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: String,
    pub(super) object_ref: Option<ObjectRef>,
    pub(super) response_status: Option<ResponseStatus>,
    pub(super) request_received_timestamp: String,
    pub(super) stage_timestamp: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectRef {
    #[serde(default)]
    pub(super) resource: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) api_group: String,
    #[serde(default)]
    pub(super) subresource: String,
}

#[derive(Deserialize)]
pub(super) struct ResponseStatus {
    #[serde(default)]
    pub(super) code: u16,
}

/// The query of a request's URI.
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn of(uri: &str) -> Self {
        let query = uri.split_once('?').map_or("", |(_, query)| query);
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// Returns the strategy that lists all objects as this query does.
    pub(super) fn strategy(&self) -> String {
        let (version, limit) = (self.value("resourceVersion"), self.value("limit"));
        match (self.value("resourceVersionMatch"), version, limit) {
            ("Exact", ..) => "exact".to_owned(),
            // An apiserver ignores the limit then.
            (_, "0", _) => "cached".to_owned(),
            (_, "", "" | "0") => "consistent".to_owned(),
            (_, _, "" | "0") => "cached".to_owned(),
            (_, _, limit) => format!("paged:{limit}"),
        }
    }

    /// Returns whether the request only tries what a write would do.
    pub(super) fn is_dry_run(&self) -> bool {
        !self.value("dryRun").is_empty()
    }

    /// Returns a parameter; empty if it is not given.
    pub(super) fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl ObjectRef {
    /// Returns whether a request reads or writes objects.
    pub(super) fn is_counted(&self) -> bool {
        !self.resource.is_empty() && SUBRESOURCES.contains(&self.subresource.as_str())
    }

    /// Returns what a request does to the object: a binding is a POST that updates a pod, an
    /// eviction one that deletes it, and an update or a patch may have created its object.
    pub(super) fn verb<'v>(&self, verb: &'v str, status: u16) -> &'v str {
        match (verb, self.subresource.as_str(), status) {
            ("create", "binding", _) => "update",
            ("create", "eviction", _) => "delete",
            ("update" | "patch", _, CREATED) => "create",
            _ => verb,
        }
    }

    /// Returns whether a list or a watch is of a part of the resource's objects.
    pub(super) fn is_partial(&self, query: &Query) -> bool {
        !self.namespace.is_empty()
            || !self.name.is_empty()
            || !query.value("labelSelector").is_empty()
            || !query.value("fieldSelector").is_empty()
            || !query.value("shardSelector").is_empty()
    }

    /// Returns the name below `/registry/` of the resource's objects: without the group where
    /// Kubernetes has chosen it, and in some cases an older name.
    pub(super) fn stored_as(&self) -> String {
        let Self {
            resource,
            api_group: group,
            ..
        } = self;
        if group.contains('.') && !OWN_GROUPS.contains(&group.as_str()) {
            return format!("{group}/{resource}");
        }
        let stored_as = match resource.as_str() {
            "nodes" => "minions",
            "endpoints" => "services",
            "ingresses" => "ingress",
            "replicationcontrollers" => "controllers",
            resource => resource,
        };
        stored_as.to_owned()
    }
}
