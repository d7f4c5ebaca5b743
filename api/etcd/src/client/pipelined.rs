//! Many outstanding small unary calls on one connection, at the least cost per call.
//!
//! A [`PipelinedConnection`] belongs to one task. [`send`](PipelinedConnection::send) queues a
//! request under a token that the caller chooses. [`drive`](PipelinedConnection::drive) writes the
//! queued requests, reads the received bytes and passes every finished call to a callback. It
//! spawns no task and allocates nothing per call. There are two implementations, and a test checks
//! that they return the same responses:
//!
//! - `h2_min`: the part of HTTP/2 that unary gRPC needs
//! - `h2_crate`: the `h2` crate, for peers that use a part that `h2_min` lacks
//!
//! `response` reads the messages of responses in place.
//!
//! ```no_run
//! # use etcd_api::client::{pipelined::{PipelinedConnection, Rpc}, config::ClientConfig};
//! # use etcd_api::proto::etcdserverpb::RangeRequest;
//! # async fn example() -> Result<(), etcd_api::error::Error> {
//! let config = ClientConfig::new("127.0.0.1:2379")?;
//! let mut calls = PipelinedConnection::connect(&config, None).await?;
//! let get = RangeRequest { key: "k".into(), ..Default::default() };
//! for token in 0..10 {
//!     calls.send(Rpc::Range, &get, token)?;
//! }
//! while calls.outstanding() > 0 {
//!     calls.drive(&mut |done| println!("{}: {:?}", done.token, done.response)).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod h2_crate;
mod h2_min;
mod response;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

use http::HeaderValue;
use prost::Message;
use tonic::Code;

use super::config::ClientConfig;
use crate::error::Error;
use h2_crate::CrateConnection;
use h2_min::MinConnection;
pub use response::{RangeResult, parse_put_response, parse_range_response};

/// A method of the KV or Lease service with one request and one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rpc {
    /// `Range`; [`parse_range_response`] reads the response.
    Range,
    /// `Put`; [`parse_put_response`] reads the response.
    Put,
    /// `DeleteRange`.
    DeleteRange,
    /// `Txn`.
    Txn,
    /// `Compact`.
    Compact,
    /// `LeaseGrant`.
    LeaseGrant,
    /// `LeaseKeepAlive`, on a stream that is closed after one request.
    LeaseKeepAlive,
    /// `LeaseRevoke`.
    LeaseRevoke,
}

impl Rpc {
    /// Returns the HTTP path of the method.
    pub fn path(self) -> &'static str {
        match self {
            Self::Range => "/etcdserverpb.KV/Range",
            Self::Put => "/etcdserverpb.KV/Put",
            Self::DeleteRange => "/etcdserverpb.KV/DeleteRange",
            Self::Txn => "/etcdserverpb.KV/Txn",
            Self::Compact => "/etcdserverpb.KV/Compact",
            Self::LeaseGrant => "/etcdserverpb.Lease/LeaseGrant",
            Self::LeaseKeepAlive => "/etcdserverpb.Lease/LeaseKeepAlive",
            Self::LeaseRevoke => "/etcdserverpb.Lease/LeaseRevoke",
        }
    }
}

/// A call that has ended.
#[derive(Debug)]
pub struct Completion<'a> {
    /// The token under which the call was sent.
    pub token: u64,
    /// The time at which the last bytes of the response had been read from the socket.
    pub received: Instant,
    /// The protobuf message of the response, borrowed from the connection, or the error of the
    /// call.
    pub response: Result<&'a [u8], Error>,
}

/// The HTTP/2 implementation of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The part of HTTP/2 that unary gRPC needs. The default.
    Minimal,
    /// The `h2` crate.
    H2Crate,
}

/// One connection and the calls that are outstanding on it.
#[derive(Debug)]
pub struct PipelinedConnection {
    config: ClientConfig,
    token: Option<HeaderValue>,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Minimal(Box<MinConnection>),
    Crate(Box<CrateConnection>),
}

/// The reason why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// Closed or broken.
    #[error("connection: {0}")]
    Closed(String),
    /// The peer used a part of HTTP/2 that `h2_min` lacks, or broke the protocol.
    #[error("connection: unsupported by this client or against HTTP/2: {0}")]
    Unsupported(String),
    /// The peer keeps sending frames that require a reply (PING, SETTINGS, DATA) and does not read
    /// the replies.
    #[error("connection: the peer has left {replies} replies to its own frames unread, the limit")]
    Flooded {
        /// Number of replies that wait to be written, which is the limit.
        replies: usize,
    },
}

impl From<&Ended> for Error {
    fn from(ended: &Ended) -> Self {
        Self::Status {
            code: Code::Unavailable,
            message: ended.to_string(),
        }
    }
}

impl PipelinedConnection {
    /// Connects to the first endpoint that accepts, with [`Framing::Minimal`], or with
    /// [`Framing::H2Crate`] if the former does not support the peer's settings. `token` is that of
    /// an authenticated user.
    ///
    /// # Errors
    /// [`Error::Unreachable`] for the endpoint tried last, [`Error::Config`] for unusable settings.
    pub async fn connect(config: &ClientConfig, token: Option<HeaderValue>) -> Result<Self, Error> {
        Self::connect_as(Framing::Minimal, config, token).await
    }

    /// Connects with the given implementation of HTTP/2.
    ///
    /// # Errors
    /// As [`PipelinedConnection::connect`].
    pub async fn connect_as(
        framing: Framing,
        config: &ClientConfig,
        token: Option<HeaderValue>,
    ) -> Result<Self, Error> {
        Ok(Self {
            inner: open(framing, config, token.as_ref()).await?,
            config: config.clone(),
            token,
        })
    }

    /// Connects again after [`drive`](Self::drive) has failed, which it also does when the peer has
    /// sent GOAWAY or the 2³⁰ stream ids of a connection are used up. Uses the `h2` crate if the
    /// peer used a feature that [`Framing::Minimal`] lacks. Discards outstanding calls.
    ///
    /// # Errors
    /// As [`PipelinedConnection::connect`].
    pub async fn reconnect(&mut self) -> Result<(), Error> {
        let framing = match &self.inner {
            Inner::Minimal(connection) if connection.is_supported() => Framing::Minimal,
            _ => Framing::H2Crate,
        };
        self.inner = open(framing, &self.config, self.token.as_ref()).await?;
        Ok(())
    }

    /// Returns the HTTP/2 implementation in use.
    pub fn framing(&self) -> Framing {
        match &self.inner {
            Inner::Minimal(_) => Framing::Minimal,
            Inner::Crate(_) => Framing::H2Crate,
        }
    }

    /// Returns the number of calls that were sent and have not ended.
    pub fn outstanding(&self) -> usize {
        match &self.inner {
            Inner::Minimal(connection) => connection.outstanding(),
            Inner::Crate(connection) => connection.outstanding(),
        }
    }

    /// Queues a call. The next [`drive`](Self::drive) sends it as soon as the peer's limits allow
    /// that. Costs one encoding of the request.
    ///
    /// # Errors
    /// [`Error::Status`] with `Unavailable` once the connection has ended.
    pub fn send(&mut self, rpc: Rpc, request: &impl Message, token: u64) -> Result<(), Error> {
        match &mut self.inner {
            Inner::Minimal(connection) => connection.send(rpc, request, token),
            Inner::Crate(connection) => connection.send(rpc, request, token),
        }
    }

    /// Writes the queued requests and reads until at least one call has ended. Calls
    /// `on_completion` for each ended call, in the order in which they ended. Dropping the future
    /// loses nothing. Without outstanding calls, it returns only when the connection ends.
    ///
    /// # Errors
    /// [`Error::Status`] with `Unavailable` when the connection has ended, after `on_completion`
    /// was called with the failure of every outstanding call.
    pub async fn drive(
        &mut self,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Error> {
        poll_fn(|cx| self.poll_drive(cx, on_completion)).await
    }

    /// Polls [`drive`](Self::drive).
    ///
    /// # Errors
    /// As [`drive`](Self::drive).
    pub fn poll_drive(
        &mut self,
        cx: &mut Context<'_>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Poll<Result<(), Error>> {
        match &mut self.inner {
            Inner::Minimal(connection) => connection.poll_drive(cx, on_completion),
            Inner::Crate(connection) => connection.poll_drive(cx, on_completion),
        }
    }
}

async fn open(
    framing: Framing,
    config: &ClientConfig,
    token: Option<&HeaderValue>,
) -> Result<Inner, Error> {
    if framing == Framing::Minimal {
        match MinConnection::connect(config, token).await? {
            Ok(connection) => return Ok(Inner::Minimal(Box::new(connection))),
            Err(unsupported) => tracing::debug!("{unsupported}; using the h2 crate"),
        }
    }
    let connection = CrateConnection::connect(config, token).await?;
    Ok(Inner::Crate(Box::new(connection)))
}
