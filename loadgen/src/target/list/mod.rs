//! The strategies: each one way to list everything, behind one small trait that one driver runs.
//!
//! To add one: its name in [`workloads::Strategy`] (`NAMES`, `Display`, `FromStr`, `runs_on`, `shape`); a file here with a
//! [`Lister`]; a line in [`Row::connect`], and what can be said about it in [`Row::encoding`] and [`Row::refused_by`]. Rows
//! with options, bars and loads beside a row then work for it as for every other. What is no list of everything, or needs
//! another rhythm than rounds, is a [`workloads::Shape`] of its own with a driver in `run/row/`.

pub mod again;
mod chunk;
mod go_client;
pub(super) mod kube;
mod no_lists;
mod paged;
mod whole;

use std::time::Duration;

use async_trait::async_trait;
use etcd_api::client::Client;
use etcd_api::client::raw_list::ListRpc;
use etcd_api::error::{Error as EtcdError, Refusal};
use workloads::GoClient;
use workloads::scenario::Media;
use workloads::strategy::{Strategy, Tier};

use super::Running;
use super::kube::KubeAccess;
use super::program::ProgramError;
use crate::result::ServedFrom;
use crate::verify::{Check, Wrong};
use again::MOST_RESTARTS;
pub use go_client::{ClientCost, GoClients};
pub(crate) use kube::Restore;
pub use kube::follow;
pub use kube::patch;
pub use kube::{Asks, Part};

/// What a list said about itself; what it held is in the [`Check`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listed {
    /// Revision (resourceVersion) that it was read at.
    pub revision: i64,
    /// Chunks, pages or frames with objects.
    pub chunks: u64,
    /// Bytes received, protocol framing of HTTP excluded.
    pub wire_bytes: u64,
}

/// How a list failed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The call failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The Kubernetes API failed.
    #[error("{0}")]
    Http(String),
    /// The Kubernetes API no longer keeps what the list is read from (410).
    #[error("410 Expired: {0}")]
    Expired(String),
    /// Each time that it was begun, what it was read from was compacted before its end.
    #[error(
        "the list takes longer than history is kept: begun again {MOST_RESTARTS} times, and then: {last}"
    )]
    HistoryTooShort {
        /// What was said the last time.
        last: String,
    },
    /// The Kubernetes API ended its answer before its end.
    #[error("body: cut off after {bytes} bytes: {reason}")]
    CutOff {
        /// Bytes of it that came.
        bytes: u64,
        /// How it ended.
        reason: String,
    },
    /// The answer is wrong.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// The client is a program of its own, and gave no answer.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A list without `metadata.shardInfo` although a shard was asked for: the server sent everything.
    #[error(
        "its lists have no metadata.shardInfo: the server does not shard, and whole lists are no shards"
    )]
    NotSharded,
    /// No end within the time allowed.
    #[error("no end after {} s", .0.as_secs())]
    Slow(Duration),
}

impl ListError {
    /// Whether what the list was read from was compacted, so that it may be begun again.
    #[must_use]
    pub fn is_compacted(&self) -> bool {
        matches!(
            self,
            Self::Etcd(EtcdError::Refused(Refusal::Compacted))
                | Self::Expired(_)
                | Self::Wrong(Wrong::Expired(_))
        )
    }
}

/// One client of one strategy, with a connection of its own.
#[async_trait]
pub trait Lister: Send {
    /// Whether [`Lister::list`] shows the objects to its check. Where it does not, there is nothing to verify.
    fn shows_objects(&self) -> bool {
        true
    }

    /// Returns what the latest list cost the program that did it, where that is not this one.
    fn cost(&mut self) -> Option<ClientCost> {
        None
    }

    /// Shows the latest list to `check`, where [`Self::list`] leaves that for later.
    async fn show_latest(&mut self, _check: &mut Check) -> Result<Listed, ListError> {
        Err(ListError::Http(
            "lists of this row are checked while they arrive".to_owned(),
        ))
    }

    /// Whether it never asks for anything: its rounds pass, and there is nothing to time.
    fn is_idle(&self) -> bool {
        false
    }

    /// The node that the latest list asked for, where a row's lists ask for one after the other.
    fn node(&self) -> Option<&str> {
        None
    }

    /// What must be done before each list and is no part of its time.
    async fn before(&mut self) -> Result<(), ListError> {
        Ok(())
    }

    /// The revision that the server is at, for lists that must agree on one: see [`Self::pin`].
    async fn revision(&mut self) -> Result<i64, ListError> {
        Err(ListError::Http(
            "lists of this row have no common revision".to_owned(),
        ))
    }

    /// Makes ready to list again from the beginning, when what was being listed has been compacted.
    ///
    /// # Errors
    /// Where lists must be of one revision, which is gone.
    async fn begin_again(&mut self) -> Result<(), ListError> {
        Ok(())
    }

    /// Whether a list is never older than the one before it. What a cache holds may be, where another server answers.
    fn is_monotonic(&self) -> bool {
        true
    }

    /// Lists from now on are of exactly this revision, where [`Self::revision`] answers.
    fn pin(&mut self, _revision: i64) {}

    /// One whole list, every object shown to `check`. `on_first_object` is called once, when the first object is there.
    async fn list(
        &mut self,
        check: &mut Check,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError>;

    /// The same list by a client that looks at no object: what remains is transport and server.
    async fn drain(&mut self) -> Result<(), ListError>;

    /// Begins a list and cancels it once the first object is there.
    async fn first_object(&mut self) -> Result<(), ListError>;
}

/// What a row lists, and as what.
#[derive(Debug, Clone)]
pub struct Row {
    /// Which protocol.
    pub tier: Tier,
    /// Which way.
    pub strategy: Strategy,
    /// Key prefix of the etcd tier, as `/registry/pods/`.
    pub prefix: String,
    /// Collection of the Kubernetes tier, as `pods`.
    pub resource: String,
    /// How clients of the Kubernetes tier ask.
    pub asks: Asks,
    /// Where the programs of rows by Go clients are.
    pub go_clients: GoClients,
}

impl Row {
    /// A client for this row, connected.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached.
    pub async fn connect(&self, to: &Reach) -> Result<Box<dyn Lister>, ListError> {
        if let Strategy::GoClient(client) = self.strategy {
            return Ok(Box::new(go_client::connect(client, self, to).await?));
        }
        let client = match (&to.etcd, self.tier) {
            (Some(config), Tier::Etcd) => Client::connect(config.clone()).await?,
            _ if self.strategy == Strategy::NoLists => return Ok(Box::new(no_lists::NoLists)),
            _ => return kube::connect(self, to).await,
        };
        let raw = client.raw().await?;
        Ok(match self.strategy {
            Strategy::Stream => {
                Box::new(whole::Whole::new(raw, ListRpc::RangeStream, &self.prefix))
            }
            Strategy::NoLists => Box::new(no_lists::NoLists),
            Strategy::Paged(size) => Box::new(paged::Paged::new(raw, &self.prefix, size.get())),
            _ => Box::new(whole::Whole::new(raw, ListRpc::Range, &self.prefix)),
        })
    }

    /// How the server encodes what it sends for this row.
    #[must_use]
    pub fn encoding(&self, running: &Running) -> &'static str {
        match (self.tier, self.strategy) {
            (_, Strategy::NoLists | Strategy::NoWatches) => "none",
            (Tier::Kube, _) if self.asks.media == Media::Json => "json",
            (Tier::Kube, _) => "protobuf",
            (Tier::Etcd, Strategy::Stream | Strategy::GoClient(GoClient::Stream)) => "stream",
            (Tier::Etcd, _) => running.unary_encoding,
        }
    }

    /// Which part of the server answers; the watch cache only where the server's own counters say so later.
    #[must_use]
    pub fn served_from(&self) -> ServedFrom {
        match self.tier {
            Tier::Etcd => ServedFrom::Store,
            Tier::Kube => ServedFrom::Unknown,
        }
    }

    /// Why this target cannot have the row although it speaks the protocol; `None` when it may.
    #[must_use]
    pub fn refused_by(&self, running: &Running) -> Option<String> {
        let program = &running.setup.program;
        match (self.tier, self.strategy, running.unary_encoding) {
            (Tier::Etcd, Strategy::UnaryIncremental, "buffered") => Some(format!(
                "{program} has no incremental encoding: it builds a unary answer whole before sending"
            )),
            (Tier::Etcd, Strategy::UnaryIncremental, "unknown") => Some(format!(
                "how {program} encodes a unary answer cannot be seen from outside: row `unary` has it, whichever it is"
            )),
            (
                Tier::Kube,
                Strategy::ReadYourWrite
                | Strategy::WatchSharded(_)
                | Strategy::WatchClientFiltered(_)
                | Strategy::NoWatches,
                _,
            ) if running.etcd.is_none() => {
                Some("it writes to the etcd behind the API, which is not known".to_owned())
            }
            (_, Strategy::GoClient(client), _) => self.refused_to(client, running),
            _ => None,
        }
    }

    /// Why a Go client cannot list from this target; `None` when it may. The programs know no credentials, and only pods.
    fn refused_to(&self, client: GoClient, running: &Running) -> Option<String> {
        let etcd = running.etcd.as_ref().filter(|_| self.tier == Tier::Etcd);
        let secured = etcd.is_some_and(|etcd| {
            etcd.user.is_some()
                || etcd
                    .endpoints
                    .iter()
                    .any(|uri| uri.scheme_str() == Some("https"))
        });
        let access = &running.kube_access;
        let kube = running
            .kube_url
            .as_deref()
            .filter(|_| self.tier == Tier::Kube);
        let kube_secured =
            kube.is_some_and(|url| url.starts_with("https:") || access.authorization.is_some());
        let asks = &self.asks;
        if secured || kube_secured {
            return Some(format!(
                "{} is given no credentials and no CA",
                client.program()
            ));
        }
        if self.tier == Tier::Kube && self.resource != "pods" {
            return Some(format!("{client} lists pods, not {}", self.resource));
        }
        (asks.namespace.is_some() || asks.own_namespaces.is_some())
            .then(|| format!("{client} lists all namespaces, and not only ours are there"))
    }

    /// The row by our own client that asks for the same.
    #[must_use]
    pub fn by_our_client(&self) -> Self {
        let client = self.strategy.go_client();
        Self {
            strategy: client.map_or(self.strategy, GoClient::same_request),
            ..self.clone()
        }
    }
}

/// How to reach a running target; what a client thread needs of it.
#[derive(Debug, Clone)]
pub struct Reach {
    /// The etcd tier.
    pub etcd: Option<etcd_api::client::config::ClientConfig>,
    /// The Kubernetes tier.
    pub kube_url: Option<String>,
    /// What the Kubernetes tier lets clients in by.
    pub kube_access: KubeAccess,
}

impl From<&Running> for Reach {
    fn from(running: &Running) -> Self {
        Self {
            etcd: running.etcd.clone(),
            kube_url: running.kube_url.clone(),
            kube_access: running.kube_access.clone(),
        }
    }
}
