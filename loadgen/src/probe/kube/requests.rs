//! Sends the requests of a probe, each with a limit of time and bytes, and reads the responses.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use kube_api::client::{Connection, KubeAccess, KubeError, Options, read_whole};
use kube_api::media_type::JSON;
use serde_json::Value;
use tokio::time::timeout;

use crate::timeouts::RESPONSE_TIMEOUT;

/// The largest response that is read, in bytes: [`super::collection`] chooses collections below it.
const MAX_RESPONSE: usize = 16 << 20;
/// The longest time for which a watch is read.
const WATCHED_FOR: Duration = Duration::from_secs(4);
/// The number of characters of a message that are shown.
const SHOWN_CHARS: usize = 160;

/// The reason why a rule's response cannot be checked, or is wrong.
#[derive(Debug)]
pub(super) enum CheckError {
    /// The API cannot be reached any more.
    Lost(KubeError),
    /// The request is refused for a reason that has nothing to do with the rule.
    NotTried(String),
    /// There is no response, or one that is not of the requested kind.
    Broken(String),
}

/// A client of a Kubernetes API.
#[derive(Debug)]
pub(super) struct Requests {
    url: String,
    access: KubeAccess,
    connection: Connection,
}

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) code: u16,
    pub(super) body: Bytes,
    /// The parsed body; null if it is not JSON.
    pub(super) json: Value,
}

/// The response of a watch until the client stopped reading, or it ended.
#[derive(Debug)]
pub(super) struct Watched {
    /// The response with which the watch was refused, if it was.
    pub(super) refused: Option<Response>,
    /// The bytes after the last event; all bytes if the watch is not in JSON.
    pub(super) bytes: Bytes,
    /// The events in JSON.
    pub(super) events: Vec<Value>,
    /// Whether the response ended without an error.
    pub(super) ended: bool,
}

impl Requests {
    /// Returns a client of the API at `url`; connects with the first request.
    ///
    /// # Errors
    /// [`KubeError`] if the URL or the credentials cannot be used.
    pub(super) fn new(url: &str, access: &KubeAccess) -> Result<Self, KubeError> {
        Ok(Self {
            url: url.to_owned(),
            access: access.clone(),
            connection: Connection::new(url, access.clone(), Options::default())?,
        })
    }

    /// Sends a GET for JSON.
    ///
    /// # Errors
    /// [`CheckError`].
    pub(super) async fn get(&mut self, path: &str) -> Result<Response, CheckError> {
        self.send(Method::GET, path, JSON, JSON, String::new())
            .await
    }

    /// Sends a request with a body of this media type (without one if it is empty) and reads the
    /// response, whatever its status.
    ///
    /// # Errors
    /// [`CheckError`].
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        accept: &'static str,
        media_type: &'static str,
        body: String,
    ) -> Result<Response, CheckError> {
        let headers = headers(accept, media_type, &body);
        let sent = async {
            let sent = self.connection.send(method, path, headers, body.into());
            let response = sent.await.map_err(CheckError::Lost)?;
            whole(response).await
        };
        let response = timeout(RESPONSE_TIMEOUT, sent).await;
        if !matches!(response, Ok(Ok(_))) {
            self.connection.cancel();
        }
        response.unwrap_or_else(|_| Err(silent()))?.admitted()
    }

    /// Watches on a connection of its own until `until` holds for an event, the response ends, or
    /// four seconds have passed.
    ///
    /// # Errors
    /// [`CheckError`].
    pub(super) async fn watch(
        &self,
        path: &str,
        accept: &'static str,
        until: impl Fn(&Value) -> bool,
    ) -> Result<Watched, CheckError> {
        let connection = Connection::new(&self.url, self.access.clone(), Options::default());
        let mut connection = connection.map_err(CheckError::Lost)?;
        let sent = connection.send(Method::GET, path, headers(accept, JSON, ""), Bytes::new());
        let response = timeout(RESPONSE_TIMEOUT, sent)
            .await
            .map_err(|_| silent())?;
        let response = response.map_err(CheckError::Lost)?;
        let mut watched = Watched {
            refused: None,
            bytes: Bytes::new(),
            events: Vec::new(),
            ended: false,
        };
        if !response.status().is_success() {
            let refused = timeout(RESPONSE_TIMEOUT, whole(response)).await;
            let refused = refused.unwrap_or_else(|_| Err(silent()))?;
            watched.refused = Some(refused.admitted()?);
            return Ok(watched);
        }
        let is_json = accept == JSON;
        let mut body = response.into_body();
        let mut unread = BytesMut::new();
        let reading = async {
            loop {
                let Some(frame) = body.frame().await else {
                    watched.ended = true;
                    return;
                };
                let Ok(frame) = frame else { return };
                unread.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                if unread.len() > MAX_RESPONSE {
                    return;
                }
                while let Some(end) = unread.iter().position(|byte| is_json && *byte == b'\n') {
                    let event = serde_json::from_slice(&unread[..end]).unwrap_or_default();
                    unread.advance(end + 1);
                    let is_last = until(&event);
                    watched.events.push(event);
                    if is_last {
                        return;
                    }
                }
            }
        };
        // What was received by then is checked; a check finds what is missing.
        timeout(WATCHED_FOR, reading).await.unwrap_or_default();
        watched.bytes = unread.freeze();
        Ok(watched)
    }
}

impl Response {
    /// Returns the response, or [`CheckError::NotTried`] if the server refused it for lack of
    /// permission or for overload.
    fn admitted(self) -> Result<Self, CheckError> {
        match self.code {
            401 | 403 => Err(CheckError::NotTried(format!(
                "this user may not: {}",
                self.shown()
            ))),
            429 | 503 => Err(CheckError::NotTried(format!(
                "put off by the server: {}",
                self.shown()
            ))),
            _ => Ok(self),
        }
    }

    /// Returns the `reason` of a Status.
    pub(super) fn reason(&self) -> &str {
        self.json["reason"].as_str().unwrap_or_default()
    }

    /// Returns whether this is a Status with this code and reason.
    pub(super) fn is_status(&self, code: u16, reason: &str) -> bool {
        self.code == code
            && self.json["kind"] == "Status"
            && self.json["code"] == code
            && self.reason() == reason
    }

    /// Returns the resourceVersion of an object or a list; 0 for none.
    pub(super) fn version(&self) -> u64 {
        version_of(&self.json)
    }

    /// Returns the response if it is a success.
    ///
    /// # Errors
    /// [`CheckError::Broken`] with what was received instead.
    pub(super) fn success(self) -> Result<Self, CheckError> {
        match self.code {
            200..300 => Ok(self),
            _ => Err(CheckError::Broken(self.shown())),
        }
    }

    /// Returns a short description for the report.
    pub(super) fn shown(&self) -> String {
        let code = self.code;
        let short = |text: &str| text.chars().take(SHOWN_CHARS).collect::<String>();
        if self.json["kind"] == "Status" && self.json["status"] != "Success" {
            let message = self.json["message"].as_str().unwrap_or_default();
            return format!("{code} {}: {}", self.reason(), short(message));
        }
        let kind = self.json["kind"].as_str();
        match (kind, self.json["items"].as_array()) {
            (_, Some(items)) => format!("{code}, {} items at {}", items.len(), self.version()),
            (Some(kind), _) => format!("{code}, a {kind} at {}", self.version()),
            (None, _) => format!("{code}, {}", short(&String::from_utf8_lossy(&self.body))),
        }
    }
}

impl Watched {
    /// Returns the watch, if it was not refused.
    ///
    /// # Errors
    /// [`CheckError::Broken`] with the refusal.
    pub(super) fn accepted(self) -> Result<Self, CheckError> {
        match self.refused {
            Some(refused) => Err(CheckError::Broken(refused.shown())),
            None => Ok(self),
        }
    }

    /// Returns the events of this type.
    pub(super) fn of_type<'w>(&'w self, kind: &'w str) -> impl Iterator<Item = &'w Value> {
        let events = self.events.iter();
        events.filter(move |event| event["type"] == kind)
    }
}

/// Returns the resourceVersion of an object or a list; 0 for none.
pub(super) fn version_of(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns `namespace/name`, or the name if there is no namespace.
pub(super) fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Encodes a value for a query.
pub(super) fn in_query(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

async fn whole(response: http::Response<hyper::body::Incoming>) -> Result<Response, CheckError> {
    let code = response.status().as_u16();
    let body = read_whole(response.into_body(), MAX_RESPONSE).await;
    let body = body.map_err(|error| CheckError::Broken(format!("{code}, then {error}")))?;
    Ok(Response {
        code,
        json: serde_json::from_slice(&body).unwrap_or_default(),
        body,
    })
}

fn silent() -> CheckError {
    CheckError::Broken(format!(
        "no response within {} s",
        RESPONSE_TIMEOUT.as_secs()
    ))
}

fn headers(accept: &'static str, media_type: &'static str, body: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    headers
}
