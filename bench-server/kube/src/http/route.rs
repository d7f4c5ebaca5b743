//! Parses the paths of the Kubernetes API: each names a collection, an object, or a subresource.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::metrics::requests::RequestLabels;
use crate::resource::{RESOURCES, Resource};

/// A path of the Kubernetes API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route<'p> {
    /// The resource.
    pub(crate) resource: &'static Resource,
    /// The namespace; empty for cluster-scoped kinds and for all namespaces.
    pub(crate) namespace: &'p str,
    /// The name of the object; `None` for a collection.
    pub(crate) name: Option<&'p str>,
    /// The subresource; `None` for the object itself.
    pub(crate) subresource: Option<&'p str>,
    /// Whether the path has the deprecated form that always requests a watch: `/api/v1/watch/…`.
    pub(crate) watch: bool,
}

/// Decodes a path's percent-encoding, segment by segment. `None` if a decoded segment is not UTF-8
/// or contains a slash: no name contains one, and the segment would be parsed as two.
pub(crate) fn decoded(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(path.into());
    }
    let mut whole = String::with_capacity(path.len());
    for (i, part) in path.split('/').enumerate() {
        if i > 0 {
            whole.push('/');
        }
        let part = percent_decode_str(part).decode_utf8().ok()?;
        if part.contains('/') {
            return None;
        }
        whole.push_str(&part);
    }
    Some(whole.into())
}

impl<'p> Route<'p> {
    /// Parses `/api/v1/…` and `/apis/GROUP/VERSION/…` followed by `RESOURCE`,
    /// `namespaces/NS/RESOURCE`, `…/NAME` and `…/NAME/SUBRESOURCE`. `None` for a path where no
    /// resource is served.
    pub(crate) fn parse(path: &'p str) -> Option<Self> {
        let (group, rest) = match path.strip_prefix("/api/") {
            Some(rest) => ("", rest),
            None => path.strip_prefix("/apis/")?.split_once('/')?,
        };
        let (version, rest) = rest.split_once('/')?;
        // A trailing slash is ignored.
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (watch, rest) = match rest.strip_prefix("watch/") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let parts: Vec<&str> = rest.splitn(6, '/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        // `namespaces/a/pods` names the pods of a namespace; `namespaces/a/status` names a
        // subresource of the namespace.
        let (namespace, parts) = match parts[..] {
            ["namespaces", namespace, below, ..] if !matches!(below, "status" | "finalize") => {
                (namespace, &parts[2..])
            }
            _ => ("", &parts[..]),
        };
        let (name, subresource) = match parts {
            [_] => (None, None),
            [_, name] => (Some(*name), None),
            [_, name, subresource] => (Some(*name), Some(*subresource)),
            _ => return None,
        };
        let resource = RESOURCES.iter().find(|resource| {
            (resource.group, resource.version(), resource.name) == (group, version, parts[0])
        })?;
        // The path of a namespaced object contains its namespace; that of a cluster-scoped object
        // does not.
        let placed = match resource.namespaced {
            true => name.is_none() || !namespace.is_empty(),
            false => namespace.is_empty(),
        };
        placed.then_some(Self {
            resource,
            namespace,
            name,
            subresource,
            watch,
        })
    }

    /// Returns whether the resource has the subresource, or there is none in the path.
    pub(crate) fn is_served(&self) -> bool {
        match self.subresource {
            None => true,
            Some("status") => self.resource.has_status(),
            Some(part) => self.resource.name == "namespaces" && part == "finalize",
        }
    }

    /// Returns whether the path can be read. The finalizers of a namespace are read as part of the
    /// namespace.
    pub(crate) fn is_readable(&self) -> bool {
        self.subresource != Some("finalize")
    }

    /// Returns the labels of the request's metrics, with the verbs and scopes of kube-apiserver.
    pub(crate) fn labels(&self, method: &Method, watches: bool) -> RequestLabels {
        let verb = match (method, self.name) {
            (&Method::GET, _) if watches => "WATCH",
            (&Method::GET, Some(_)) => "GET",
            (&Method::GET, None) => "LIST",
            (&Method::POST, _) => "POST",
            (&Method::PUT, _) => "PUT",
            (&Method::PATCH, _) => "PATCH",
            (&Method::DELETE, Some(_)) => "DELETE",
            (&Method::DELETE, None) => "DELETECOLLECTION",
            _ => "other",
        };
        RequestLabels {
            verb,
            group: self.resource.group,
            version: self.resource.version(),
            resource: self.resource.name,
            subresource: match self.subresource {
                None => "",
                Some("status") => "status",
                Some("finalize") => "finalize",
                Some(_) => "other",
            },
            scope: match (self.name, self.namespace) {
                (Some(_), _) => "resource",
                _ if verb == "POST" => "resource",
                (None, "") => "cluster",
                (None, _) => "namespace",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_what_kubernetes_paths_name() {
        for (path, resource, namespace, name, subresource) in [
            ("/api/v1/pods", "pods", "", None, None),
            ("/api/v1/namespaces/a/pods", "pods", "a", None, None),
            ("/api/v1/namespaces/a/pods/b", "pods", "a", Some("b"), None),
            (
                "/api/v1/namespaces/a/pods/b/status",
                "pods",
                "a",
                Some("b"),
                Some("status"),
            ),
            ("/api/v1/namespaces", "namespaces", "", None, None),
            ("/api/v1/namespaces/a", "namespaces", "", Some("a"), None),
            (
                "/api/v1/namespaces/a/finalize",
                "namespaces",
                "",
                Some("a"),
                Some("finalize"),
            ),
            ("/api/v1/nodes/n", "nodes", "", Some("n"), None),
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
                "leases",
                "kube-node-lease",
                Some("n"),
                None,
            ),
            (
                "/apis/bench.example.com/v1/widgets",
                "widgets",
                "",
                None,
                None,
            ),
        ] {
            let route = Route::parse(path).unwrap_or_else(|| panic!("{path} is served"));
            assert_eq!(
                (
                    route.resource.name,
                    route.namespace,
                    route.name,
                    route.subresource,
                    route.watch
                ),
                (resource, namespace, name, subresource, false),
                "{path}"
            );
        }
        let watch = Route::parse("/api/v1/watch/namespaces/a/pods").expect("the old form");
        assert_eq!((watch.resource.name, watch.watch), ("pods", true));
    }

    #[test]
    fn percent_encoding_is_undone_within_the_parts_of_a_path() {
        for (path, expected) in [
            ("/api/v1/pods", Some("/api/v1/pods")),
            (
                "/api/v1/namespaces/a/pods/%62%2Dc",
                Some("/api/v1/namespaces/a/pods/b-c"),
            ),
            ("/api/v1/nodes/a+b%25", Some("/api/v1/nodes/a+b%")),
            ("/api/v1/namespaces/a%2Fpods", None),
            ("/api/v1/nodes/%ff", None),
        ] {
            assert_eq!(decoded(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn other_paths_name_nothing() {
        for other in [
            "/",
            "/api/v1",
            "/api/v1/",
            "/api/v1/watch",
            "/api/v2/pods",
            "/api/v1/services",
            "/api/v1/leases",
            "/api/v1/pods/a",
            "/api/v1/pods//",
            "/api/v1/namespaces/a/nodes",
            "/api/v1/namespaces/a/pods/b/log/c",
            "/api/v1/namespaces/a/pods/b//",
            "/api/v1/namespaces//pods",
            "/apis/apps/v1/x",
            "/apis/coordination.k8s.io/leases",
        ] {
            assert!(Route::parse(other).is_none(), "{other}");
        }
    }
}
