//! The trait that every strategy implements: one client.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::error::ListError;
use crate::verify::{Check, Listed};

/// The cost of a list, measured by the external program that listed.
#[derive(Debug, Clone)]
pub struct ClientCost {
    /// The program's description of itself, as in `clientv3 3.7.1`.
    pub program: Arc<str>,
    /// The time from the call until every object was decoded, by the program's clock.
    pub latency: Duration,
    /// The program's CPU time meanwhile.
    pub cpu: Duration,
    /// The program's highest resident set size meanwhile, in bytes.
    pub rss_peak: u64,
}

/// One client of one strategy, with a connection of its own.
#[async_trait]
pub trait ListClient: Send {
    /// Returns whether [`ListClient::list`] passes the objects to its check. If it does not, there
    /// is nothing to verify.
    fn shows_objects(&self) -> bool {
        true
    }

    /// Returns the cost of the latest list, if an external program listed.
    fn cost(&mut self) -> Option<ClientCost> {
        None
    }

    /// Passes the latest list to `check`, for clients whose [`Self::list`] does not.
    async fn show_latest(&mut self, _check: &mut Check) -> Result<Listed, ListError> {
        Err(ListError::Unsupported(
            "lists of this case are checked while they arrive, not afterwards",
        ))
    }

    /// Returns whether the client never sends a request. Its rounds pass with nothing to time.
    fn is_idle(&self) -> bool {
        false
    }

    /// Returns the node that the latest list requested, for cases whose lists request one node
    /// after the other.
    fn node(&self) -> Option<&str> {
        None
    }

    /// Performs the work before each list that is not part of its latency.
    async fn before(&mut self) -> Result<(), ListError> {
        Ok(())
    }

    /// Returns the server's current revision, for lists that must all read one: see [`Self::pin`].
    async fn revision(&mut self) -> Result<i64, ListError> {
        Err(ListError::Unsupported(
            "lists of this case cannot agree on a revision",
        ))
    }

    /// Prepares to list again from the beginning after what was being listed has been compacted.
    ///
    /// # Errors
    /// An error if lists must have one revision, and that revision is compacted.
    async fn begin_again(&mut self) -> Result<(), ListError> {
        Ok(())
    }

    /// Returns whether a list is never older than the one before it. A list from a cache can be, if
    /// another server responds.
    fn is_monotonic(&self) -> bool {
        true
    }

    /// Makes the following lists read exactly this revision, for clients with [`Self::revision`].
    fn pin(&mut self, _revision: i64) {}

    /// Lists everything once, and passes every object to `check`. Calls `on_objects` after each
    /// piece of the response that completes an object.
    async fn list(
        &mut self,
        check: &mut Check,
        on_objects: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError>;

    /// Lists without checking any object, which leaves the cost of transport and server.
    async fn list_unchecked(&mut self) -> Result<(), ListError>;

    /// Starts a list and cancels it when the first object arrives.
    async fn first_object(&mut self) -> Result<(), ListError>;
}
