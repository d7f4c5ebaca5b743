//! A small Kubernetes API over a few pods, which can be configured to respond wrongly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use kube_api::continue_token::ContinueToken;
use kube_api::list::{ListMeta, json_head, protobuf_head};
use kube_api::metadata::{item_object, list_item};
use kube_api::protobuf::put_bytes;
use kube_api::schema::POD;
use kube_api::{ListOptions, envelope, to_json};
use test_support::http1_server::Http1Server;
use workloads::{DataSet, DataSetSpec, Kind};

/// Number of pods: four pages of three. There is one more, which only a fault adds to lists.
const PODS: u64 = 12;
/// The current revision; [`WRITTEN`] is the one at which the pods were written.
const REVISION: u64 = 100;
const WRITTEN: &str = "55";
/// The token of a 410 response, to continue at another revision.
const INCONSISTENT: &str = "inconsistent";

/// A fault of every other list of a kind. The list before it is correct, so that a client that does
/// not know the pods can also detect the fault. In lists in pages, the second page has the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// An item is missing.
    Drop,
    /// An item is duplicated.
    Duplicate,
    /// Two neighbouring items are swapped.
    Swap,
    /// One bit of an object is flipped.
    Flip,
    /// There is an additional item.
    Append,
    /// There are meaningless bytes after the end of the list, or after the object of an event.
    Trailing,
    /// The comma between two items is missing; in protobuf, there is an unknown field instead.
    Glue,
    /// The body is truncated, and its length is that of the truncated body.
    Truncate,
    /// The list has an older revision.
    Stale,
    /// A page has an older revision than the previous page.
    StalePage,
    /// An object has the state before its last write.
    StaleObject,
    /// An item has another resourceVersion.
    Renumber,
    /// The list, or an event's object, has another kind.
    OtherKind,
    /// Not a fault: a page without items.
    EmptyPage,
    /// The second page fails with 410 and a token to continue at another revision.
    Expired,
    /// The second page of every list fails with 410.
    AlwaysExpired,
}

/// A running server, which stops when dropped.
pub(crate) struct FakeKube(Http1Server);

impl FakeKube {
    /// Starts a server on a free port.
    pub(crate) fn start(fault: Fault) -> Self {
        let api = Arc::new(Api::new(fault));
        Self(Http1Server::start(move |request| {
            let answer = api.answer(&request);
            async move { answer }
        }))
    }

    /// Returns the server's URL.
    pub(crate) fn url(&self) -> String {
        self.0.url()
    }
}

struct Api {
    fault: Fault,
    /// Relative key (`NAMESPACE/NAME`) and object of each pod.
    pods: Vec<(String, Vec<u8>)>,
    /// Number of lists by query and media type.
    lists: Mutex<HashMap<String, u64>>,
}

/// A response before it is encoded.
struct Answer {
    meta: ListMeta,
    /// The items, each with its resourceVersion.
    items: Vec<(Vec<u8>, &'static str)>,
    /// The fault of the response.
    fault: Fault,
}

impl Api {
    fn new(fault: Fault) -> Self {
        let data = DataSet::new(&DataSetSpec {
            name: "pods".to_owned(),
            kind: Kind::Pods,
            objects: (PODS + 1).try_into().expect("some"),
            object_size: None,
            object_sizes: None,
            namespaces: 2.try_into().ok(),
            nodes: 2.try_into().ok(),
            seed: 1,
        });
        let pod = |i| {
            let key = String::from_utf8(data.key(i)).expect("text");
            let stored = data.value(i);
            let object = envelope::open(&stored).expect("it is sealed").to_vec();
            (key["pods/".len()..].to_owned(), object)
        };
        Self {
            fault,
            pods: (0..=PODS).map(pod).collect(),
            lists: Mutex::default(),
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.uri().path() != "/api/v1/pods" {
            return refusal(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
        }
        let query = request.uri().query().unwrap_or_default();
        let options = ListOptions::parse(query).expect("a query of our own");
        let accept = request.headers()[header::ACCEPT].to_str().expect("text");
        let is_json = accept == "application/json";
        let is_watch = query.contains("watch=true");
        let start = match options.continue_token.as_str() {
            "" => String::new(),
            token => {
                ContinueToken::decode(token)
                    .expect("a token of our own")
                    .start
            }
        };
        let is_odd = self.is_odd(
            format!("{accept} {is_watch} {}", options.limit),
            start.is_empty(),
        );
        let is_second = options.limit == 0 || !start.is_empty();
        let fault = match self.fault {
            Fault::AlwaysExpired if is_second => Fault::AlwaysExpired,
            Fault::Stale if is_odd => Fault::Stale,
            fault if is_odd && is_second => fault,
            _ => Fault::None,
        };
        if options.limit > 0 && matches!(fault, Fault::Expired | Fault::AlwaysExpired) {
            return refusal(
                StatusCode::GONE,
                format!(
                    r#"{{"kind":"Status","apiVersion":"v1","metadata":{{"continue":"{INCONSISTENT}"}},"status":"Failure","message":"The provided continue parameter is too old","reason":"Expired","code":410}}"#
                ),
            );
        }
        let answer = self.page(&start, options.limit, fault);
        let mut body = match (is_watch, is_json) {
            (true, true) => answer.events(|kind, item| event_json(kind, item, answer.fault)),
            (true, false) => answer.events(|kind, item| event_protobuf(kind, item, answer.fault)),
            (false, true) => answer.json(),
            (false, false) => answer.protobuf(),
        };
        if fault == Fault::Truncate {
            body.truncate(body.len() - 3);
        }
        Response::new(Full::new(body.into()))
    }

    /// Returns whether this list, or the list of this page, is one of those with a fault.
    fn is_odd(&self, kind: String, is_first_page: bool) -> bool {
        let mut lists = self.lists.lock().expect("no panic holds it");
        let number = lists.entry(kind).or_default();
        *number += u64::from(is_first_page);
        number.is_multiple_of(2)
    }

    fn page(&self, start: &str, limit: u64, fault: Fault) -> Answer {
        let there = &self.pods[..PODS as usize];
        let rest: Vec<_> = there
            .iter()
            .filter(|(key, _)| key.as_str() >= start)
            .collect();
        let is_empty_page = fault == Fault::EmptyPage && limit > 0 && !start.ends_with("\0\0");
        let len = match limit {
            0 => rest.len(),
            _ if is_empty_page => 0,
            limit => rest.len().min(usize::try_from(limit).expect("small")),
        };
        let mut page = rest[..len].to_vec();
        let mut meta = ListMeta {
            resource_version: match fault {
                Fault::Stale => REVISION - 1,
                Fault::StalePage if limit > 0 => REVISION - 1,
                _ => REVISION,
            },
            ..ListMeta::default()
        };
        if len < rest.len() {
            let last = page.last().map_or(start, |(last, _)| last);
            meta.continue_token = ContinueToken::after(REVISION as i64, last).encode();
            meta.remaining_item_count = Some((rest.len() - len) as u64);
        }
        match fault {
            Fault::Drop => drop(page.pop()),
            Fault::Duplicate => page.insert(1, page[0]),
            Fault::Swap => page.swap(0, 1),
            Fault::Append => page.push(&self.pods[PODS as usize]),
            _ => {}
        }
        let mut items: Vec<_> = page
            .iter()
            .map(|(_, object)| (object.clone(), WRITTEN))
            .collect();
        match fault {
            Fault::Flip => replace(&mut items[1].0, b"Running", b"Runninf"),
            Fault::StaleObject => {
                replace(&mut items[1].0, b"Running", b"Pending");
                items[1].1 = "54";
            }
            Fault::Renumber => items[0].1 = "56",
            _ => {}
        }
        Answer { meta, items, fault }
    }
}

impl Answer {
    fn kind(&self) -> &'static str {
        match self.fault {
            Fault::OtherKind => "SecretList",
            _ => "PodList",
        }
    }

    fn protobuf(&self) -> Vec<u8> {
        let mut items = Vec::new();
        for (number, (object, version)) in self.items.iter().enumerate() {
            if number == 1 && self.fault == Fault::Glue {
                put_bytes(&mut items, 3, b"glue");
            }
            items.extend(list_item(object, version).expect("an object"));
        }
        let mut body = protobuf_head("v1", self.kind(), &self.meta, items.len());
        body.extend(items);
        body.extend_from_slice(envelope::TAIL);
        if self.fault == Fault::Trailing {
            put_bytes(&mut body, 5, b"trailing");
        }
        body
    }

    fn json(&self) -> Vec<u8> {
        let mut body = json_head("v1", self.kind(), &self.meta);
        for (number, item) in self.items.iter().enumerate() {
            if number > 1 || (number == 1 && self.fault != Fault::Glue) {
                body.push(b',');
            }
            body.extend(object_json("", item));
        }
        body.extend_from_slice(b"]}");
        if self.fault == Fault::Trailing {
            body.extend_from_slice(b",");
        }
        body.push(b'\n');
        body
    }

    /// Returns the initial state of a watch: an event for each object, and the bookmark after them.
    fn events(&self, event: impl Fn(&str, &(Vec<u8>, &'static str)) -> Vec<u8>) -> Vec<u8> {
        let mut body = Vec::new();
        for item in &self.items {
            body.extend(event("ADDED", item));
        }
        let mut meta = Vec::new();
        put_bytes(&mut meta, 1, b"");
        put_bytes(&mut meta, 6, b"");
        let mut mark = Vec::new();
        put_bytes(&mut mark, 1, b"k8s.io/initial-events-end");
        put_bytes(&mut mark, 2, b"true");
        put_bytes(&mut meta, 12, &mark);
        let mut pod = Vec::new();
        put_bytes(&mut pod, 1, &meta);
        put_bytes(&mut pod, 2, b"");
        put_bytes(&mut pod, 3, b"");
        // The revisions of lists as text.
        let version = match self.meta.resource_version {
            REVISION => "100",
            _ => "99",
        };
        body.extend(event("BOOKMARK", &(pod, version)));
        body
    }
}

fn object_json(head: &str, (object, version): &(Vec<u8>, &'static str)) -> Vec<u8> {
    let item = list_item(object, version).expect("an object");
    let mut json = Vec::new();
    to_json(&POD, item_object(&item), head, &mut json).expect("a pod");
    json
}

fn event_json(kind: &str, item: &(Vec<u8>, &'static str), fault: Fault) -> Vec<u8> {
    let object_kind = object_kind(fault);
    let head = format!("\"kind\":\"{object_kind}\",\"apiVersion\":\"v1\"");
    let mut line = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
    line.extend(object_json(&head, item));
    if matches!(fault, Fault::Trailing) {
        line.extend_from_slice(b",");
    }
    line.push(b'}');
    if fault != Fault::Glue {
        line.push(b'\n');
    }
    line
}

fn event_protobuf(
    kind: &str,
    (object, version): &(Vec<u8>, &'static str),
    fault: Fault,
) -> Vec<u8> {
    let item = list_item(object, version).expect("an object");
    let sealed = envelope::seal("v1", object_kind(fault), item_object(&item));
    let mut raw = Vec::new();
    put_bytes(&mut raw, 1, &sealed);
    let mut event = Vec::new();
    put_bytes(&mut event, 1, kind.as_bytes());
    put_bytes(&mut event, 2, &raw);
    match fault {
        Fault::Trailing => put_bytes(&mut event, 3, b"trailing"),
        Fault::Glue => event.push(0),
        _ => {}
    }
    let length = u32::try_from(event.len()).expect("small").to_be_bytes();
    [&length[..], &event].concat()
}

fn object_kind(fault: Fault) -> &'static str {
    match fault {
        Fault::OtherKind => "Secret",
        _ => "Pod",
    }
}

/// Replaces the first occurrence of `from` by `to`, which has the same length.
fn replace(object: &mut [u8], from: &[u8], to: &[u8]) {
    let at = object.windows(from.len()).position(|bytes| bytes == from);
    let at = at.expect("pods run");
    object[at..at + to.len()].copy_from_slice(to);
}

fn refusal(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}
