//! A small Kubernetes API with a custom resource and a discovery document for each version, which
//! can be configured to respond wrongly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use kube_api::list::{custom_json_head, custom_json_tail};
use kube_api::{ListMeta, ListOptions};
use serde_json::{Value, json};
use test_support::http1_server::Http1Server;

/// Number of objects.
const OBJECTS: u64 = 10;
/// The current revision.
const REVISION: u64 = 100;
/// The largest page that surveys request.
const SURVEY: u64 = 8;
/// The page size of the tests' lists.
const PAGE: u64 = 3;

/// A fault of every other list, whole or in pages of three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// An item is missing.
    Drop,
    /// Two neighbouring items are swapped.
    Swap,
    /// An unknown field has another value.
    Alter,
    /// The list has another kind.
    OtherKind,
    /// An item has another kind.
    OtherItem,
    /// The body is truncated, and its Content-Length is that of the truncated body.
    Truncate,
    /// The list has an older revision.
    Stale,
    /// Not a fault: the older version of the resource is preferred.
    PrefersOlder,
}

/// A running server, which stops when dropped.
pub(crate) struct FakeApi {
    server: Http1Server,
    state: Arc<State>,
}

struct State {
    fault: Fault,
    requests: Mutex<Vec<String>>,
    /// Number of lists by limit.
    lists: Mutex<HashMap<u64, u64>>,
}

impl FakeApi {
    /// Starts a server on a free port.
    pub(crate) fn start(fault: Fault) -> Self {
        let state = Arc::new(State {
            fault,
            requests: Mutex::default(),
            lists: Mutex::default(),
        });
        let served = Arc::clone(&state);
        let server = Http1Server::start(move |request| {
            let response = served.respond(&request);
            async move { response }
        });
        Self { server, state }
    }

    /// Returns the server's URL.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the requests so far, as `GET PATH`.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.state.requests.lock();
        requests.expect("no panic holds it").clone()
    }
}

impl State {
    fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        self.requests
            .lock()
            .expect("no panic holds it")
            .push(format!("{} {path}", request.method()));
        let preferred = match self.fault {
            Fault::PrefersOlder => "v1beta1",
            _ => "v1",
        };
        if let Some(document) = discovery(path, preferred) {
            return response(StatusCode::OK, &document);
        }
        let (version, kind) = match path {
            "/apis/example.com/v1/widgets" => ("example.com/v1", "Widget"),
            "/apis/example.com/v1beta1/widgets" => ("example.com/v1beta1", "Widget"),
            "/apis/coordination.k8s.io/v1/leases" => ("coordination.k8s.io/v1", "Lease"),
            "/apis/metrics.k8s.io/v1beta1" => {
                let text = json!({"kind": "Status", "message": "no server behind it"});
                return response(StatusCode::SERVICE_UNAVAILABLE, &text);
            }
            _ => {
                let text = json!({"kind": "Status", "message": "not found"});
                return response(StatusCode::NOT_FOUND, &text);
            }
        };
        let accept = request.headers().get(header::ACCEPT);
        if accept.is_none_or(|accept| accept != "application/json") {
            let text = json!({"kind": "Status", "message": "only JSON"});
            return response(StatusCode::NOT_ACCEPTABLE, &text);
        }
        let query = request.uri().query().unwrap_or_default();
        let options = ListOptions::parse(query).expect("a query of our own");
        let list = self.list(version, kind, &options);
        Response::builder()
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(list.into()))
            .expect("a response")
    }

    fn list(&self, version: &str, kind: &str, options: &ListOptions) -> Vec<u8> {
        let limit = options.limit;
        let first: u64 = options.continue_token.parse().unwrap_or(0);
        let fault = self.fault_of(limit, first);
        let end = match limit {
            0 => OBJECTS,
            limit => OBJECTS.min(first + limit),
        };
        let item_kind = |i| match (fault, i) {
            (Fault::OtherItem, 4) => "Gadget",
            _ => kind,
        };
        let size = |i| match (fault, i) {
            (Fault::Alter, 4) => 7,
            _ => 4,
        };
        let item = |i| {
            let kind = item_kind(i);
            format!(
                r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"w-{i}","namespace":"a","resourceVersion":"55"}},"spec":{{"size":{}}}}}"#,
                size(i)
            )
        };
        let mut items: Vec<String> = (first..end).map(item).collect();
        match fault {
            Fault::Drop => drop(items.pop()),
            Fault::Swap => items.swap(0, 1),
            _ => {}
        }
        let left = OBJECTS - end;
        let meta = ListMeta {
            resource_version: match fault {
                Fault::Stale => REVISION - 1,
                _ => REVISION,
            },
            continue_token: match left {
                0 => String::new(),
                _ => end.to_string(),
            },
            remaining_item_count: (left > 0).then_some(left),
            ..ListMeta::default()
        };
        let list_kind = match fault {
            Fault::OtherKind => "GadgetList".to_owned(),
            _ => format!("{kind}List"),
        };
        let mut body = custom_json_head(version);
        body.extend(items.join(",").bytes());
        body.extend(custom_json_tail(&list_kind, &meta));
        if fault == Fault::Truncate {
            body.truncate(body.len() - 4);
        }
        body
    }

    /// Returns the fault of this page. In a list in pages, the second page has the fault, except
    /// for [`Fault::Stale`], which the first page must have, too.
    fn fault_of(&self, limit: u64, first: u64) -> Fault {
        if (1..=SURVEY).contains(&limit) && limit != PAGE {
            return Fault::None;
        }
        let mut lists = self.lists.lock().expect("no panic holds it");
        let number = lists.entry(limit).or_default();
        *number += u64::from(first == 0);
        let is_wrong = match (limit, self.fault) {
            (0, _) | (_, Fault::Stale) => true,
            _ => first == PAGE,
        };
        match is_wrong && number.is_multiple_of(2) {
            true => self.fault,
            false => Fault::None,
        }
    }
}

/// Returns the discovery document of a path; `preferred` is the version of example.com.
fn discovery(path: &str, preferred: &str) -> Option<Value> {
    let group = |name: &str, versions: &[&str], preferred: &str| {
        let versions = versions.iter().map(|v| json!({"version": v}));
        json!({"name": name, "versions": versions.collect::<Vec<_>>(),
            "preferredVersion": {"version": preferred}})
    };
    let resource = |name: &str, kind: &str, namespaced: bool, verbs: &[&str]| {
        json!({"name": name, "singularName": kind.to_lowercase(), "namespaced": namespaced,
            "kind": kind, "verbs": verbs})
    };
    let reads = ["get", "list"];
    let widgets = resource("widgets", "Widget", true, &reads);
    let list = |resources: &[Value]| json!({"kind": "APIResourceList", "resources": resources});
    Some(match path {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => json!({"kind": "APIGroupList", "groups": [
            group("example.com", &["v1beta1", "v1"], preferred),
            group("other.example", &["v2"], "v2"),
            group("coordination.k8s.io", &["v1"], "v1"),
            group("metrics.k8s.io", &["v1beta1"], "v1beta1"),
        ]}),
        "/api/v1" => list(&[
            resource("pods", "Pod", true, &reads),
            resource("pods/log", "Pod", true, &["get"]),
            resource("nodes", "Node", false, &reads),
            resource("bindings", "Binding", true, &["create"]),
        ]),
        "/apis/example.com/v1" => list(&[widgets, resource("locks", "Lock", true, &["create"])]),
        "/apis/example.com/v1beta1" => list(&[widgets]),
        "/apis/other.example/v2" => list(&[widgets]),
        "/apis/coordination.k8s.io/v1" => list(&[resource("leases", "Lease", true, &reads)]),
        _ => return None,
    })
}

fn response(status: StatusCode, document: &Value) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(document.to_string().into()))
        .expect("a response")
}
