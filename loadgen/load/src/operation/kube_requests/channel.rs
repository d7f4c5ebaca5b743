//! A connection to a Kubernetes API with its outstanding requests: streams of HTTP/2, as many at
//! the same time as the server allows.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use kube_api::client::{
    Connection, HttpVersion, KubeAccess, KubeError, Options, StreamSender, discard, read_whole,
};
use kube_api::media_type::{JSON, MERGE_PATCH};
use tokio::time::sleep;
use workloads::SmallRequest;

use super::super::request_api::CompletedRequest;
use super::super::requests::CallError;
use super::StoredText;
use super::text::{self, Refusal};

/// The size limit of a response, which is one object.
const LARGEST_BODY: usize = 16 << 20;
/// How often a request is sent again that the server defers (429 with Retry-After), as in
/// client-go.
const MAX_RETRIES: u32 = 10;
/// The longest pause before a request is sent again, whatever the server asks for.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How many characters of a refusal's message are kept.
const SHOWN_CHARS: usize = 200;

/// A request, with the resourceVersion that its response is compared with.
#[derive(Debug)]
pub(super) struct Call {
    method: Method,
    path: String,
    media_type: &'static str,
    body: Body,
    before: i64,
    /// Whether the body of a successful response is discarded.
    discards: bool,
}

#[derive(Debug)]
enum Body {
    Bytes(Bytes),
    /// The stored object, read first if there is none, with the change of this operation.
    Update(StoredText, u64),
}

impl Call {
    pub(super) fn simple(method: Method, path: String, body: Bytes, before: i64) -> Self {
        Self {
            method,
            path,
            media_type: JSON,
            body: Body::Bytes(body),
            before,
            discards: false,
        }
    }

    /// Deletes a collection. The response contains everything that was deleted, of any size.
    pub(super) fn delete_collection(path: String, body: Bytes) -> Self {
        Self {
            discards: true,
            ..Self::simple(Method::DELETE, path, body, 0)
        }
    }

    pub(super) fn patch(path: String, body: Bytes, before: i64) -> Self {
        Self {
            media_type: MERGE_PATCH,
            ..Self::simple(Method::PATCH, path, body, before)
        }
    }

    /// Replaces the object. Reads it first if none is held.
    pub(super) fn update(path: String, held: StoredText, n: u64) -> Self {
        Self {
            before: held.revision,
            body: Body::Update(held, n),
            ..Self::simple(Method::PUT, path, Bytes::new(), 0)
        }
    }
}

/// A response.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// The pause that the server asks for.
    retry_after: Option<Duration>,
}

impl Reply {
    #[cfg(test)]
    pub(super) fn new(status: StatusCode, body: Bytes) -> Self {
        Self {
            status,
            body,
            retry_after: None,
        }
    }

    /// Returns whether the response is a refusal with this status and reason.
    pub(super) fn is(&self, status: StatusCode, reason: &str) -> bool {
        self.status == status && Refusal::of(&self.body).reason == reason
    }

    /// Checks the status.
    ///
    /// # Errors
    /// [`CallError::Status`], without the object's name, so that equal errors are counted together.
    pub(super) fn expect(
        &self,
        request: SmallRequest,
        status: StatusCode,
        name: &str,
    ) -> Result<(), CallError> {
        if self.status == status {
            return Ok(());
        }
        let Refusal { reason, message } = Refusal::of(&self.body);
        let message = message.replace(name, "NAME");
        let shown = message.chars().filter(|c| !c.is_control());
        Err(CallError::Status {
            request,
            status: self.status.as_u16(),
            reason,
            message: shown.take(SHOWN_CHARS).collect(),
        })
    }
}

/// A request that has ended, with its response or error.
#[derive(Debug)]
pub(crate) struct KubeCompletion {
    token: u64,
    received: Instant,
    throttled: u32,
    /// The resourceVersion that the object had before the request.
    pub(super) before: i64,
    reply: Result<Reply, KubeError>,
}

impl KubeCompletion {
    #[cfg(test)]
    pub(super) fn of(before: i64) -> Self {
        Self {
            token: 0,
            received: Instant::now(),
            throttled: 0,
            before,
            reply: Err(ended()),
        }
    }

    /// Moves the response out.
    ///
    /// # Errors
    /// The error of the request, if it has no response.
    pub(super) fn take_reply(&mut self) -> Result<Reply, CallError> {
        let taken = Err(KubeError::Client("the response was taken".to_owned()));
        Ok(std::mem::replace(&mut self.reply, taken)?)
    }
}

impl CompletedRequest for KubeCompletion {
    fn token(&self) -> u64 {
        self.token
    }

    fn received(&self) -> Instant {
        self.received
    }

    fn throttled(&self) -> u32 {
        self.throttled
    }
}

/// A connection and its outstanding requests.
pub(crate) struct KubeChannel {
    connection: Connection,
    sender: StreamSender,
    outstanding: FuturesUnordered<LocalBoxFuture<'static, KubeCompletion>>,
}

impl KubeChannel {
    /// Connects to the API at `url` over HTTP/2.
    ///
    /// # Errors
    /// [`KubeError`] when the API cannot be reached.
    pub(crate) async fn connect(url: &str, access: &KubeAccess) -> Result<Self, KubeError> {
        let options = Options {
            http: HttpVersion::H2,
            ..Options::default()
        };
        let mut connection = Connection::new(url, access.clone(), options)?;
        let sender = connection.stream_sender().await?;
        Ok(Self {
            connection,
            sender,
            outstanding: FuturesUnordered::new(),
        })
    }

    /// Opens the connection again.
    ///
    /// # Errors
    /// [`KubeError`] when the API cannot be reached.
    pub(crate) async fn reconnect(&mut self) -> Result<(), KubeError> {
        self.sender = self.connection.stream_sender().await?;
        Ok(())
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// [`KubeError`] when the connection breaks.
    pub(super) async fn ask(&self, call: Call) -> Result<Reply, KubeError> {
        respond(self.sender.clone(), call, 0).await.reply
    }

    /// Starts a request.
    ///
    /// # Errors
    /// The error of a connection that has ended.
    pub(super) fn send(&mut self, call: Call, token: u64) -> Result<(), KubeError> {
        if self.sender.is_closed() {
            return Err(ended());
        }
        let completion = respond(self.sender.clone(), call, token);
        self.outstanding.push(Box::pin(completion));
        Ok(())
    }

    /// Passes on the requests that have ended. See [`super::RequestApi::poll_completions`].
    pub(super) fn poll_completions(
        &mut self,
        cx: &mut Context<'_>,
        on: &mut impl FnMut(KubeCompletion),
    ) -> Poll<Result<(), KubeError>> {
        let mut is_any = false;
        while let Poll::Ready(Some(completion)) = self.outstanding.poll_next_unpin(cx) {
            on(completion);
            is_any = true;
        }
        if self.outstanding.is_empty() && self.sender.is_closed() {
            return Poll::Ready(Err(ended()));
        }
        match is_any {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}

fn ended() -> KubeError {
    KubeError::Client("the connection has ended".to_owned())
}

/// Sends a request, waits for its response, and repeats it after the pause if the server asks for
/// one.
async fn respond(sender: StreamSender, call: Call, token: u64) -> KubeCompletion {
    let mut completion = KubeCompletion {
        token,
        received: Instant::now(),
        throttled: 0,
        before: call.before,
        reply: Err(ended()),
    };
    completion.reply = exchange(&sender, &call, &mut completion).await;
    completion.received = Instant::now();
    completion
}

async fn exchange(
    sender: &StreamSender,
    call: &Call,
    completion: &mut KubeCompletion,
) -> Result<Reply, KubeError> {
    let (held, n) = match &call.body {
        Body::Bytes(body) => {
            return unhurried(sender, call, body, &mut completion.throttled).await;
        }
        Body::Update(held, n) => (held, *n),
    };
    let mut text = held.text.clone();
    if held.revision == 0 {
        let get = Call::simple(Method::GET, call.path.clone(), Bytes::new(), 0);
        let reply = unhurried(sender, &get, &Bytes::new(), &mut completion.throttled).await?;
        if reply.status != StatusCode::OK {
            return Ok(reply);
        }
        text = reply.body;
        completion.before = text::revision(&text).unwrap_or(0);
    }
    let Some(body) = text::changed(&text, n) else {
        let what = "the object to be updated is not a JSON object";
        return Err(KubeError::Body(what.to_owned()));
    };
    unhurried(sender, call, &body, &mut completion.throttled).await
}

/// Sends a request until the server no longer defers it, or [`MAX_RETRIES`] is reached.
async fn unhurried(
    sender: &StreamSender,
    call: &Call,
    body: &Bytes,
    throttled: &mut u32,
) -> Result<Reply, KubeError> {
    let mut retries = 0;
    loop {
        let reply = once(sender, call, body.clone()).await?;
        let is_put_off = reply.status == StatusCode::TOO_MANY_REQUESTS;
        *throttled += u32::from(is_put_off);
        match reply.retry_after {
            Some(pause) if is_put_off && retries < MAX_RETRIES => {
                retries += 1;
                sleep(pause.min(MAX_PAUSE)).await;
            }
            _ => return Ok(reply),
        }
    }
}

async fn once(sender: &StreamSender, call: &Call, body: Bytes) -> Result<Reply, KubeError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(JSON));
    if !body.is_empty() {
        let media_type = HeaderValue::from_static(call.media_type);
        headers.insert(header::CONTENT_TYPE, media_type);
    }
    let sent = sender.send(call.method.clone(), &call.path, headers, body);
    let response = sent.await?;
    let status = response.status();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let body = match call.discards && status.is_success() {
        true => {
            discard(response.into_body()).await?;
            Bytes::new()
        }
        false => read_whole(response.into_body(), LARGEST_BODY).await?,
    };
    Ok(Reply {
        status,
        retry_after: retry_after.map(Duration::from_secs),
        body,
    })
}

#[cfg(test)]
mod tests;
