//! One connection that writes: collects response bodies, and repeats requests when the server asks
//! for it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use kube_api::client::connection::error_from_response;
use kube_api::client::{Connection, KubeAccess, KubeError, Options, read_whole};
use kube_api::envelope::MEDIA_TYPE;
use kube_api::media_type::JSON;

/// The most attempts of a request.
const ATTEMPTS: u32 = 8;
/// The pause before the second attempt if the server names none. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, whatever the server asks for.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// The timeout of a single response: an apiserver gives a request 60 s.
const WRITE_RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);
/// The largest body, in bytes: a response is one object. The bodies of deleted collections are
/// discarded while they are received.
const LARGEST_BODY: usize = 16 << 20;

/// A client with a connection of its own.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(super) body: Bytes,
    /// Whether an earlier attempt may have been executed. False if all of them were refused (429).
    pub(crate) repeated: bool,
}

impl Client {
    /// Returns a client of the API at `url`, which connects with the first request.
    pub(super) fn new(url: &str, access: &KubeAccess) -> Result<Self, KubeError> {
        let connection = Connection::new(url, access.clone(), Options::default())?;
        Ok(Self { connection })
    }

    /// Sends a request with a body of this media type (without one if it is empty) and asks for a
    /// response of the same type, or in JSON for a patch. After overload (429, 503, 504), a
    /// server's internal error (500, 502) or a lost connection, the request is repeated after the
    /// pause that the server asks for.
    ///
    /// # Errors
    /// The error of the last attempt, if none of [`ATTEMPTS`] had a response.
    pub(crate) async fn send(
        &mut self,
        method: &Method,
        path: &str,
        media_type: &'static str,
        body: &Bytes,
    ) -> Result<Reply, KubeError> {
        let mut pause = FIRST_PAUSE;
        // Whether an earlier attempt may have been executed. A refused one (429) was not.
        let mut repeated = false;
        for attempt in 1.. {
            let sent = self.once(method, path, media_type, body.clone());
            let sent = tokio::time::timeout(WRITE_RESPONSE_TIMEOUT, sent).await;
            let asked = match sent {
                Ok(Ok((status, _, asked))) if attempt < ATTEMPTS && is_passing(status) => {
                    repeated |= status != StatusCode::TOO_MANY_REQUESTS;
                    asked
                }
                Ok(Ok((status, body, _))) => {
                    return Ok(Reply {
                        status,
                        body,
                        repeated,
                    });
                }
                Ok(Err(lost)) if attempt >= ATTEMPTS => return Err(lost),
                Err(_) if attempt >= ATTEMPTS => {
                    let seconds = WRITE_RESPONSE_TIMEOUT.as_secs();
                    return Err(KubeError::Timeout(format!(
                        "the response did not end within {seconds} s"
                    )));
                }
                // The rest of a partial response must not be taken for the next one.
                Ok(Err(_)) | Err(_) => {
                    self.connection.cancel();
                    repeated = true;
                    None
                }
            };
            tokio::time::sleep(asked.unwrap_or(pause).min(MAX_PAUSE)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        unreachable!("the last attempt returns")
    }

    /// Sends a request as [`Self::send`] does, and returns an error for any status other than
    /// these.
    ///
    /// # Errors
    /// [`KubeError::Refused`] with the server's message; those of [`Self::send`].
    pub(super) async fn must(
        &mut self,
        method: &Method,
        path: &str,
        media_type: &'static str,
        body: &Bytes,
        good: &[StatusCode],
    ) -> Result<Reply, KubeError> {
        let reply = self.send(method, path, media_type, body).await?;
        if good.contains(&reply.status) {
            return Ok(reply);
        }
        Err(reply.refused(method, path))
    }

    async fn once(
        &mut self,
        method: &Method,
        path: &str,
        media_type: &'static str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes, Option<Duration>), KubeError> {
        let mut headers = HeaderMap::new();
        // Errors are in JSON unless the client insists on protobuf.
        let accept = match media_type {
            MEDIA_TYPE => {
                HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json")
            }
            _ => HeaderValue::from_static(JSON),
        };
        headers.insert(header::ACCEPT, accept);
        if !body.is_empty() {
            let media = HeaderValue::from_static(media_type);
            headers.insert(header::CONTENT_TYPE, media);
        }
        let answer = self
            .connection
            .send(method.clone(), path, headers, body)
            .await?;
        let status = answer.status();
        let asked = retry_after(answer.headers());
        if *method == Method::DELETE && status.is_success() {
            // The response to the deletion of a collection has every deleted object.
            let mut body = answer.into_body();
            while let Some(frame) = body.frame().await {
                frame.map_err(|e| KubeError::Body(e.to_string()))?;
            }
            return Ok((status, Bytes::new(), asked));
        }
        let body = read_whole(answer.into_body(), LARGEST_BODY).await?;
        Ok((status, body, asked))
    }
}

impl Reply {
    /// Returns the response as an error.
    pub(crate) fn refused(&self, method: &Method, path: &str) -> KubeError {
        error_from_response(method.clone(), path, self.status, &self.body)
    }

    /// Parses the body as JSON; returns null if it is not JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Returns whether the same request may succeed a moment later.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Returns the pause that a server asks for, in whole seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}
