//! Clients of the Kubernetes tier that write, list and watch while its storage fails, and the state
//! that they have received.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use kube_api::client::{Connection, KubeAccess, Options, read_whole};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) const COLLECTION: &str = "/api/v1/namespaces/ns/configmaps";
/// Interval of writes; [`LIST_EVERY`] is the interval of lists.
const WRITE_EVERY: Duration = Duration::from_millis(20);
pub(crate) const LIST_EVERY: Duration = Duration::from_millis(50);
/// Time limit of responses, of waiting for a condition, and of watches to catch up at the end. An
/// etcd member holds a write for seven seconds if it had sent it to a leader that died.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_BODY: usize = 8 << 20;

/// The written objects. Acknowledged ones have their resourceVersion, by name.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) acknowledged: BTreeMap<String, u64>,
    /// Objects that may have been written: the response was an error, or there was none.
    pub(crate) unknown: BTreeSet<String>,
}

pub(crate) type Shared = Arc<Mutex<Written>>;

/// The state that a watcher has received.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Objects received as events, or in a list after a 410.
    pub(crate) seen: BTreeMap<String, u64>,
    /// Number of streams that ended after they had started; `relisted` is the number of lists after
    /// a 410.
    pub(crate) broken: u32,
    pub(crate) relisted: u32,
}

/// The end of a stream.
enum End {
    /// The stream broke after this resourceVersion, or before it started.
    Broken(u64),
    Refused,
    /// The events to resume with were compacted (410).
    Gone,
}

pub(crate) async fn ask(
    url: &str,
    method: Method,
    path: &str,
    body: String,
) -> Result<(u16, Value), String> {
    let sent = async {
        let connection = Connection::new(url, KubeAccess::default(), Options::default());
        let mut connection = connection.map_err(|e| e.to_string())?;
        let mut headers = HeaderMap::new();
        let media = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, media);
        let sent = connection.send(method, path, headers, body.into()).await;
        let response = sent.map_err(|e| e.to_string())?;
        let code = response.status().as_u16();
        let body = read_whole(response.into_body(), MAX_BODY).await;
        let body = body.map_err(|e| e.to_string())?;
        let json = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
        Ok((code, json))
    };
    timeout(TIMEOUT, sent).await.map_err(|e| e.to_string())?
}

pub(crate) fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok())
        .expect("a resourceVersion")
}

fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned()
}

/// Creates one object after the other, with one attempt each.
pub(crate) async fn write(url: String, written: Shared, stop: CancellationToken) {
    for i in 0.. {
        if stop.is_cancelled() {
            return;
        }
        let name = format!("object-{i:05}");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let created = ask(&url, Method::POST, COLLECTION, object.to_string()).await;
        match created {
            Ok((201, object)) => {
                let acknowledged = &mut written.lock().acknowledged;
                acknowledged.insert(name, version(&object));
            }
            Ok((500 | 503 | 504, _)) | Err(_) => drop(written.lock().unknown.insert(name)),
            Ok((code, status)) => panic!("{name}: {code} {status}"),
        }
        sleep(WRITE_EVERY).await;
    }
}

/// Lists consistently. Each list must contain everything that was acknowledged before its request.
/// Returns the number of complete lists and of errors.
pub(crate) async fn list(url: String, written: Shared, stop: CancellationToken) -> (u32, u32) {
    let (mut whole, mut errors) = (0, 0);
    while !stop.is_cancelled() {
        let due = written.lock().acknowledged.clone();
        match ask(&url, Method::GET, COLLECTION, String::new()).await {
            Ok((200, list)) => {
                let items = list["items"].as_array().expect("items");
                let items: BTreeMap<_, _> = items.iter().map(|o| (name(o), version(o))).collect();
                let missing = due
                    .iter()
                    .find(|(name, version)| items.get(*name) != Some(version));
                assert_eq!(missing, None, "of {}", items.len());
                whole += 1;
            }
            Ok((429 | 500..600, status)) => {
                assert_eq!(status["kind"], "Status", "{status}");
                errors += 1;
            }
            Ok((code, status)) => panic!("{code} {status}"),
            Err(error) => panic!("a list was cut off: {error}"),
        }
        sleep(LIST_EVERY).await;
    }
    (whole, errors)
}

/// Watches from the first object on, resumes where a stream ended, and lists again after a 410.
pub(crate) async fn watch(
    url: String,
    from: u64,
    watched: Arc<Mutex<Watched>>,
    stop: CancellationToken,
) {
    let mut at = from;
    while !stop.is_cancelled() {
        let end = tokio::select! {
            end = watch_once(&url, at, &watched) => end,
            () = stop.cancelled() => return,
        };
        match end {
            End::Broken(last) => {
                at = last;
                watched.lock().broken += 1;
            }
            End::Refused => {}
            End::Gone => {
                let Ok((200, list)) = ask(&url, Method::GET, COLLECTION, String::new()).await
                else {
                    continue;
                };
                at = version(&list);
                let mut watched = watched.lock();
                for object in list["items"].as_array().expect("items") {
                    watched.seen.entry(name(object)).or_insert(version(object));
                }
                watched.relisted += 1;
            }
        }
        sleep(WRITE_EVERY).await;
    }
}

/// Reads one stream until it ends.
async fn watch_once(url: &str, from: u64, watched: &Mutex<Watched>) -> End {
    let path = format!("{COLLECTION}?watch=true&resourceVersion={from}");
    let connection = Connection::new(url, KubeAccess::default(), Options::default());
    let mut connection = connection.expect("a URL");
    let sent = connection.send(Method::GET, &path, HeaderMap::new(), Bytes::new());
    let response = match sent.await {
        Ok(response) if response.status().is_success() => response,
        Ok(response) if response.status() == 410 => return End::Gone,
        _ => return End::Refused,
    };
    let mut at = from;
    let mut body = response.into_body();
    let mut unread = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        unread.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).expect("an event");
            let object = &event["object"];
            match event["type"].as_str() {
                Some("ADDED") => {
                    let next = version(object);
                    assert!(next > at, "{event} after {at}");
                    at = next;
                    let again = watched.lock().seen.insert(name(object), next);
                    assert_eq!(again, None, "{event} came twice");
                }
                Some("ERROR") if object["code"] == 410 => return End::Gone,
                Some("ERROR") => return End::Broken(at),
                other => panic!("{other:?}: nothing is changed or deleted: {event}"),
            }
        }
    }
    End::Broken(at)
}

/// Waits until `count` writes are acknowledged.
pub(crate) async fn until_acknowledged(written: &Mutex<Written>, count: usize) {
    let acknowledged = async {
        while written.lock().acknowledged.len() < count {
            sleep(LIST_EVERY).await;
        }
    };
    let waited = timeout(TIMEOUT, acknowledged).await;
    waited.unwrap_or_else(|_| panic!("never {count} writes: {:?}", written.lock()));
}
