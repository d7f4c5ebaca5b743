//! What a case of this tier asks for, besides its strategy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_api::client::Options;
use kube_api::shard_selector::ShardSelector;
use workloads::scenario::Media;

use super::item_cache::ItemCache;

/// How a case of this tier asks, besides its strategy. Shared by the case's clients.
#[derive(Debug, Clone, Default)]
pub struct ListParameters {
    /// The encoding that is asked for.
    pub media: Media,
    /// HTTP version, gzip, reading speed.
    pub options: Options,
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// What the names of our own namespaces begin with, where lists hold others' objects too: those
    /// are received and not checked.
    pub own_namespaces: Option<String>,
    /// Whether loads make objects outside of the data set: those are received and not checked.
    pub ignores_made: bool,
    /// Only objects of this part.
    pub part: Option<ShardRequest>,
    /// Nodes that lists ask for in turn, where the selector has one.
    pub nodes: Arc<[String]>,
    next_node: Arc<AtomicUsize>,
    pub(super) item_cache: ItemCache,
}

impl ListParameters {
    /// Returns what to ask for with this encoding, spoken like this.
    #[must_use]
    pub fn new(media: Media, options: Options) -> Self {
        Self {
            media,
            options,
            ..Self::default()
        }
    }

    /// Returns the node whose turn it is, where lists ask for one.
    pub(super) fn take_node(&self) -> Option<String> {
        let next = self.next_node.fetch_add(1, Ordering::Relaxed);
        (!self.nodes.is_empty()).then(|| self.nodes[next % self.nodes.len()].clone())
    }
}

/// One worker's part of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRequest {
    /// Which objects.
    pub shard: ShardSelector,
    /// Whether the server is asked for these only; else it is asked for all, and the rest is thrown
    /// away here.
    pub by_server: bool,
}

impl ShardRequest {
    /// Returns what the server is asked for.
    pub(super) fn asked(&self) -> Option<String> {
        self.by_server.then(|| self.shard.to_string())
    }

    /// Returns what is kept of an answer that has everything.
    pub(super) fn kept(&self) -> Option<ShardSelector> {
        (!self.by_server).then(|| self.shard.clone())
    }
}
