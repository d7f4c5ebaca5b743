//! The parameters of a list on this tier, besides its strategy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_api::client::Options;
use kube_api::shard_selector::ShardSelector;
use workloads::scenario::Media;

use super::item_cache::ItemCache;

/// The parameters of a case's lists, besides its strategy. Shared by the case's clients.
#[derive(Debug, Clone, Default)]
pub struct ListParameters {
    /// The requested encoding.
    pub media: Media,
    /// The HTTP version, gzip and reading speed.
    pub options: Options,
    /// The namespace to list, if not all.
    pub namespace: Option<String>,
    /// The prefix of the names of the data set's namespaces, if lists contain other objects too.
    /// Those are received and not checked.
    pub own_namespaces: Option<String>,
    /// Whether loads create objects outside of the data set. Those are received and not checked.
    pub ignores_made: bool,
    /// The shard to list, if not everything.
    pub part: Option<ShardRequest>,
    /// The nodes that lists request in turn, if the selector has a node.
    pub nodes: Arc<[String]>,
    next_node: Arc<AtomicUsize>,
    pub(super) item_cache: ItemCache,
}

impl ListParameters {
    /// Returns parameters with this encoding and these options.
    #[must_use]
    pub fn new(media: Media, options: Options) -> Self {
        Self {
            media,
            options,
            ..Self::default()
        }
    }

    /// Returns the next node in turn, if lists request one.
    pub(super) fn take_node(&self) -> Option<String> {
        let next = self.next_node.fetch_add(1, Ordering::Relaxed);
        (!self.nodes.is_empty()).then(|| self.nodes[next % self.nodes.len()].clone())
    }
}

/// One worker's shard of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRequest {
    /// The shard.
    pub shard: ShardSelector,
    /// Whether the server filters by shard. If not, everything is requested, and the client
    /// discards the rest.
    pub by_server: bool,
}

impl ShardRequest {
    /// Returns the selector to request from the server, if the server filters.
    pub(super) fn requested(&self) -> Option<String> {
        self.by_server.then(|| self.shard.to_string())
    }

    /// Returns the selector to filter a complete response by, if the client filters.
    pub(super) fn kept(&self) -> Option<ShardSelector> {
        (!self.by_server).then(|| self.shard.clone())
    }
}
