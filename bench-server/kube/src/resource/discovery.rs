//! Discovery: what kubectl and client libraries request before anything else.
//!
//! - [`legacy`]: a list of the groups, and a document for each version of each group
//! - [`aggregated`]: everything below `/api` or `/apis` in one document (KEP-3352)
//! - [`openapi`]: the OpenAPI v3 schemas of each kind, and the parameters of each URL
//! - [`groups`]: the parts that are common to all discovery documents
//!
//! The documents depend only on the table of resources, and are created once.

mod aggregated;
mod groups;
mod legacy;
mod openapi;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use kube_api::media_type::JSON;
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

use self::groups::root;
use super::RESOURCES;

/// A document and its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) media_type: &'static str,
    pub(crate) body: &'static str,
    /// The entity tag of a document that was chosen by `Accept`. The response is then public and
    /// varies with that header.
    pub(crate) etag: Option<&'static str>,
}

/// Returns the document at `path`, in the aggregated form if the header `accept` includes it;
/// `None` if there is no document.
pub(crate) fn document(path: &str, accept: &str) -> Option<Document> {
    static AGGREGATED: LazyLock<HashMap<String, (String, String)>> = LazyLock::new(|| {
        let documents = aggregated::documents().into_iter();
        let tagged = documents.map(|(path, body)| {
            let body = text(&body);
            let etag = format!("\"{:016X}\"", XxHash3_64::oneshot(body.as_bytes()));
            (path, (body, etag))
        });
        tagged.collect()
    });
    // A trailing slash is ignored.
    let path = path.strip_suffix('/').unwrap_or(path);
    if aggregated::accepted(accept)
        && let Some((body, etag)) = AGGREGATED.get(path)
    {
        return Some(Document {
            media_type: aggregated::MEDIA_TYPE,
            body,
            etag: Some(etag.as_str()),
        });
    }
    PLAIN.get(path).map(|body| Document {
        media_type: JSON,
        body,
        etag: None,
    })
}

/// The documents that do not depend on `Accept`, by their paths.
static PLAIN: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let documents = legacy::documents()
        .into_iter()
        .chain(openapi::documents())
        .chain([("/version".to_owned(), version())]);
    documents.map(|(path, body)| (path, text(&body))).collect()
});

/// Returns the document at `/`: the paths of all others, and these.
pub(crate) fn root_paths(others: impl Iterator<Item = String>) -> String {
    let paths: BTreeSet<String> = PLAIN.keys().cloned().chain(others).collect();
    format!("{:#}", json!({"paths": paths}))
}

/// Returns whether a path is below a served version of a group, so that errors are a Status. This
/// includes every path below `/api`.
pub(crate) fn is_below_a_version(path: &str) -> bool {
    let below = |root: &str| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    below("/api") || RESOURCES.iter().any(|resource| below(&root(resource)))
}

fn text(document: &Value) -> String {
    format!("{document}\n")
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "gitVersion": concat!("v1.37.0-bench-server.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

#[cfg(test)]
mod tests {
    use super::groups::group_versions;
    use super::*;

    /// The `Accept` header of kubectl 1.37.
    const KUBECTL: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
        application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

    fn read(path: &str, accept: &str) -> (Value, &'static str) {
        let document = document(path, accept).unwrap_or_else(|| panic!("nothing at {path}"));
        let body = serde_json::from_str(document.body).expect("JSON");
        (body, document.media_type)
    }

    #[test]
    fn both_forms_name_the_same_resources() {
        let mut plain: Vec<String> = Vec::new();
        for (version, resources) in group_versions() {
            let (list, _) = read(&root(resources[0]), "");
            assert_eq!(list["groupVersion"], version);
            let names = list["resources"].as_array().expect("a list").iter();
            plain.extend(
                names.map(|named| format!("{version}/{}", named["name"].as_str().unwrap_or("?"))),
            );
        }
        let mut whole: Vec<String> = Vec::new();
        for path in ["/api", "/apis"] {
            let (list, media_type) = read(path, KUBECTL);
            assert!(media_type.ends_with("as=APIGroupDiscoveryList"));
            for group in list["items"].as_array().expect("a list") {
                for version in group["versions"].as_array().expect("a list") {
                    let group = group["metadata"]["name"].as_str().unwrap_or_default();
                    let slash = if group.is_empty() { "" } else { "/" };
                    let version_name = version["version"].as_str().unwrap_or("?");
                    for resource in version["resources"].as_array().expect("a list") {
                        let name = resource["resource"].as_str().unwrap_or("?");
                        whole.push(format!("{group}{slash}{version_name}/{name}"));
                        for below in resource["subresources"].as_array().unwrap_or(&Vec::new()) {
                            let below = below["subresource"].as_str().unwrap_or("?");
                            whole.push(format!("{group}{slash}{version_name}/{name}/{below}"));
                        }
                    }
                }
            }
        }
        assert_eq!(plain, whole);
        for part in ["v1/pods/status", "v1/namespaces/finalize"] {
            assert!(plain.contains(&part.to_owned()), "{part}: {plain:?}");
        }
    }

    #[test]
    fn other_paths_are_no_documents() {
        for path in ["/", "/apis/", "/api/v1/", "/version/"] {
            assert_eq!(document(path, "").is_some(), path != "/", "{path}");
        }
        for path in [
            "/api/v2",
            "/apis/apps/v1",
            "/openapi/v2",
            "/openapi/v3/api/v2",
        ] {
            assert_eq!(document(path, KUBECTL), None, "{path}");
        }
    }
}
