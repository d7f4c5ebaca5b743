//! The Kubernetes tier: `cached` (resourceVersion=0), `consistent` (unset), `exact`, `paged:N` (limit and continue),
//! `selector:…`, `watch-list`, and one worker's part of `sharded:N` and `client-filtered:N`. Lists differ in the query of the
//! first request and in how many pages follow.
//!
//! - [`asks`]: what is asked for beside the strategy; [`request`]: a request as it is sent
//! - [`pages`]: a list page by page; [`state`]: a watch that begins with the state; [`exact`]: a list of one revision
//! - [`walker`]: what reads an answer: [`protobuf`], [`json`]: walks over a list as it comes in; [`events`]: over a watch that
//!   begins with the state
//! - [`restore`]: an item back to what was stored; [`memo`]: items in JSON that need not be parsed again
//! - [`frames`]: the frames of a watch; [`follow`]: one worker's watch, from the state to whatever comes
//! - [`patch`]: changes of objects through the API
//! - [`read_your_write`]: a write, and whether a list has it

mod asks;
mod events;
mod exact;
pub mod follow;
mod frames;
mod json;
mod memo;
mod pages;
pub mod patch;
mod protobuf;
mod read_your_write;
mod request;
mod restore;
mod state;
mod walker;

use async_trait::async_trait;
use http::StatusCode;
use workloads::strategy::Strategy;

use super::{ListError, Listed, Lister, Reach, Row};
use crate::target::kube::{Connection, KubeError};
use crate::verify::{Check, Wrong};
pub use asks::{Asks, Part};
use request::WATCH_LIST;
pub(crate) use restore::Restore;

/// Where every data set of this tier is stored.
const ROOT: &str = "/registry/";

/// A client of the Kubernetes API.
pub(super) async fn connect(row: &Row, reach: &Reach) -> Result<Box<dyn Lister>, ListError> {
    let mut lister = Kube::connect(row, reach).await?;
    lister.query = match row.strategy {
        Strategy::Cached => "resourceVersion=0".to_owned(),
        Strategy::Paged(size) => format!("limit={size}"),
        Strategy::WatchList => WATCH_LIST.to_owned(),
        _ => String::new(),
    };
    if row.strategy == Strategy::Exact {
        let revision = lister.current_revision().await?;
        lister.ask_exactly(revision);
    }
    if row.strategy == Strategy::ReadYourWrite {
        let config = reach.etcd.clone();
        let config =
            config.ok_or_else(|| ListError::Http("there is no etcd to write to".into()))?;
        let etcd = etcd_api::client::Client::connect(config).await?;
        return Ok(Box::new(read_your_write::ReadYourWrite::new(lister, etcd)));
    }
    Ok(Box::new(lister))
}

#[derive(Debug)]
struct Kube {
    connection: Connection,
    path: String,
    resource: String,
    strategy: Strategy,
    query: String,
    /// The node that the latest list asked for.
    node: Option<String>,
    /// The revision that every list must be of, where one was asked for.
    revision: Option<i64>,
    /// Whether that revision was agreed upon with other clients.
    is_pinned: bool,
    /// The `shardSelector` of every request, which the answer must repeat.
    shard: Option<String>,
    asks: Asks,
}

impl Kube {
    /// A connected client, with no query yet.
    async fn connect(row: &Row, reach: &Reach) -> Result<Self, ListError> {
        let url = reach.kube_url.as_deref();
        let url =
            url.ok_or_else(|| ListError::Http("the target has no Kubernetes API".to_owned()))?;
        let asks = row.asks.clone();
        let mut connection = Connection::new(url, reach.kube_access.clone(), asks.options)?;
        connection.open().await?;
        let path = match &asks.namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/{}", row.resource),
            None => format!("/api/v1/{}", row.resource),
        };
        Ok(Self {
            connection,
            path,
            resource: row.resource.clone(),
            strategy: row.strategy,
            query: String::new(),
            node: None,
            revision: None,
            is_pinned: false,
            shard: asks.part.as_ref().and_then(Part::asked),
            asks,
        })
    }
}

#[async_trait]
impl Lister for Kube {
    fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// A connection whose list was cancelled was closed with it, and a new one is no part of the next list's time.
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
        // What is left of a watch is not to be read.
        self.connection.cancel();
        if self.is_pinned {
            let why = "the revision that all clients list was compacted".to_owned();
            return Err(ListError::Http(why));
        }
        if self.revision.is_some() {
            let revision = self.current_revision().await?;
            self.ask_exactly(revision);
        }
        Ok(())
    }

    fn is_monotonic(&self) -> bool {
        self.strategy != Strategy::Cached
    }

    async fn list(
        &mut self,
        check: &mut Check,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        match self.strategy {
            Strategy::WatchList => self.state(Some(check), on_first_object).await,
            _ => self.pages(Some(check), on_first_object).await,
        }
    }

    /// Pages must be walked for the next token, a watch for its bookmark; whole lists are only read.
    async fn drain(&mut self) -> Result<(), ListError> {
        match self.strategy {
            Strategy::WatchList => {
                self.state(None, &mut || {}).await?;
            }
            Strategy::Paged(_) => {
                self.pages(None, &mut || {}).await?;
            }
            _ => {
                self.open("").await?.drain().await?;
            }
        }
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        let (mut walker, mut events) = (self.walker(), self.events());
        let is_watch = self.strategy == Strategy::WatchList;
        let mut body = self.open("").await?;
        while let Some(bytes) = body.next().await? {
            if is_watch {
                events.feed(&bytes, None)?;
            } else {
                walker.feed(&bytes, None)?;
            }
            if walker.items() > 0 || events.items > 0 || events.end.is_some() {
                break;
            }
        }
        drop(body);
        self.connection.cancel();
        Ok(())
    }
}

impl From<KubeError> for ListError {
    fn from(error: KubeError) -> Self {
        match error {
            KubeError::CutOff { bytes, reason } => Self::CutOff { bytes, reason },
            KubeError::Refused { status, text, .. } if status == StatusCode::GONE => {
                Self::Expired(text)
            }
            other => Self::Http(other.to_string()),
        }
    }
}

fn not_a_list(why: &str) -> Wrong {
    Wrong::NotAList(why.to_owned())
}
