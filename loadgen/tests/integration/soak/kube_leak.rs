//! A client of the Kubernetes tier that leaks watches and objects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use kube_api::client::{Connection, KubeAccess, Options};
use serde_json::json;

const COLLECTION: &str = "/api/v1/namespaces/leak/configmaps";
/// A watch without events: a watch whose events are not read would be closed.
const QUIET: &str = "/api/v1/namespaces/quiet/configmaps?watch=true";
const OBJECT_BYTES: usize = 200_000;
const PAUSE: Duration = Duration::from_millis(200);

/// Opens a watch and creates a ConfigMap of 200 KB five times a second; keeps all of them.
pub(crate) fn leaking(url: &str, ended: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut held = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            tokio::time::sleep(PAUSE).await;
            // The server runs for a part of the time only.
            held.extend(one_more(url, held.len()).await);
        }
    });
}

/// Adds a watch and an object; returns the value that keeps the watch open, or `None` if the server
/// is not running.
async fn one_more(url: &str, nth: usize) -> Option<impl Sized + use<>> {
    let connect = || Connection::new(url, KubeAccess::default(), Options::default());
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": format!("leak-{nth}") },
        "data": { "text": "x".repeat(OBJECT_BYTES) },
    });
    let mut headers = HeaderMap::new();
    let media = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, media);
    let mut writer = connect().ok()?;
    let body = object.to_string().into();
    let created = writer.send(Method::POST, COLLECTION, headers, body).await;
    created.ok()?;
    let mut watcher = connect().ok()?;
    let watch = watcher.send(Method::GET, QUIET, HeaderMap::new(), Bytes::new());
    let watch = watch.await.ok()?;
    Some((watcher, watch))
}
