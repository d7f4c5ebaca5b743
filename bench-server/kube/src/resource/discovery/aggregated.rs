//! Aggregated discovery: one document for `/api` and one for `/apis` (KEP-3352).

use serde_json::{Value, json};

use super::groups::{group_versions, put_names, subresources, verbs};
use crate::resource::Resource;

/// The media type of the response. Without it, kubectl expects the legacy form.
pub(super) const MEDIA_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns whether any alternative of an `Accept` header is this form.
pub(super) fn accepted(accept: &str) -> bool {
    let wanted = [
        "application/json",
        "g=apidiscovery.k8s.io",
        "v=v2",
        "as=APIGroupDiscoveryList",
    ];
    accept.split(',').any(|alternative| {
        let parts: Vec<_> = alternative.split(';').map(str::trim).collect();
        wanted.iter().all(|part| parts.contains(part))
    })
}

/// Returns both documents with their paths.
pub(super) fn documents() -> Vec<(String, Value)> {
    let groups = |core: bool| -> Vec<Value> {
        let versions = group_versions().into_iter();
        versions
            .filter(|(_, resources)| resources[0].group.is_empty() == core)
            .map(|(_, resources)| group(&resources))
            .collect()
    };
    let document = |items: Vec<Value>| {
        json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        })
    };
    vec![
        ("/api".to_owned(), document(groups(true))),
        ("/apis".to_owned(), document(groups(false))),
    ]
}

fn group(resources: &[&Resource]) -> Value {
    let version = json!({
        "version": resources[0].version(),
        "freshness": "Current",
        "resources": resources.iter().map(|resource| self::resource(resource)).collect::<Vec<_>>(),
    });
    // The core group has no name and therefore no metadata.
    let metadata = match resources[0].group {
        "" => json!({}),
        group => json!({"name": group}),
    };
    json!({"metadata": metadata, "versions": [version]})
}

fn resource(resource: &Resource) -> Value {
    let kind = response_kind(resource);
    let mut entry = json!({
        "resource": resource.name,
        "responseKind": kind,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    put_names(resource, &mut entry);
    let parts = subresources(resource)
        .into_iter()
        .map(|(part, verbs)| json!({"subresource": part, "responseKind": kind, "verbs": verbs}));
    let parts: Vec<_> = parts.collect();
    if !parts.is_empty() {
        entry["subresources"] = parts.into();
    }
    entry
}

/// Returns the group, version and kind of responses. For built-in kinds, group and version are
/// empty, because they are those of the resource. For custom resources they are set.
fn response_kind(resource: &Resource) -> Value {
    match resource.is_custom() {
        true => {
            json!({"group": resource.group, "version": resource.version(), "kind": resource.kind})
        }
        false => json!({"group": "", "version": "", "kind": resource.kind}),
    }
}
