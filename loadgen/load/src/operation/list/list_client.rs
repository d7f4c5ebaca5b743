//! What every strategy does: one client of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::error::ListError;
use crate::verify::{Check, Listed};

/// What a list cost the program that did it.
#[derive(Debug, Clone)]
pub struct ClientCost {
    /// What it says that it is, as `clientv3 3.7.1`.
    pub program: Arc<str>,
    /// From the call until every object was decoded, by the program's clock.
    pub latency: Duration,
    /// CPU time of the program meanwhile.
    pub cpu: Duration,
    /// Its highest resident size meanwhile, in bytes.
    pub rss_peak: u64,
}

/// One client of one strategy, with a connection of its own.
#[async_trait]
pub trait ListClient: Send {
    /// Returns whether [`ListClient::list`] shows the objects to its check. Where it does not,
    /// there is nothing to verify.
    fn shows_objects(&self) -> bool {
        true
    }

    /// Returns what the latest list cost the program that did it, where that is not this one.
    fn cost(&mut self) -> Option<ClientCost> {
        None
    }

    /// Shows the latest list to `check`, where [`Self::list`] leaves that for later.
    async fn show_latest(&mut self, _check: &mut Check) -> Result<Listed, ListError> {
        Err(ListError::Unsupported(
            "lists of this case are checked while they arrive, not afterwards",
        ))
    }

    /// Returns whether it never asks for anything: its rounds pass, and there is nothing to time.
    fn is_idle(&self) -> bool {
        false
    }

    /// Returns the node that the latest list asked for, where a case's lists ask for one after the
    /// other.
    fn node(&self) -> Option<&str> {
        None
    }

    /// Does what must be done before each list and is no part of its time.
    async fn before(&mut self) -> Result<(), ListError> {
        Ok(())
    }

    /// Returns the revision that the server is at, for lists that must agree on one: see
    /// [`Self::pin`].
    async fn revision(&mut self) -> Result<i64, ListError> {
        Err(ListError::Unsupported(
            "lists of this case cannot agree on a revision",
        ))
    }

    /// Makes ready to list again from the beginning, when what was being listed has been compacted.
    ///
    /// # Errors
    /// Where lists must be of one revision, which is gone.
    async fn begin_again(&mut self) -> Result<(), ListError> {
        Ok(())
    }

    /// Returns whether a list is never older than the one before it. What a cache holds may be,
    /// where another server answers.
    fn is_monotonic(&self) -> bool {
        true
    }

    /// Makes lists from now on be of exactly this revision, where [`Self::revision`] returns one.
    fn pin(&mut self, _revision: i64) {}

    /// Lists everything once, and shows every object to `check`. `on_first_object` is called once,
    /// when the first object is there.
    async fn list(
        &mut self,
        check: &mut Check,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError>;

    /// Lists without checking any object: the cost that remains is that of transport and server.
    async fn list_unchecked(&mut self) -> Result<(), ListError>;

    /// Begins a list and cancels it once the first object is there.
    async fn first_object(&mut self) -> Result<(), ListError>;
}
