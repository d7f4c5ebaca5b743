//! Legacy discovery: `/api` and `/apis` list the groups, and a document for each version of a group
//! lists its resources.

use serde_json::{Value, json};

use super::groups::{group_versions, put_names, root, subresources, verbs};
use crate::resource::Resource;

/// Returns every document with its path.
pub(super) fn documents() -> Vec<(String, Value)> {
    let mut documents = vec![(
        "/api".to_owned(),
        json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
    )];
    let mut groups = Vec::new();
    for (version, resources) in group_versions() {
        let first = resources[0];
        let entries: Vec<_> = resources
            .iter()
            .flat_map(|resource| entries(resource))
            .collect();
        let mut list =
            json!({"kind": "APIResourceList", "groupVersion": version, "resources": entries});
        // Only the document of the core group, the oldest, has no `apiVersion`.
        if !first.group.is_empty() {
            list["apiVersion"] = "v1".into();
        }
        documents.push((root(first), list));
        if !first.group.is_empty() {
            let served = json!({"groupVersion": version, "version": first.version()});
            let mut group =
                json!({"name": first.group, "versions": [served], "preferredVersion": served});
            groups.push(group.clone());
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            documents.push((format!("/apis/{}", first.group), group));
        }
    }
    // Without this document kubectl fails, even if the document lists no group.
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    documents.push(("/apis".to_owned(), list));
    documents
}

fn entries(resource: &Resource) -> Vec<Value> {
    let mut whole = json!({
        "name": resource.name,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    put_names(resource, &mut whole);
    let mut entries = vec![whole];
    for (part, verbs) in subresources(resource) {
        entries.push(json!({
            "name": format!("{}/{part}", resource.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": verbs,
        }));
    }
    entries
}
