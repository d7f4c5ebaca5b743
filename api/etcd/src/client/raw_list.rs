//! Range and RangeStream directly on HTTP/2: returns DATA frames as they arrive.
//!
//! Nothing is buffered: the flow-control window of a frame is released when the frame is returned,
//! so memory use stays at about one stream window, whatever the size of the list. Dropping a
//! [`RawList`] resets its stream, which is how a client cancels.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::FutureExt;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version};
use prost::Message;
use tonic::{Code, Status};

use super::config::{ClientConfig, Http2};
use super::dial::{self, Failed, Socket};
use super::keep_alive::{self, InFlight, InFlightGuard};
pub use super::list_validator::ListRpc;
use super::list_validator::{ListSummary, ListValidator, Visitor};
use super::token::Token;
use crate::error::Error;
use crate::proto::etcdserverpb::RangeRequest;

/// Maximum number of cancelled streams of a connection whose late frames are accepted.
const CANCELLED_REMEMBERED: usize = 10_000;

/// One HTTP/2 connection for lists. Cheap to clone; clones share the connection, which closes after
/// the last clone and the last open list have been dropped.
#[derive(Debug, Clone)]
pub struct RawConnection {
    send: SendRequest<Bytes>,
    endpoint: Uri,
    token: Token,
    requests: InFlight,
}

impl RawConnection {
    /// Connects to the first endpoint that accepts.
    ///
    /// # Errors
    /// [`Error::Unreachable`] for the endpoint tried last, [`Error::Config`] for unusable TLS
    /// files.
    pub async fn connect(config: &ClientConfig, token: Option<HeaderValue>) -> Result<Self, Error> {
        Self::connect_with(config, token.into()).await
    }

    /// Connects with a token that may be renewed.
    pub(super) async fn connect_with(config: &ClientConfig, token: Token) -> Result<Self, Error> {
        let keep_alive = config.keep_alive_checked()?;
        let requests = InFlight::default();
        let http2 = config.http2;
        let (send, endpoint) = dial::first(config, |socket| {
            handshake(http2, keep_alive, requests.clone(), socket).boxed()
        })
        .await?;
        Ok(Self {
            send,
            endpoint,
            token,
            requests,
        })
    }

    /// Returns the endpoint of the connection.
    pub fn endpoint(&self) -> &Uri {
        &self.endpoint
    }

    /// Sends a request and waits for the headers of the response.
    ///
    /// # Errors
    /// The server's status, if the response consists only of that (RangeStream before etcd 3.7 is
    /// [`Error::Unimplemented`]); [`Error::Status`] with `Unavailable` when the connection failed;
    /// [`Error::Protocol`] when the response is not gRPC.
    pub async fn open(&self, rpc: ListRpc, request: &RangeRequest) -> Result<RawList, Error> {
        let path = match rpc {
            ListRpc::Range => "/etcdserverpb.KV/Range",
            ListRpc::RangeStream => "/etcdserverpb.KV/RangeStream",
        };
        let mut head = self.request(Method::POST, path)?;
        head.headers_mut()
            .insert("content-type", HeaderValue::from_static("application/grpc"));
        let in_flight = self.begin();
        let mut send = self.ready().await?;
        let (response, mut body) = send.send_request(head, false).map_err(unavailable)?;
        // A server without the method may respond and close the stream before it has read the
        // request. The response is then more informative than the failure to send.
        let sent = body.send_data(encode(request), true);
        let received = response.await;
        let (head, body) = match (received, sent) {
            (Ok(response), _) => response.into_parts(),
            (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(unavailable(error)),
        };
        if head.status != StatusCode::OK {
            return Err(Error::Protocol(format!(
                "HTTP status {} instead of the 200 of a gRPC server",
                head.status
            )));
        }
        if let Some(status) = Status::from_header_map(&head.headers) {
            ok_or_error(status)?;
        }
        Ok(RawList {
            status: head.headers,
            body,
            _in_flight: in_flight,
        })
    }

    /// Reads a list and validates it, calling `visitor` for each object. Calls `on_objects` after
    /// each frame that completes an object.
    ///
    /// # Errors
    /// As [`RawConnection::open`], and [`Error::Protocol`] for any
    /// [`ValidationError`](super::list_validator::ValidationError).
    pub async fn validate(
        &self,
        rpc: ListRpc,
        request: &RangeRequest,
        visitor: &mut (impl Visitor + Send),
        mut on_objects: impl FnMut() + Send,
    ) -> Result<ListSummary, Error> {
        let mut list = self.open(rpc, request).await?;
        let mut validator = ListValidator::new(rpc);
        while let Some(frame) = list.data().await? {
            let before = validator.so_far().objects;
            validator.feed(&frame, visitor)?;
            if validator.so_far().objects > before {
                on_objects();
            }
        }
        Ok(validator.finish()?)
    }

    /// Reads a list unchecked, except for the final status. Returns the number of bytes received.
    /// This measures the cost of the transport alone.
    ///
    /// # Errors
    /// As [`RawConnection::open`].
    pub async fn read_unchecked(&self, rpc: ListRpc, request: &RangeRequest) -> Result<u64, Error> {
        let mut list = self.open(rpc, request).await?;
        let mut bytes = 0;
        while let Some(frame) = list.data().await? {
            bytes += frame.len() as u64;
        }
        Ok(bytes)
    }

    /// Counts a request as in flight until dropped.
    pub(super) fn begin(&self) -> InFlightGuard {
        self.requests.begin()
    }

    /// Waits until a stream may be opened.
    pub(super) async fn ready(&self) -> Result<SendRequest<Bytes>, Error> {
        self.send.clone().ready().await.map_err(unavailable)
    }

    /// Returns a request with the headers that all calls have.
    pub(super) fn request(&self, method: Method, path: &str) -> Result<Request<()>, Error> {
        let config = |e: http::Error| Error::Config(e.to_string());
        let mut parts = self.endpoint.clone().into_parts();
        parts.path_and_query = Some(path.parse().map_err(|e| config(http::Error::from(e)))?);
        let mut request = Request::builder()
            .method(method)
            .version(Version::HTTP_2)
            .uri(Uri::from_parts(parts).map_err(|e| config(e.into()))?)
            .header("te", "trailers");
        if let Some(token) = self.token.get() {
            request = request.header("token", token);
        }
        request.body(()).map_err(config)
    }
}

/// A response being received.
#[derive(Debug)]
pub struct RawList {
    /// Response headers. They are kept because a trailers-only response has its status there.
    status: HeaderMap,
    body: RecvStream,
    _in_flight: InFlightGuard,
}

impl RawList {
    /// Returns the next DATA frame, or `None` once the server has ended the call with status OK.
    ///
    /// # Errors
    /// The call's status; [`Error::Status`] with `Unavailable` when the connection broke;
    /// [`Error::Protocol`] when the call ended without a status.
    pub async fn data(&mut self) -> Result<Option<Bytes>, Error> {
        if let Some(frame) = poll_fn(|cx| self.body.poll_data(cx)).await {
            let frame = frame.map_err(unavailable)?;
            self.body
                .flow_control()
                .release_capacity(frame.len())
                .map_err(unavailable)?;
            return Ok(Some(frame));
        }
        let trailers = poll_fn(|cx| self.body.poll_trailers(cx))
            .await
            .map_err(unavailable)?;
        let status = trailers.as_ref().unwrap_or(&self.status);
        let status = Status::from_header_map(status)
            .ok_or_else(|| Error::Protocol("call ended without a grpc-status".into()))?;
        ok_or_error(status)?;
        Ok(None)
    }
}

async fn handshake(
    http2: Http2,
    keep_alive: Option<Duration>,
    requests: InFlight,
    socket: Socket,
) -> Result<SendRequest<Bytes>, Failed> {
    let (send, mut connection) = h2::client::Builder::new()
        .initial_window_size(http2.stream_window_bytes)
        .initial_connection_window_size(http2.connection_window_bytes)
        .max_frame_size(http2.max_frame_bytes)
        .enable_push(false)
        // Many lists are cancelled here, and frames of a cancelled list arrive until the server has
        // received the reset. By default h2 remembers ten such streams, counts frames of others as
        // errors, and closes the connection after a thousand errors.
        .max_concurrent_reset_streams(CANCELLED_REMEMBERED)
        .max_local_error_reset_streams(None)
        .handshake(socket)
        .await
        .map_err(|e| Failed::network(&e))?;
    let pings = keep_alive.zip(connection.ping_pong());
    tokio::spawn(async move {
        let gone = async {
            match pings {
                Some((interval, pings)) => keep_alive::pings(pings, interval, requests).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = connection => if let Err(error) = ended {
                tracing::debug!("list connection ended: {error}");
            },
            // Dropping the connection fails its open calls.
            why = gone => tracing::debug!("list connection dropped: {why}"),
        }
    });
    Ok(send)
}

/// Returns the request with gRPC's five-byte prefix.
fn encode(request: &RangeRequest) -> Bytes {
    let len = request.encoded_len();
    let mut buffer = BytesMut::with_capacity(5 + len);
    buffer.put_u8(0);
    // A request consists of a key interval and flags, so it is much smaller than 4 GiB.
    buffer.put_u32(len as u32);
    buffer.put(request.encode_to_vec().as_slice());
    buffer.freeze()
}

fn ok_or_error(status: Status) -> Result<(), Error> {
    match status.code() {
        Code::Ok => Ok(()),
        _ => Err(status.into()),
    }
}

pub(super) fn unavailable(error: h2::Error) -> Error {
    Error::Status {
        code: Code::Unavailable,
        message: format!("connection: {error}"),
    }
}
