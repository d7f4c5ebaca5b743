//! Discovery: what kubectl and client libraries ask before anything else, unaggregated.

use serde_json::{Value, json};

use super::resource::RESOURCES;

/// The answer for a discovery path; `None` for any other.
pub(crate) fn answer(path: &str) -> Option<Value> {
    Some(match path {
        "/api" => {
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        }
        // Missing groups would be fatal for kubectl; an empty list is not.
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}),
        "/api/v1" => {
            let resources: Vec<_> = RESOURCES
                .iter()
                .filter(|resource| resource.group.is_empty())
                .map(|resource| {
                    json!({
                        "name": resource.name,
                        "singularName": resource.singular,
                        "namespaced": resource.namespaced,
                        "kind": resource.kind,
                        "verbs": ["get", "list"],
                        "shortNames": resource.short_names,
                    })
                })
                .collect();
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": resources})
        }
        "/version" => json!({
            "major": "1",
            "minor": "37",
            "gitVersion": concat!("v1.37.0-bench-server.", env!("CARGO_PKG_VERSION")),
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "",
            "goVersion": "",
            "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }),
        _ => return None,
    })
}
