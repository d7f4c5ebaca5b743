//! The same calls through the `h2` crate: for peers that use a feature that
//! [`h2_min`](super::h2_min) lacks, and for comparison with it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream};
use h2::client::{Connection, ResponseFuture, SendRequest};
use http::{HeaderValue, Method, Request, StatusCode, Uri, Version};
use prost::Message;
use tonic::{Code, Status};

use super::response::{self, PREFIX_BYTES};
use super::{Completion, Ended, Rpc};
use crate::client::config::{ClientConfig, Http2};
use crate::client::dial::{self, Failed, Socket};
use crate::error::Error;

/// One connection; [`PipelinedConnection`](super::PipelinedConnection) documents the methods.
pub(super) struct CrateConnection {
    connection: Connection<Socket, Bytes>,
    sender: SendRequest<Bytes>,
    endpoint: Uri,
    token: Option<HeaderValue>,
    message_bytes: usize,
    queue: VecDeque<QueuedRequest>,
    /// Tokens of the open calls. There are few, so a linear search is cheap.
    open: Vec<u64>,
    calls: FuturesUnordered<BoxFuture<'static, (u64, Result<Bytes, Error>)>>,
    /// The reason why no more calls can be opened, such as a GOAWAY from the peer. The peer may
    /// still respond to open calls.
    leaving: Option<String>,
    ended: bool,
}

struct QueuedRequest {
    token: u64,
    head: Request<()>,
    body: Bytes,
}

impl std::fmt::Debug for CrateConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CrateConnection")
            .field("outstanding", &self.outstanding())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl CrateConnection {
    pub(super) async fn connect(
        config: &ClientConfig,
        token: Option<&HeaderValue>,
    ) -> Result<Self, Error> {
        let http2 = config.http2;
        let ((sender, connection), endpoint) =
            dial::first(config, |socket| handshake(http2, socket).boxed()).await?;
        Ok(Self {
            connection,
            sender,
            endpoint,
            token: token.cloned(),
            message_bytes: config.max_message_bytes,
            queue: VecDeque::new(),
            open: Vec::new(),
            calls: FuturesUnordered::new(),
            leaving: None,
            ended: false,
        })
    }

    pub(super) fn outstanding(&self) -> usize {
        self.open.len() + self.queue.len()
    }

    pub(super) fn send(
        &mut self,
        rpc: Rpc,
        request: &impl Message,
        token: u64,
    ) -> Result<(), Error> {
        if let Some(reason) = &self.leaving {
            return Err((&Ended::Closed(reason.clone())).into());
        }
        if self.ended {
            return Err((&Ended::Closed("has ended before".into())).into());
        }
        let len = request.encoded_len();
        let mut body = BytesMut::with_capacity(PREFIX_BYTES + len);
        body.put_u8(0);
        // A request is much smaller than 4 GiB.
        body.put_u32(len as u32);
        request
            .encode(&mut body)
            .expect("the buffer was sized by encoded_len");
        self.queue.push_back(QueuedRequest {
            token,
            head: self.head(rpc)?,
            body: body.freeze(),
        });
        Ok(())
    }

    fn head(&self, rpc: Rpc) -> Result<Request<()>, Error> {
        let mut parts = self.endpoint.clone().into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static(rpc.path()));
        let uri = Uri::from_parts(parts).map_err(|e| Error::Config(e.to_string()))?;
        let mut request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_2)
            .uri(uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(token) = &self.token {
            request = request.header("token", token.clone());
        }
        request.body(()).map_err(|e| Error::Config(e.to_string()))
    }

    pub(super) fn poll_drive(
        &mut self,
        cx: &mut Context<'_>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Poll<Result<(), Error>> {
        if self.ended {
            return Poll::Ready(Err((&Ended::Closed("has ended before".into())).into()));
        }
        if self.leaving.is_none()
            && let Err(error) = self.poll_open(cx)
        {
            self.leaving = Some(error.to_string());
        }
        // The connection is polled after the calls, so that it writes what they have queued.
        let mut completed = self.poll_calls(cx, on_completion);
        let ended = match Pin::new(&mut self.connection).poll(cx) {
            Poll::Pending => {
                completed |= self.poll_calls(cx, on_completion);
                let Some(reason) = self.leaving.clone() else {
                    return turn(completed);
                };
                let queued = self.queue.drain(..).map(|queued| queued.token);
                completed |= fail(queued, &reason, on_completion);
                if completed || !self.open.is_empty() {
                    return turn(completed);
                }
                reason
            }
            Poll::Ready(Ok(())) => "closed by the peer".to_owned(),
            Poll::Ready(Err(error)) => error.to_string(),
        };
        self.ended = true;
        self.poll_calls(cx, on_completion);
        let queued = self.queue.drain(..).map(|queued| queued.token);
        fail(self.open.drain(..).chain(queued), &ended, on_completion);
        self.calls.clear();
        Poll::Ready(Err((&Ended::Closed(ended)).into()))
    }

    /// Opens as many queued calls as the peer allows.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Result<(), h2::Error> {
        while !self.queue.is_empty() {
            match self.sender.poll_ready(cx) {
                Poll::Pending => break,
                Poll::Ready(ready) => ready?,
            }
            let Some(QueuedRequest { token, head, body }) = self.queue.pop_front() else {
                break;
            };
            let (response, mut stream) = self.sender.send_request(head, false)?;
            // If sending fails, the response fails too.
            let _reported_by_response = stream.send_data(body, true);
            self.open.push(token);
            let call = receive(response, self.message_bytes);
            self.calls.push(call.map(move |done| (token, done)).boxed());
        }
        Ok(())
    }

    fn poll_calls(
        &mut self,
        cx: &mut Context<'_>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> bool {
        let mut completed = false;
        while let Poll::Ready(Some((token, body))) = Pin::new(&mut self.calls).poll_next(cx) {
            completed = true;
            if let Some(at) = self.open.iter().position(|&open| open == token) {
                self.open.swap_remove(at);
            }
            let whole = body.as_ref().map(Bytes::clone).unwrap_or_default();
            on_completion(Completion {
                token,
                received: Instant::now(),
                response: match body {
                    Ok(_) => response::message(&whole),
                    Err(error) => Err(error),
                },
            });
        }
        completed
    }
}

async fn handshake(
    http2: Http2,
    socket: Socket,
) -> Result<(SendRequest<Bytes>, Connection<Socket, Bytes>), Failed> {
    h2::client::Builder::new()
        .initial_window_size(http2.stream_window_bytes)
        .initial_connection_window_size(http2.connection_window_bytes)
        .max_frame_size(http2.max_frame_bytes)
        .enable_push(false)
        // No call is opened before the peer's SETTINGS, which limit their number.
        .initial_max_send_streams(0)
        .handshake(socket)
        .await
        .map_err(|e| Failed::network(&e))
}

/// Returns the result of one poll of the connection: ready if a call has ended, otherwise pending.
fn turn(completed: bool) -> Poll<Result<(), Error>> {
    match completed {
        true => Poll::Ready(Ok(())),
        false => Poll::Pending,
    }
}

/// Fails the calls with these tokens; returns whether there were any.
fn fail(
    tokens: impl Iterator<Item = u64>,
    reason: &str,
    on_completion: &mut impl FnMut(Completion<'_>),
) -> bool {
    let (ended, received) = (Ended::Closed(reason.to_owned()), Instant::now());
    let mut any = false;
    for token in tokens {
        any = true;
        on_completion(Completion {
            token,
            received,
            response: Err((&ended).into()),
        });
    }
    any
}

/// Receives one response, from its headers to its gRPC status.
async fn receive(response: ResponseFuture, message_bytes: usize) -> Result<Bytes, Error> {
    let (head, mut body) = response.await.map_err(reset)?.into_parts();
    if head.status != StatusCode::OK {
        return Err(Error::Protocol("response is not HTTP status 200".into()));
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| body.poll_data(cx)).await {
        let frame = frame.map_err(reset)?;
        body.flow_control()
            .release_capacity(frame.len())
            .map_err(reset)?;
        whole.extend_from_slice(&frame);
        if whole.len() > message_bytes.saturating_add(PREFIX_BYTES) {
            return Err(response::too_large(message_bytes));
        }
    }
    let trailers = poll_fn(|cx| body.poll_trailers(cx)).await.map_err(reset)?;
    let status = Status::from_header_map(trailers.as_ref().unwrap_or(&head.headers))
        .ok_or_else(|| Error::Protocol("call ended without a grpc-status".into()))?;
    match status.code() {
        Code::Ok => Ok(whole.freeze()),
        _ => Err(status.into()),
    }
}

/// Returns the error for a stream that the peer reset, or whose connection broke.
fn reset(error: h2::Error) -> Error {
    match error.reason().filter(|_| error.is_reset()) {
        Some(reason) => {
            let code = response::status_of_reset(reason.into());
            let text = format!("stream reset with error code {}", u32::from(reason));
            Error::from(Status::new(code, text))
        }
        None => (&Ended::Closed(error.to_string())).into(),
    }
}
