//! What a connection needs of an API that small requests go to, so that one driver measures all of
//! them.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Instant;

use etcd_api::client::pipelined::{Completion, PipelinedConnection};
use etcd_api::error::Error as EtcdError;

use super::own_keys::OwnKeys;
use super::requests::{CallError, Calls, Checked, PlannedRequest};

/// The requests of one load to one API.
pub(crate) trait RequestApi {
    /// A connection with the requests that are outstanding on it.
    type Connection;
    /// Why a connection has ended.
    type Error: fmt::Display;
    /// A request that has ended, before its response was checked.
    type Answer<'a>: Answer;

    /// Returns the seed that operations and arrivals follow from.
    fn seed(&self) -> u64;

    /// Returns whether there are requests of several kinds.
    fn is_mixed(&self) -> bool;

    /// Returns whether what was written is kept, to be compared with events.
    fn keeps_writes(&self) -> bool;

    /// Returns operation `n`; a connection's own keys are `own`.
    fn operation(&self, n: u64, own: &mut OwnKeys) -> PlannedRequest;

    /// Queues a request under `token`; keys of its own are those of this connection.
    ///
    /// # Errors
    /// When the connection has ended.
    fn send(
        &self,
        connection: &mut Self::Connection,
        planned: PlannedRequest,
        connection_number: u64,
        token: u64,
    ) -> Result<(), Self::Error>;

    /// Takes what has ended. Ready when something has, or the connection has ended and nothing is
    /// outstanding on it any longer.
    fn poll_answers(
        connection: &mut Self::Connection,
        cx: &mut Context<'_>,
        on: &mut impl FnMut(Self::Answer<'_>),
    ) -> Poll<Result<(), Self::Error>>;

    /// Checks a response.
    ///
    /// # Errors
    /// [`CallError`].
    fn check(
        &self,
        planned: PlannedRequest,
        connection_number: u64,
        answer: Self::Answer<'_>,
    ) -> Result<Checked, CallError>;

    /// Opens a connection that has ended again.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn reconnect(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), Self::Error>>;
}

/// A request that has ended.
pub(crate) trait Answer {
    /// Returns what it was sent under.
    fn token(&self) -> u64;

    /// Returns when the last bytes of its response had come.
    fn received(&self) -> Instant;

    /// Returns how often the server put it off before (429).
    fn throttled(&self) -> u32 {
        0
    }
}

impl Answer for Completion<'_> {
    fn token(&self) -> u64 {
        self.token
    }

    fn received(&self) -> Instant {
        self.received
    }
}

impl RequestApi for Calls {
    type Connection = PipelinedConnection;
    type Error = EtcdError;
    type Answer<'a> = Completion<'a>;

    fn seed(&self) -> u64 {
        self.seed()
    }

    fn is_mixed(&self) -> bool {
        self.is_mixed()
    }

    fn keeps_writes(&self) -> bool {
        self.keeps_writes()
    }

    fn operation(&self, n: u64, own: &mut OwnKeys) -> PlannedRequest {
        self.operation(n, own)
    }

    fn send(
        &self,
        connection: &mut PipelinedConnection,
        planned: PlannedRequest,
        connection_number: u64,
        token: u64,
    ) -> Result<(), EtcdError> {
        self.send(connection, planned, connection_number, token)
    }

    fn poll_answers(
        connection: &mut PipelinedConnection,
        cx: &mut Context<'_>,
        on: &mut impl FnMut(Completion<'_>),
    ) -> Poll<Result<(), EtcdError>> {
        connection.poll_drive(cx, on)
    }

    fn check(
        &self,
        planned: PlannedRequest,
        connection_number: u64,
        answer: Completion<'_>,
    ) -> Result<Checked, CallError> {
        self.check(planned, connection_number, answer)
    }

    async fn reconnect(connection: &mut PipelinedConnection) -> Result<(), EtcdError> {
        connection.reconnect().await
    }
}
