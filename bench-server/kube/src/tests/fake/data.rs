//! The content of the storage: its keys at every revision, the events between them, and its
//! watchers.

use std::collections::BTreeMap;

use etcd_api::error::{Error, Refusal};
use etcd_api::keys::prefix_end;
use etcd_api::kubernetes::{ListOptions, WatchError, WatchEvent, WatchItem};
use etcd_api::proto::mvccpb::KeyValue;
use tokio::sync::mpsc;

#[derive(Debug, Default)]
pub(super) struct Data {
    /// The keys after each revision. The first element is revision 1.
    pub(super) states: Vec<BTreeMap<Vec<u8>, KeyValue>>,
    /// All events, in the order of their revisions.
    pub(super) events: Vec<WatchEvent>,
    pub(super) compacted: i64,
    pub(super) watchers: Vec<Watcher>,
}

#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) prefix: Vec<u8>,
    pub(super) stream_key: String,
    pub(super) sender: mpsc::UnboundedSender<Result<WatchItem, WatchError>>,
    /// Events that are held back while the storage is silent.
    pub(super) held: Vec<WatchItem>,
}

impl Data {
    pub(super) fn revision(&self) -> i64 {
        self.states.len() as i64
    }

    pub(super) fn at(&self, revision: i64) -> Result<&BTreeMap<Vec<u8>, KeyValue>, Error> {
        let revision = if revision == 0 {
            self.revision()
        } else {
            revision
        };
        if revision < self.compacted {
            return Err(Error::Refused(Refusal::Compacted));
        }
        usize::try_from(revision - 1)
            .ok()
            .and_then(|at| self.states.get(at))
            .ok_or(Error::Refused(Refusal::FutureRevision))
    }

    /// Returns the keys of a page, and the number of keys from the start of the page on.
    pub(super) fn list(
        &self,
        prefix: &[u8],
        options: &ListOptions,
    ) -> Result<(Vec<KeyValue>, i64), Error> {
        let start = if options.continue_key.is_empty() {
            prefix.to_vec()
        } else {
            options.continue_key.to_vec()
        };
        let all: Vec<_> = self
            .at(options.revision)?
            .range(start..prefix_end(prefix))
            .map(|(_, kv)| kv.clone())
            .collect();
        let count = all.len() as i64;
        let limit = if options.limit == 0 {
            all.len()
        } else {
            options.limit as usize
        };
        Ok((all.into_iter().take(limit).collect(), count))
    }
}
