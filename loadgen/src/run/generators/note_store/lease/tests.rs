//! Tests against an API with one Lease, which reports conflicts, refuses requests and loses
//! responses as a test asks.

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use kube_api::client::KubeAccess;

use super::super::ASKED;
use super::*;
use test_support::http1_server::Http1Server;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/team/leases/loadgen-meeting";

/// The state of the API, and its faults.
#[derive(Default)]
struct Held {
    annotations: Option<Map<String, Value>>,
    version: u64,
    /// How many patches are refused, as if others had written meanwhile.
    conflicts: u32,
    /// Whether the next write is applied although its response reports an error.
    loses_one: bool,
}

type Shared = Arc<Mutex<Held>>;

/// Starts such an API. Returns it with its state, and the Lease as a generator uses it.
fn api() -> (Http1Server, Shared, NoteLease) {
    let held = Shared::default();
    let of_server = Arc::clone(&held);
    let server = Http1Server::start(move |request| respond(request, Arc::clone(&of_server)));
    let lease = NoteLease::new(&api_at(&server.url()), "team");
    (server, held, lease)
}

fn api_at(url: &str) -> Api {
    Api {
        url: url.to_owned(),
        access: KubeAccess::default(),
    }
}

async fn respond(request: Request<Incoming>, held: Shared) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut held = held.lock();
    let is_write = head.method != Method::GET;
    let (mut code, mut response) = held.answer(&head.method, head.uri.path(), &body);
    if is_write && std::mem::take(&mut held.loses_one) {
        (code, response) = (500, json!({}));
    }
    let head = Response::builder().status(code).header("retry-after", "0");
    let body = Full::new(Bytes::from(response.to_string()));
    head.body(body).expect("a valid response")
}

impl Held {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let none = || (404, json!({"reason": "NotFound"}));
        let sent = body["metadata"]["annotations"].as_object();
        let sent = sent.cloned().unwrap_or_default();
        match method.as_str() {
            "POST" if self.annotations.is_some() => return (409, json!({})),
            "POST" => self.annotations = Some(Map::new()),
            _ if path != PATH => return none(),
            "DELETE" => {
                let was_there = self.annotations.take().is_some();
                return if was_there { (200, json!({})) } else { none() };
            }
            _ => {}
        }
        let is_stale = match &body["metadata"]["resourceVersion"] {
            Value::Null => false,
            version => version.as_str() != Some(self.version.to_string().as_str()),
        };
        let Some(annotations) = &mut self.annotations else {
            return none();
        };
        if method == Method::PATCH && (is_stale || self.conflicts > 0) {
            self.conflicts = self.conflicts.saturating_sub(1);
            return (409, json!({"reason": "Conflict"}));
        }
        self.version += u64::from(method != Method::GET);
        annotations.extend(sent);
        let metadata =
            json!({"annotations": annotations, "resourceVersion": self.version.to_string()});
        let code = if method == Method::POST { 201 } else { 200 };
        (code, json!({"metadata": metadata}))
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[tokio::test]
async fn notes_are_written_while_the_first_is_there_and_not_before_or_after() {
    let (_server, held, lease) = api();
    let read = async |name| lease.get(name).await.expect("a response");
    let put = async |name| lease.put(name, "1").await.expect("a response");
    let add = async |name, value| lease.add(name, text(value)).await.expect("a response");
    assert_eq!(read(FIRST).await, None);
    assert!(!put("ready/1").await && !add("generator/1", "a").await);
    assert!(lease.open(text("first")).await.expect("a response"));
    assert!(!lease.open(text("twin")).await.expect("a response"));
    assert_eq!(read(FIRST).await.as_deref(), Some(&b"first"[..]));
    assert!(add("generator/1", "a").await);
    assert!(!add("generator/1", "a").await, "somebody has that number");
    assert!(put("ready/1").await && put("ready/1").await);
    let missing = lease.without("ready", 3).await.expect("a response");
    assert_eq!(missing, [0, 2]);
    lease.remove().await.expect("a response");
    lease.remove().await.expect("it is gone already");
    assert!(!put("done/1").await && !add("generator/2", "b").await);
    assert!(held.lock().annotations.is_none(), "nothing is left");
}

#[tokio::test]
async fn what_others_write_meanwhile_keeps_nobody_from_writing() {
    let (_server, held, lease) = api();
    assert!(lease.open(text("first")).await.expect("a response"));
    held.lock().conflicts = 3;
    assert!(lease.put("ready/1", "1").await.expect("a response"));
    held.lock().conflicts = 3;
    let added = lease.add("generator/1", text("a")).await;
    assert!(added.expect("a response"));
    held.lock().conflicts = MAX_CONFLICTS;
    let error = lease.put("ready/2", "1").await.expect_err("no end");
    assert!(error.to_string().contains("changed by others"), "{error}");
}

#[tokio::test]
async fn a_note_whose_response_was_lost_is_ones_own() {
    let (_server, held, lease) = api();
    held.lock().loses_one = true;
    assert!(lease.open(text("first")).await.expect("a response"));
    held.lock().loses_one = true;
    let added = lease.add("generator/1", text("a")).await;
    assert!(added.expect("a response"));
    assert!(!lease.open(text("twin")).await.expect("a response"));
}

#[test]
fn each_question_is_taken_once_and_a_new_one_of_the_same_generator_again() {
    let lease = NoteLease::new(&api_at("http://127.0.0.1:1"), "team");
    let mut questions = lease.questions(ASKED);
    let mut take = |annotations: Value| -> Vec<(String, String)> {
        let notes = Notes {
            annotations: annotations.as_object().cloned().unwrap_or_default(),
            version: text("5"),
        };
        let new = questions.take_new(&notes).into_iter();
        new.map(|question| (question.generator, question.text))
            .collect()
    };
    let one = json!({"loadgen.test/clock.asked.1": "0", "loadgen.test/clock.told.1": "0 5"});
    let pair = |generator: &str, asked: &str| (text(generator), text(asked));
    assert_eq!(take(one.clone()), [pair("1", "0")]);
    assert_eq!(take(one), []);
    let two = json!({"loadgen.test/clock.asked.1": "1", "loadgen.test/clock.asked.12": "0"});
    assert_eq!(take(two), [pair("1", "1"), pair("12", "0")]);
}

#[test]
fn a_note_has_an_annotation_that_an_api_accepts() {
    for name in [FIRST, "clock/asked/4294967295", "ready/7"] {
        let annotation = annotation(name);
        let (prefix, name) = annotation.split_once('/').expect("a prefix");
        assert_eq!(prefix, "loadgen.test");
        assert!(name.len() <= 63 && !name.contains('/'), "{name}");
    }
}
