//! A client of the Kubernetes tier: its connection and the parameters of its requests.

use async_trait::async_trait;
use kube_api::ApiResource;
use kube_api::client::Connection;
use workloads::strategy::{PlainList, Strategy, Tier};

use super::super::error::ListError;
use super::super::list_case::ListCase;
use super::super::list_client::ListClient;
use super::list_parameters::{ListParameters, ShardRequest};
use crate::endpoint::TargetEndpoint;
use crate::verify::{Check, Listed};

/// How the objects of a list are transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operation) enum Exchange {
    /// As one response.
    Whole,
    /// Page by page.
    Pages,
    /// As the initial state of a watch.
    State,
}

/// One client, with a connection of its own.
#[derive(Debug)]
pub(in crate::operation) struct Kube {
    pub(in crate::operation) connection: Connection,
    pub(super) path: String,
    pub(in crate::operation) resource: ApiResource,
    pub(super) strategy: Strategy,
    pub(super) exchange: Exchange,
    pub(super) query: String,
    /// The node that the latest list requested.
    pub(super) node: Option<String>,
    /// The revision that every list must have, if one was requested.
    pub(super) revision: Option<i64>,
    /// Whether other clients list that revision, too.
    pub(super) is_pinned: bool,
    /// The `shardSelector` of every request, which the response must repeat.
    pub(super) shard: Option<String>,
    pub(super) parameters: ListParameters,
}

impl Kube {
    /// Connects a client, with no query yet.
    pub(in crate::operation) async fn connect(
        case: &ListCase,
        endpoint: &TargetEndpoint,
    ) -> Result<Self, ListError> {
        let url = endpoint.kube_url.as_deref();
        let url = url.ok_or_else(|| case.no_endpoint(Tier::Kube))?;
        let parameters = case.parameters.clone();
        let mut connection =
            Connection::new(url, endpoint.kube_access.clone(), parameters.options)?;
        connection.open().await?;
        Ok(Self {
            connection,
            path: case
                .resource
                .name
                .collection(parameters.namespace.as_deref()),
            resource: case.resource.clone(),
            strategy: case.strategy,
            exchange: Exchange::Whole,
            query: String::new(),
            node: None,
            revision: None,
            is_pinned: false,
            shard: parameters.part.as_ref().and_then(ShardRequest::requested),
            parameters,
        })
    }
}

#[async_trait]
impl ListClient for Kube {
    fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Opens the connection. Cancelling a list closes its connection, and opening a new one is not
    /// part of the next list's latency.
    async fn before(&mut self) -> Result<(), ListError> {
        Ok(self.connection.open().await?)
    }

    async fn revision(&mut self) -> Result<i64, ListError> {
        self.current_revision().await
    }

    fn pin(&mut self, revision: i64) {
        self.ask_exactly(revision);
        self.is_pinned = true;
    }

    async fn begin_again(&mut self) -> Result<(), ListError> {
        // The rest of a watch must not be read.
        self.connection.cancel();
        if let Some(pinned) = self.revision.filter(|_| self.is_pinned) {
            return Err(ListError::PinnedCompacted(pinned));
        }
        if self.revision.is_some() {
            let revision = self.current_revision().await?;
            self.ask_exactly(revision);
        }
        Ok(())
    }

    fn is_monotonic(&self) -> bool {
        let list = self.strategy.plain().and_then(PlainList::kube);
        list.is_none_or(|list| !list.may_go_back)
    }

    async fn list(
        &mut self,
        check: &mut Check,
        on_objects: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        match self.exchange {
            Exchange::State => self.state(Some(check), on_objects).await,
            Exchange::Whole | Exchange::Pages => self.pages(Some(check), on_objects).await,
        }
    }

    /// Reads pages for the next token, and a watch for its bookmark. The body of a whole list is
    /// only received.
    async fn list_unchecked(&mut self) -> Result<(), ListError> {
        match self.exchange {
            Exchange::State => {
                self.state(None, &mut || {}).await?;
            }
            Exchange::Pages => {
                self.pages(None, &mut || {}).await?;
            }
            Exchange::Whole => {
                self.open("").await?.discard().await?;
            }
        }
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        let (mut validator, mut events) = (self.validator(), self.events());
        let is_watch = self.exchange == Exchange::State;
        let mut body = self.open("").await?;
        while let Some(bytes) = body.next().await? {
            if is_watch {
                events.feed(&bytes, None)?;
            } else {
                validator.feed(&bytes, None)?;
            }
            if validator.items() > 0 || events.items > 0 || events.end.is_some() {
                break;
            }
        }
        drop(body);
        self.connection.cancel();
        Ok(())
    }
}
