//! The trait of an API that small requests go to, so that one driver measures all of them.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Instant;

use etcd_api::client::pipelined::Completion;

use super::own_keys::OwnKeys;
use super::requests::{CallError, Checked, PlannedRequest};

/// The requests of one load to one API.
pub(crate) trait RequestApi {
    /// A connection with its outstanding requests.
    type Connection;
    /// The error that ends a connection.
    type Error: fmt::Display;
    /// A request that has ended, with its response not checked yet.
    type CompletedRequest<'a>: CompletedRequest;

    /// Returns the seed from which operations and arrivals are derived.
    fn seed(&self) -> u64;

    /// Returns whether there are requests of several kinds.
    fn is_mixed(&self) -> bool;

    /// Returns whether writes are kept, to be compared with events.
    fn keeps_writes(&self) -> bool;

    /// Returns operation `n`. `own` has the connection's own keys.
    fn operation(&self, n: u64, own: &mut OwnKeys) -> PlannedRequest;

    /// Queues a request under `token`. Its own keys are those of connection `connection_number`.
    ///
    /// # Errors
    /// The error of a connection that has ended.
    fn send(
        &self,
        connection: &mut Self::Connection,
        planned: PlannedRequest,
        connection_number: u64,
        token: u64,
    ) -> Result<(), Self::Error>;

    /// Passes ended requests to `on`. Returns ready when a request has ended, or with an error when
    /// the connection has ended and nothing is outstanding on it.
    fn poll_completions(
        connection: &mut Self::Connection,
        cx: &mut Context<'_>,
        on: &mut impl FnMut(Self::CompletedRequest<'_>),
    ) -> Poll<Result<(), Self::Error>>;

    /// Checks a response.
    ///
    /// # Errors
    /// A [`CallError`] when the request failed or the response is wrong.
    fn check(
        &self,
        planned: PlannedRequest,
        connection_number: u64,
        completed: Self::CompletedRequest<'_>,
    ) -> Result<Checked, CallError>;

    /// Reopens a connection that has ended.
    ///
    /// # Errors
    /// The error when the target cannot be reached.
    fn reconnect(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), Self::Error>>;
}

/// A request that has ended.
pub(crate) trait CompletedRequest {
    /// Returns the token under which the request was sent.
    fn token(&self) -> u64;

    /// Returns when the last bytes of its response were received.
    fn received(&self) -> Instant;

    /// Returns how often the server deferred the request (429).
    fn throttled(&self) -> u32 {
        0
    }
}

impl CompletedRequest for Completion<'_> {
    fn token(&self) -> u64 {
        self.token
    }

    fn received(&self) -> Instant {
        self.received
    }
}
