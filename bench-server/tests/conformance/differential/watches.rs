//! The events that each watch of one stream receives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use etcd_api::proto::etcdserverpb::{WatchCreateRequest, WatchResponse};
use etcd_api::proto::mvccpb::Event;

use crate::harness::Target;
use crate::watch_stream::WatchStream;

/// Time after which progress is requested again: etcd does not respond while a watch is behind.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Maximum number of progress requests.
const ASKS: usize = 300;
/// The watch ID of a response about all watches.
const ALL: i64 = -1;

/// An item that one watch received, independent of how items are divided into responses.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Told {
    Created,
    Canceled { compacted: i64, reason: String },
    Event(Event),
}

/// A stream and its watches.
pub(super) struct Watches {
    server: &'static str,
    stream: WatchStream,
    told: BTreeMap<i64, Vec<Told>>,
    over: BTreeSet<i64>,
}

impl Watches {
    pub(super) async fn open(t: &Target, first: WatchCreateRequest) -> Self {
        Self {
            server: t.peer.name(),
            stream: WatchStream::open(t, first).await,
            told: BTreeMap::new(),
            over: BTreeSet::new(),
        }
    }

    /// Creates a watch, and waits until the server has confirmed it.
    pub(super) async fn create(&mut self, create: WatchCreateRequest) {
        self.stream.create(create).await;
        loop {
            let response = self.stream.next().await;
            let created = response.created;
            self.take(response).await;
            if created {
                return;
            }
        }
    }

    /// Returns the items that each watch received since the last call, once all watches have
    /// reached `revision`.
    pub(super) async fn told(&mut self, revision: i64) -> BTreeMap<i64, Vec<Told>> {
        for _ in 0..ASKS {
            self.stream.ask_progress().await;
            while let Some(response) = self.stream.next_within(ASK_AGAIN).await {
                let reached = response.header.is_some_and(|h| h.revision >= revision);
                if response.watch_id == ALL && response.events.is_empty() && !response.canceled {
                    match reached {
                        true => return std::mem::take(&mut self.told),
                        false => break,
                    }
                }
                self.take(response).await;
            }
        }
        let (server, told) = (self.server, &self.told);
        panic!("watches on {server} did not come to revision {revision}; they were told {told:?}");
    }

    async fn take(&mut self, response: WatchResponse) {
        if self.over.contains(&response.watch_id) {
            return; // the response to the cancellation below, if there is one
        }
        let told = self.told.entry(response.watch_id).or_default();
        if response.created {
            told.push(Told::Created);
        }
        told.extend(response.events.into_iter().map(Told::Event));
        if response.canceled {
            told.push(Told::Canceled {
                compacted: response.compact_revision,
                reason: response.cancel_reason,
            });
            // After compaction has ended a watch, no progress is reported on its stream until the
            // client cancels the watch, too.
            self.over.insert(response.watch_id);
            self.stream.cancel(response.watch_id).await;
        }
    }
}
