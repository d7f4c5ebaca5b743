//! Requests of a probe, each bounded in time and bytes, and what came back.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use kube_api::client::{Connection, KubeAccess, KubeError, Options, read_whole};
use serde_json::Value;
use tokio::time::timeout;

use crate::timeouts::ANSWERS_WITHIN;

/// `application/json`.
pub(super) const JSON: &str = "application/json";
/// A longer response is not read: [`super::collection`] chooses what is shorter.
const LONGEST_RESPONSE: usize = 16 << 20;
/// How long a watch is read, unless it ends by itself.
const WATCHED_FOR: Duration = Duration::from_secs(4);
/// Characters of a message that are shown.
const SHOWN_CHARS: usize = 160;

/// Why nothing can be said of a rule's response, or what is wrong with it at once.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The API cannot be reached any more.
    Lost(KubeError),
    /// The request is refused, whatever it asks for.
    NotTried(String),
    /// No response, or one that cannot be what was asked for.
    Broken(String),
}

/// What a Kubernetes API is asked by.
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
    /// Null where the body is no JSON.
    pub(super) json: Value,
}

/// What a watch sent until it was left, or ended.
#[derive(Debug)]
pub(super) struct Watched {
    /// Status code and body, where it was refused.
    pub(super) refused: Option<Response>,
    /// Bytes that came, where they are no JSON.
    pub(super) bytes: Bytes,
    /// Events that came.
    pub(super) events: Vec<Value>,
    /// Whether the response ended as responses end.
    pub(super) ended: bool,
}

impl Requests {
    /// Returns a client of the API at `url`; connects with the first request.
    ///
    /// # Errors
    /// [`KubeError`] when the URL or the credentials cannot be used.
    pub(super) fn new(url: &str, access: &KubeAccess) -> Result<Self, KubeError> {
        Ok(Self {
            url: url.to_owned(),
            access: access.clone(),
            connection: Connection::new(url, access.clone(), Options::default())?,
        })
    }

    /// GETs JSON.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(super) async fn get(&mut self, path: &str) -> Result<Response, Trouble> {
        self.send(Method::GET, path, JSON, JSON, String::new())
            .await
    }

    /// Sends a body of this media type (none where it is empty) and reads the response, whatever
    /// its status.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        accept: &'static str,
        media_type: &'static str,
        body: String,
    ) -> Result<Response, Trouble> {
        let headers = headers(accept, media_type, &body);
        let sent = async {
            let sent = self.connection.send(method, path, headers, body.into());
            let response = sent.await.map_err(Trouble::Lost)?;
            whole(response).await
        };
        let response = timeout(ANSWERS_WITHIN, sent).await;
        if !matches!(response, Ok(Ok(_))) {
            self.connection.cancel();
        }
        response.unwrap_or_else(|_| Err(silent()))?.admitted()
    }

    /// Watches on a connection of its own until `until` holds for an event, the response ends, or
    /// four seconds have passed.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(super) async fn watch(
        &self,
        path: &str,
        accept: &'static str,
        until: impl Fn(&Value) -> bool,
    ) -> Result<Watched, Trouble> {
        let connection = Connection::new(&self.url, self.access.clone(), Options::default());
        let mut connection = connection.map_err(Trouble::Lost)?;
        let sent = connection.send(Method::GET, path, headers(accept, JSON, ""), Bytes::new());
        let response = timeout(ANSWERS_WITHIN, sent).await.map_err(|_| silent())?;
        let response = response.map_err(Trouble::Lost)?;
        let mut watched = Watched {
            refused: None,
            bytes: Bytes::new(),
            events: Vec::new(),
            ended: false,
        };
        if !response.status().is_success() {
            let refused = timeout(ANSWERS_WITHIN, whole(response)).await;
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
                if unread.len() > LONGEST_RESPONSE {
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
        // What came by then is looked at: something is missing at its end.
        timeout(WATCHED_FOR, reading).await.unwrap_or_default();
        watched.bytes = unread.freeze();
        Ok(watched)
    }
}

impl Response {
    /// Returns the response unless it says nothing about what was asked for.
    fn admitted(self) -> Result<Self, Trouble> {
        match self.code {
            401 | 403 => Err(Trouble::NotTried(format!(
                "this user may not: {}",
                self.shown()
            ))),
            429 | 503 => Err(Trouble::NotTried(format!(
                "put off by the server: {}",
                self.shown()
            ))),
            _ => Ok(self),
        }
    }

    /// Returns a Status's reason.
    pub(super) fn reason(&self) -> &str {
        self.json["reason"].as_str().unwrap_or_default()
    }

    /// Returns whether it is a Status of this code and reason.
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
    /// [`Trouble::Broken`] with what came instead.
    pub(super) fn success(self) -> Result<Self, Trouble> {
        match self.code {
            200..300 => Ok(self),
            _ => Err(Trouble::Broken(self.shown())),
        }
    }

    /// Returns what a report shows of it.
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
    /// Returns the events, where the watch was not refused.
    ///
    /// # Errors
    /// [`Trouble::Broken`] with the refusal.
    pub(super) fn accepted(self) -> Result<Self, Trouble> {
        match self.refused {
            Some(refused) => Err(Trouble::Broken(refused.shown())),
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

/// Returns `namespace/name`, or the name where there is no namespace.
pub(super) fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Returns a value as a query has it.
pub(super) fn in_query(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

async fn whole(response: http::Response<hyper::body::Incoming>) -> Result<Response, Trouble> {
    let code = response.status().as_u16();
    let body = read_whole(response.into_body(), LONGEST_RESPONSE).await;
    let body = body.map_err(|error| Trouble::Broken(format!("{code}, then {error}")))?;
    Ok(Response {
        code,
        json: serde_json::from_slice(&body).unwrap_or_default(),
        body,
    })
}

fn silent() -> Trouble {
    Trouble::Broken(format!("no response within {} s", ANSWERS_WITHIN.as_secs()))
}

fn headers(accept: &'static str, media_type: &'static str, body: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    headers
}
