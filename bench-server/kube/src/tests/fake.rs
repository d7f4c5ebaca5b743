//! A small storage that implements the same trait as the real ones. It simulates faults that those
//! do not produce on demand: no RangeStream, no progress, a watch that lags, a server that is down.
//!
//! - [`data`]: the content of the storage
//! - [`switches`]: makes calls fail, and counts calls
//! - [`answers`]: implements the methods of the trait

mod answers;
mod data;
mod switches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use etcd_api::kubernetes::{EventKind, WatchError, WatchEvent, WatchItem};
use etcd_api::proto::mvccpb::KeyValue;
use parking_lot::Mutex;

use self::data::Data;

/// A storage with switches that make it fail.
#[derive(Debug, Clone)]
pub(crate) struct FakeEtcd(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    data: Mutex<Data>,
    /// Whether RangeStream is unimplemented.
    no_stream: AtomicBool,
    /// Whether progress requests have no effect, and events are held back.
    silent: AtomicBool,
    /// Whether calls that check [`FakeEtcd::up`] fail as unreachable.
    down: AtomicBool,
    /// Whether calls that check [`FakeEtcd::up`] panic.
    broken: AtomicBool,
    /// Whether `features` reports support for progress.
    has_progress: AtomicBool,
    /// Whether `features` fails. No other call is affected.
    no_features: AtomicBool,
    /// Whether reading the current revision fails. No other call is affected.
    no_revisions: AtomicBool,
    /// Whether streamed lists never return. No other call is affected.
    stuck: AtomicBool,
    progress_requests: AtomicUsize,
    streams: AtomicUsize,
    pages: AtomicUsize,
}

impl Default for FakeEtcd {
    fn default() -> Self {
        let data = Data {
            states: vec![BTreeMap::new()],
            ..Data::default()
        };
        Self(Arc::new(Inner {
            data: Mutex::new(data),
            no_stream: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            down: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            has_progress: AtomicBool::new(true),
            no_features: AtomicBool::new(false),
            no_revisions: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            progress_requests: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
        }))
    }
}

impl FakeEtcd {
    /// Puts keys (with a value) and deletes keys (without one) in one revision, and returns the
    /// revision.
    pub(crate) fn write(&self, changes: &[(&str, Option<Vec<u8>>)]) -> i64 {
        let mut data = self.0.data.lock();
        let mut state = data.states.last().cloned().unwrap_or_default();
        let revision = data.revision() + 1;
        let mut events = Vec::new();
        for (key, value) in changes {
            let key = key.as_bytes().to_vec();
            let mut kv = KeyValue {
                key: Bytes::from(key.clone()),
                mod_revision: revision,
                ..KeyValue::default()
            };
            let prev_kv = state.get(&key).cloned();
            let kind = match value {
                Some(value) => {
                    kv.value = Bytes::from(value.clone());
                    kv.create_revision =
                        state.get(&key).map_or(revision, |old| old.create_revision);
                    kv.version = state.get(&key).map_or(1, |old| old.version + 1);
                    state.insert(key, kv.clone());
                    EventKind::Put
                }
                None => {
                    state.remove(&key);
                    EventKind::Delete
                }
            };
            events.push(WatchEvent { kind, kv, prev_kv });
        }
        data.states.push(state);
        data.events.extend_from_slice(&events);
        let silent = self.0.silent.load(Ordering::SeqCst);
        for watcher in &mut data.watchers {
            let events: Vec<_> = events
                .iter()
                .filter(|event| event.kv.key.starts_with(&watcher.prefix))
                .cloned()
                .collect();
            if events.is_empty() {
                continue;
            }
            let item = WatchItem::Revision { revision, events };
            if silent {
                watcher.held.push(item);
            } else {
                watcher.sender.send(Ok(item)).ok();
            }
        }
        revision
    }

    /// Writes as [`Self::write`] does, but no watch receives the events, as if they were lost.
    pub(crate) fn write_unseen(&self, changes: &[(&str, Option<Vec<u8>>)]) -> i64 {
        let watchers = std::mem::take(&mut self.0.data.lock().watchers);
        let revision = self.write(changes);
        let mut data = self.0.data.lock();
        data.events
            .retain(|event| event.kv.mod_revision != revision);
        data.watchers = watchers;
        revision
    }

    /// Restarts as an empty storage at revision 1. Every watch breaks.
    pub(crate) fn restart_empty(&self) {
        let mut data = self.0.data.lock();
        let ended = std::mem::take(&mut *data);
        data.states = vec![BTreeMap::new()];
        for watcher in ended.watchers {
            let error = WatchError::Canceled("connection lost".into());
            watcher.sender.send(Err(error)).ok();
        }
    }

    /// Returns to the state at `revision`, as if restored from a backup. Every watch breaks.
    pub(crate) fn restore(&self, revision: i64) {
        {
            let mut data = self.0.data.lock();
            let states = usize::try_from(revision).expect("a revision");
            data.states.truncate(states);
            data.events
                .retain(|event| event.kv.mod_revision <= revision);
        }
        self.break_watches(|| WatchError::Canceled("connection lost".into()));
    }

    pub(crate) fn compact_at(&self, revision: i64) {
        self.0.data.lock().compacted = revision;
    }

    /// Ends every watch with this error.
    pub(crate) fn break_watches(&self, error: impl Fn() -> WatchError) {
        for watcher in self.0.data.lock().watchers.drain(..) {
            watcher.sender.send(Err(error())).ok();
        }
    }

    /// Sends this progress notification on every watch, even if it is wrong.
    pub(crate) fn report_progress(&self, revision: i64) {
        for watcher in &self.0.data.lock().watchers {
            let item = WatchItem::Progress { revision };
            watcher.sender.send(Ok(item)).ok();
        }
    }
}
