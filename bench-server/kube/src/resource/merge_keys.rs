//! The way in which a strategic merge patch merges lists: the `patchStrategy` and `patchMergeKey`
//! of Kubernetes' types.

/// The way in which a list is merged. A list that is not in the table is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListMerge {
    /// The items are objects that are identified by this field.
    ByKey(&'static str),
    /// The items are plain values, and the result is their union.
    AsSet,
}

use ListMerge::{AsSet, ByKey};

/// The lists that are merged: message, field, and kind of merge (core/v1 and meta/v1 of Kubernetes
/// 1.37).
const LISTS: &[(&str, &str, ListMerge)] = &[
    ("ObjectMeta", "finalizers", AsSet),
    ("ObjectMeta", "ownerReferences", ByKey("uid")),
    ("PodSpec", "containers", ByKey("name")),
    ("PodSpec", "ephemeralContainers", ByKey("name")),
    ("PodSpec", "hostAliases", ByKey("ip")),
    ("PodSpec", "imagePullSecrets", ByKey("name")),
    ("PodSpec", "initContainers", ByKey("name")),
    ("PodSpec", "resourceClaims", ByKey("name")),
    ("PodSpec", "schedulingGates", ByKey("name")),
    ("PodSpec", "topologySpreadConstraints", ByKey("topologyKey")),
    ("PodSpec", "volumes", ByKey("name")),
    ("Container", "env", ByKey("name")),
    ("Container", "ports", ByKey("containerPort")),
    ("Container", "volumeDevices", ByKey("devicePath")),
    ("Container", "volumeMounts", ByKey("mountPath")),
    ("EphemeralContainerCommon", "env", ByKey("name")),
    ("EphemeralContainerCommon", "ports", ByKey("containerPort")),
    (
        "EphemeralContainerCommon",
        "volumeDevices",
        ByKey("devicePath"),
    ),
    (
        "EphemeralContainerCommon",
        "volumeMounts",
        ByKey("mountPath"),
    ),
    ("PodStatus", "conditions", ByKey("type")),
    ("PodStatus", "hostIPs", ByKey("ip")),
    ("PodStatus", "podIPs", ByKey("ip")),
    ("PodStatus", "resourceClaimStatuses", ByKey("name")),
    ("NodeSpec", "podCIDRs", AsSet),
    ("NodeStatus", "addresses", ByKey("type")),
    ("NodeStatus", "conditions", ByKey("type")),
    ("NamespaceStatus", "conditions", ByKey("type")),
];

/// Returns how the list `field` of `message` is merged; `None` if it is replaced.
pub(crate) fn list_merge(message: &str, field: &str) -> Option<ListMerge> {
    LISTS
        .iter()
        .find(|(holder, name, _)| *holder == message && *name == field)
        .map(|(_, _, merge)| *merge)
}
