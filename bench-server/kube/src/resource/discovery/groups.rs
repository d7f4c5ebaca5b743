//! The parts that are common to all discovery documents: a resource's group and version, names,
//! verbs and subresources.

use serde_json::{Value, json};

use crate::resource::{RESOURCES, Resource};

/// The verbs of collections and objects.
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// The verbs of a custom resource, in the order of kube-apiserver.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// Returns the names of the subresources, each with its verbs.
pub(super) fn subresources(resource: &Resource) -> Vec<(&'static str, &'static [&'static str])> {
    let finalize = (resource.kind == "Namespace").then_some(("finalize", &["update"][..]));
    let status = resource.has_status();
    let status = status.then_some(("status", &["get", "patch", "update"][..]));
    finalize.into_iter().chain(status).collect()
}

pub(super) fn verbs(resource: &Resource) -> Vec<&'static str> {
    let all = match resource.is_custom() {
        true => CUSTOM_VERBS,
        false => VERBS,
    };
    let served = |verb: &&str| *verb != "deletecollection" || resource.deletes_collections();
    all.into_iter().filter(served).collect()
}

/// Adds the short names and categories, if any.
pub(super) fn put_names(resource: &Resource, entry: &mut Value) {
    for (field, names) in [
        ("shortNames", resource.short_names),
        ("categories", resource.categories),
    ] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
}

/// Returns every version of every group with its resources, in the order of the table.
pub(super) fn group_versions() -> Vec<(&'static str, Vec<&'static Resource>)> {
    let mut versions: Vec<(&str, Vec<&Resource>)> = Vec::new();
    for resource in &RESOURCES {
        match versions
            .iter_mut()
            .find(|(version, _)| *version == resource.api_version)
        {
            Some((_, resources)) => resources.push(resource),
            None => versions.push((resource.api_version, vec![resource])),
        }
    }
    versions
}

/// Returns the path of the resource's API version: `/api/v1` or `/apis/GROUP/VERSION`.
pub(super) fn root(resource: &Resource) -> String {
    let root = if resource.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    format!("{root}/{}", resource.api_version)
}
