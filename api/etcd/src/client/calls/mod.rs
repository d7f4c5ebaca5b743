//! Many small unary calls outstanding on one connection, at the least cost per call.
//!
//! A [`CallConnection`] belongs to one task: [`send`](CallConnection::send) queues a request under a
//! token of the caller's choosing, [`turn`](CallConnection::turn) writes what is queued, reads what
//! came, and hands every finished call to a callback. Nothing is spawned and nothing is allocated
//! per call. Two framings stand behind it and give the same answers (tested against each other):
//!
//! - `framed`: HTTP/2 by hand, as far as unary gRPC needs it: `outgoing` sends, `streams` are the
//!   calls, `wire` and `hpack` (with `huffman`) are the bytes
//! - `multiplexed`: the `h2` library, for peers that do something that the first does not know
//!
//! ```no_run
//! # use etcd_api::client::{calls::{CallConnection, Rpc}, config::ClientConfig};
//! # use etcd_api::proto::etcdserverpb::RangeRequest;
//! # async fn example() -> Result<(), etcd_api::error::Error> {
//! let config = ClientConfig::new("127.0.0.1:2379")?;
//! let mut calls = CallConnection::connect(&config, None).await?;
//! let get = RangeRequest { key: "k".into(), ..Default::default() };
//! for token in 0..10 {
//!     calls.send(Rpc::Range, &get, token)?;
//! }
//! while calls.outstanding() > 0 {
//!     calls.turn(&mut |done| println!("{}: {:?}", done.token, done.answer)).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod answer;
mod framed;
mod hpack;
mod huffman;
mod multiplexed;
mod outgoing;
mod streams;
#[cfg(test)]
mod tests;
mod wire;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

use http::HeaderValue;
use prost::Message;
use tonic::Code;

use super::config::ClientConfig;
use crate::error::Error;
pub use answer::{RangeAnswer, put_answer, range_answer};
use framed::Framed;
use multiplexed::Multiplexed;

/// A call with one request and one response, of the KV and Lease services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rpc {
    /// `Range`: [`range_answer`] reads its answer.
    Range,
    /// `Put`: [`put_answer`] reads its answer.
    Put,
    /// `DeleteRange`.
    DeleteRange,
    /// `Txn`.
    Txn,
    /// `Compact`.
    Compact,
    /// `LeaseGrant`.
    LeaseGrant,
    /// `LeaseKeepAlive`, on a stream that ends with its one request.
    LeaseKeepAlive,
    /// `LeaseRevoke`.
    LeaseRevoke,
}

impl Rpc {
    /// Its path on the wire.
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
    /// What the call was sent under.
    pub token: u64,
    /// When its last bytes had been read from the socket.
    pub received: Instant,
    /// The answer's protobuf message, borrowed from the connection, or how the call failed.
    pub answer: Result<&'a [u8], Error>,
}

/// Which code frames the calls of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// HTTP/2 framed by hand. The default.
    ByHand,
    /// The `h2` library.
    H2,
}

/// One connection and the calls that are outstanding on it.
#[derive(Debug)]
pub struct CallConnection {
    config: ClientConfig,
    token: Option<HeaderValue>,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Framed(Box<Framed>),
    Multiplexed(Box<Multiplexed>),
}

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// Closed or broken.
    #[error("connection: {0}")]
    Closed(String),
    /// The peer did something that framing by hand does not know, legal or not.
    #[error("connection: peer not understood: {0}")]
    Unknown(String),
    /// The peer sends what must be answered (PING, SETTINGS, DATA) without end and does not read the answers.
    #[error("connection: the peer does not read {replies} answers to its own frames")]
    Flooded {
        /// How many wait: the most that may.
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

impl CallConnection {
    /// Connects to the first endpoint that accepts, framing by hand; falls back to [`Framing::H2`]
    /// when the peer's settings are not understood. `token` is an authenticated user's.
    ///
    /// # Errors
    /// [`Error::Unreachable`] for the endpoint tried last, [`Error::Config`] for unusable settings.
    pub async fn connect(config: &ClientConfig, token: Option<HeaderValue>) -> Result<Self, Error> {
        Self::connect_as(Framing::ByHand, config, token).await
    }

    /// Connects with a framing of the caller's choice.
    ///
    /// # Errors
    /// As [`CallConnection::connect`].
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

    /// Connects again after [`turn`](Self::turn) has failed: with `h2` if the peer was not
    /// understood. Outstanding calls are forgotten.
    ///
    /// # Errors
    /// As [`CallConnection::connect`].
    pub async fn reconnect(&mut self) -> Result<(), Error> {
        let framing = match &self.inner {
            Inner::Framed(framed) if framed.was_understood() => Framing::ByHand,
            _ => Framing::H2,
        };
        self.inner = open(framing, &self.config, self.token.as_ref()).await?;
        Ok(())
    }

    /// Which code frames the calls.
    pub fn framing(&self) -> Framing {
        match &self.inner {
            Inner::Framed(_) => Framing::ByHand,
            Inner::Multiplexed(_) => Framing::H2,
        }
    }

    /// Calls that were sent and have not ended.
    pub fn outstanding(&self) -> usize {
        match &self.inner {
            Inner::Framed(framed) => framed.outstanding(),
            Inner::Multiplexed(multiplexed) => multiplexed.outstanding(),
        }
    }

    /// Queues a call; it leaves with the next [`turn`](Self::turn), as soon as the peer's limits
    /// allow. Costs one encoding of the request.
    ///
    /// # Errors
    /// [`Error::Status`] with `Unavailable` once the connection has ended.
    pub fn send(&mut self, rpc: Rpc, request: &impl Message, token: u64) -> Result<(), Error> {
        match &mut self.inner {
            Inner::Framed(framed) => framed.send(rpc, request, token),
            Inner::Multiplexed(multiplexed) => multiplexed.send(rpc, request, token),
        }
    }

    /// Writes what is queued and reads until at least one call has ended; `on_completion` is shown
    /// each, in the order in which they ended. Cancelling it loses nothing. Without outstanding
    /// calls it only ends when the connection does.
    ///
    /// # Errors
    /// [`Error::Status`] with `Unavailable` when the connection has ended; every outstanding call
    /// has been shown as failed before.
    pub async fn turn(
        &mut self,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Error> {
        poll_fn(|cx| self.poll_turn(cx, on_completion)).await
    }

    /// [`turn`](Self::turn) for callers that poll.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn poll_turn(
        &mut self,
        cx: &mut Context<'_>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Poll<Result<(), Error>> {
        match &mut self.inner {
            Inner::Framed(framed) => framed.poll_turn(cx, on_completion),
            Inner::Multiplexed(multiplexed) => multiplexed.poll_turn(cx, on_completion),
        }
    }
}

async fn open(
    framing: Framing,
    config: &ClientConfig,
    token: Option<&HeaderValue>,
) -> Result<Inner, Error> {
    if framing == Framing::ByHand {
        match Framed::connect(config, token).await? {
            Ok(framed) => return Ok(Inner::Framed(Box::new(framed))),
            Err(unknown) => tracing::debug!("{unknown}; using the h2 library"),
        }
    }
    let multiplexed = Multiplexed::connect(config, token).await?;
    Ok(Inner::Multiplexed(Box::new(multiplexed)))
}
