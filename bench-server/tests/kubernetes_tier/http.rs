//! A plain HTTP client with one connection per request.

use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A whole response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.body.escape_ascii()))
    }

    /// Returns the response, which must be a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(self.code.is_success(), "{}", self.body.escape_ascii());
        self
    }

    /// Returns code and reason of an error.
    #[track_caller]
    pub(crate) fn failure(&self) -> (u16, String) {
        let status = self.json();
        assert_eq!(status["status"], "Failure", "{status}");
        assert_eq!(status["code"], self.code.as_u16(), "{status}");
        (
            self.code.as_u16(),
            status["reason"].as_str().unwrap_or_default().to_owned(),
        )
    }

    /// Returns `NAMESPACE/NAME` of each item of a list.
    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        let list = self.json();
        let items = list["items"].as_array();
        let items = items.unwrap_or_else(|| panic!("no list: {list}")).iter();
        let text = |item: &Value, field: &str| {
            item["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        items
            .map(|item| format!("{}/{}", text(item, "namespace"), text(item, "name")))
            .collect()
    }

    /// Returns `metadata.resourceVersion`.
    #[track_caller]
    pub(crate) fn revision(&self) -> i64 {
        let body = self.json();
        let text = body["metadata"]["resourceVersion"].as_str();
        let number = text.and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("no resourceVersion: {body}"))
    }

    /// Returns `metadata.continue`; empty without one.
    #[track_caller]
    pub(crate) fn token(&self) -> String {
        let body = self.json();
        body["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

/// Sends a request and reads the whole response.
pub(crate) async fn send(
    url: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Reply {
    let reply = try_send(url, method, path, headers, body).await;
    reply.expect("a whole response")
}

/// Sends a request and reads the response, which may be broken off.
pub(crate) async fn try_send(
    url: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> hyper::Result<Reply> {
    let response = open(url, method, path, headers, body).await;
    let (code, headers) = (response.status(), response.headers().clone());
    let body = response.into_body().collect().await?.to_bytes();
    Ok(Reply {
        code,
        headers,
        body,
    })
}

async fn open(
    url: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> http::Response<Incoming> {
    let address = url.strip_prefix("http://").expect("a plain URL");
    let stream = TcpStream::connect(address)
        .await
        .expect("the server accepts");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("a handshake");
    // The connection ends with the response, or when the response is dropped.
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).expect("a request");
    sender.send_request(request).await.expect("a response")
}

/// A watch whose events are read one by one.
pub(crate) struct Events {
    pub(crate) code: StatusCode,
    body: Incoming,
    read: Vec<u8>,
}

impl Events {
    /// Opens a watch; `path` includes the query.
    pub(crate) async fn open(url: &str, path: &str) -> Self {
        let response = open(url, Method::GET, path, &[], "").await;
        Self {
            code: response.status(),
            body: response.into_body(),
            read: Vec::new(),
        }
    }

    /// Returns the next event, or `None` after an orderly end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event in JSON"));
            }
            let frame = self.body.frame().await?.expect("an unbroken stream");
            if let Some(data) = frame.data_ref() {
                self.read.extend_from_slice(data);
            }
        }
    }

    /// Returns the next `count` events.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        while events.len() < count {
            let next = self.next().await;
            events.push(next.unwrap_or_else(|| panic!("ended after {events:?}")));
        }
        events
    }
}

/// Returns `TYPE NAME` of an event.
pub(crate) fn brief(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (&event["type"], &event["object"]["metadata"]["name"]);
    format!("{} {}", text(kind), text(name))
        .trim_end()
        .to_owned()
}

/// Returns the revision of an event's object.
pub(crate) fn revision_of(event: &Value) -> i64 {
    let text = event["object"]["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no resourceVersion: {event}"))
}
