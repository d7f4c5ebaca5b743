//! The writes of one request, before they are committed.
//!
//! A write transaction reads from the current index and keeps its writes to itself. A request that
//! fails half-way therefore changes nothing, and readers never see a part of it. A single write is
//! an event that the commit applies in place. From the second write on, the transaction has a
//! copy-on-write index of its own, which replaces the current one on commit.

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
};
use index::Tree;
use parking_lot::RwLock;

use super::history::{Edits, Event, State};
use super::wal::pending::Pending;
use super::{Fields, Record, Store, Writer};

/// A transaction being built. The caller holds the writer's lock, so the state does not change
/// meanwhile.
pub(super) struct WriteTxn<'a> {
    state: &'a RwLock<State>,
    /// Earlier writes that are not published; `None` without a log.
    pending: Option<&'a Pending>,
    /// The store's revision before the transaction.
    base: i64,
    edits: Edits,
    /// Bytes that can still be added to the response.
    response_left: u64,
}

impl Store {
    /// Returns an empty transaction for the writer's next write.
    pub(super) fn write_txn<'a>(&'a self, writer: &'a Writer) -> WriteTxn<'a> {
        let pending = writer.pending.as_ref();
        WriteTxn {
            state: &self.inner.state,
            pending,
            base: match pending {
                Some(pending) => pending.revision(),
                None => self.inner.state.read().revision(),
            },
            edits: Edits::None,
            response_left: self.inner.config.max_response_bytes,
        }
    }

    /// Returns a transaction over a snapshot of the current state, for reads without the writer's
    /// lock. It must not be written to.
    pub(super) fn read_only_txn(&self) -> WriteTxn<'_> {
        let now = self.inner.state.read();
        WriteTxn {
            state: &self.inner.state,
            pending: None,
            base: now.revision(),
            edits: Edits::Many {
                tree: now.tree().clone(),
                events: Vec::new(),
            },
            response_left: self.inner.config.max_response_bytes,
        }
    }
}

impl WriteTxn<'_> {
    /// Returns the revision of reads in this transaction: the base, or after the first write the
    /// revision being made.
    pub(super) fn revision(&self) -> i64 {
        match &self.edits {
            Edits::None => self.base,
            Edits::Many { events, .. } if events.is_empty() => self.base,
            _ => self.base + 1,
        }
    }

    pub(super) fn into_edits(self) -> Edits {
        self.edits
    }

    /// Returns a key with this transaction's writes in effect.
    pub(super) fn get(&self, key: &[u8]) -> Option<Record> {
        match &self.edits {
            Edits::One(event) if event.record.key() == key => {
                Some(event.record.clone()).filter(|record| !record.is_tombstone())
            }
            Edits::Many { tree, .. } => tree.get(key).cloned(),
            _ => self.before(key),
        }
    }

    /// Returns a key without this transaction's writes.
    fn before(&self, key: &[u8]) -> Option<Record> {
        if let Some(pending) = self.pending
            && let Some(record) = pending.get(key)
        {
            return Some(record.clone()).filter(|record| !record.is_tombstone());
        }
        self.state.read().tree().get(key).cloned()
    }

    /// Returns the index without this transaction's writes.
    fn tree_before(&self) -> Tree<Record> {
        let mut tree = self.state.read().tree().clone();
        if let Some(pending) = self.pending {
            pending.apply(&mut tree);
        }
        tree
    }

    /// Returns the index with this transaction's writes in effect.
    pub(super) fn tree(&mut self) -> Tree<Record> {
        if let Edits::None = self.edits {
            return self.tree_before();
        }
        let edits = std::mem::replace(&mut self.edits, Edits::None);
        let (tree, events) = self.spread(edits);
        let view = tree.clone();
        self.edits = Edits::Many { tree, events };
        view
    }

    /// Writes a key.
    pub(super) fn put(&mut self, request: &PutRequest) -> Result<PutResponse, Refusal> {
        let prev = self.get(&request.key);
        let (old, is_new) = match &prev {
            Some(prev) => (prev.fields(), false),
            None => (Fields::default(), true),
        };
        if is_new && (request.ignore_value || request.ignore_lease) {
            return Err(Refusal::KeyNotFound);
        }
        let revision = self.base + 1;
        let record = Record::new(Fields {
            key: &request.key,
            create_revision: if is_new {
                revision
            } else {
                old.create_revision
            },
            mod_revision: revision,
            version: old.version + 1,
            value: if request.ignore_value {
                old.value
            } else {
                request.value[..].into()
            },
            lease: if request.ignore_lease {
                old.lease
            } else {
                request.lease
            },
        });
        let prev_kv = match &prev {
            Some(prev) if request.prev_kv => {
                self.count_in_response(prev.wire_len() as u64)?;
                Some(prev.to_kv())
            }
            _ => None,
        };
        self.push(Event { record, prev });
        Ok(PutResponse {
            header: None,
            prev_kv,
        })
    }

    /// Deletes the keys of an interval, in key order.
    pub(super) fn delete_range(
        &mut self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Refusal> {
        let found: Vec<Record> = match KeyRange::new(&request.key, &request.range_end) {
            KeyRange::One(key) => self.get(key).into_iter().collect(),
            range => self.tree().cursor(range).collect(),
        };
        let mut response = DeleteRangeResponse {
            deleted: found.len() as i64,
            ..Default::default()
        };
        if request.prev_kv {
            self.count_in_response(found.iter().map(|prev| prev.wire_len() as u64).sum())?;
            response.prev_kvs = found.iter().map(Record::to_kv).collect();
        }
        for prev in found {
            self.delete(prev);
        }
        Ok(response)
    }

    /// Counts keys and values against the limit of the response, before they are copied. `bytes` is
    /// their encoded size.
    ///
    /// # Errors
    /// [`Refusal::ResponseTooLarge`] if the response would exceed the limit of the store's
    /// configuration.
    pub(super) fn count_in_response(&mut self, bytes: u64) -> Result<(), Refusal> {
        let left = self.response_left.checked_sub(bytes);
        self.response_left = left.ok_or(Refusal::ResponseTooLarge)?;
        Ok(())
    }

    /// Deletes one existing key.
    pub(super) fn delete(&mut self, prev: Record) {
        self.push(Event {
            record: Record::tombstone(prev.key(), self.base + 1),
            prev: Some(prev),
        });
    }

    fn push(&mut self, event: Event) {
        self.edits = match std::mem::replace(&mut self.edits, Edits::None) {
            Edits::None => Edits::One(event),
            edits => {
                let (mut tree, mut events) = self.spread(edits);
                event.redo(&mut tree);
                events.push(event);
                Edits::Many { tree, events }
            }
        };
    }

    /// Returns the edits as an index of the transaction's own with its events applied, and the
    /// events.
    fn spread(&self, edits: Edits) -> (Tree<Record>, Vec<Event>) {
        match edits {
            Edits::Many { tree, events } => (tree, events),
            Edits::One(event) => {
                let mut tree = self.tree_before();
                event.redo(&mut tree);
                (tree, vec![event])
            }
            Edits::None => (self.tree_before(), Vec::new()),
        }
    }
}
