//! Rebuilds the store from snapshot and log.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bytes::Bytes;
use commit_log::Replayed;
use etcd_api::proto::etcdserverpb::AlarmType;
use etcd_api::proto::mvccpb::KeyValue;

use super::entry::{
    self, COMPACTED_WRITE, HEAD, HeadMessage, KEYS, KeysMessage, WRITE, WriteMessage, decode,
};
use crate::Record;
use crate::history::{Event, State};
use crate::lease::Leases;
use crate::quota::Alarms;

/// A store being rebuilt.
#[derive(Default)]
pub(super) struct Replay {
    state: State,
    /// A snapshot that is not read completely yet.
    snapshot: Option<Snapshot>,
    /// The granted TTL of each lease, in seconds, by id.
    leases: BTreeMap<i64, i64>,
    alarms: BTreeSet<AlarmType>,
}

struct Snapshot {
    head: HeadMessage,
    keys: index::Builder<Record>,
    compacted: Option<Vec<Event>>,
}

impl Replay {
    /// Applies the next record. Returns the reason if it cannot be applied.
    pub(super) fn take(&mut self, part: Replayed) -> Result<(), String> {
        match part {
            Replayed::Snapshot(payload) => self.take_snapshot(&payload),
            Replayed::Record(payload) => {
                self.end_snapshot();
                match payload.first() {
                    Some(&WRITE) => self.write(&payload),
                    kind => Err(format!("the record is of kind {kind:?}, not a write")),
                }
            }
        }
    }

    /// Returns the rebuilt store. The time of its leases starts at `now`.
    pub(super) fn finish(mut self, now: Instant) -> (State, Leases, Alarms) {
        self.end_snapshot();
        let leases = Leases::restored(self.leases, self.state.tree(), now);
        (self.state, leases, Alarms::from(self.alarms))
    }

    fn take_snapshot(&mut self, payload: &Bytes) -> Result<(), String> {
        match (payload.first(), &mut self.snapshot) {
            (Some(&HEAD), None) => {
                let head: HeadMessage = decode(payload)?;
                let leases = head.leases.iter().map(|lease| (lease.id, lease.ttl_s));
                self.leases = leases.collect();
                for alarm in &head.alarms {
                    self.alarms.insert(entry::alarm(*alarm)?);
                }
                self.snapshot = Some(Snapshot {
                    head,
                    keys: index::Builder::default(),
                    compacted: None,
                });
                Ok(())
            }
            (Some(&KEYS), Some(snapshot)) => {
                let message: KeysMessage = decode(payload)?;
                for kv in &message.keys {
                    let pushed = snapshot.keys.push(entry::record(kv)?);
                    pushed.map_err(|_| "the keys are not in order".to_owned())?;
                }
                Ok(())
            }
            (Some(&COMPACTED_WRITE), Some(snapshot)) => {
                let message: WriteMessage = decode(payload)?;
                let event =
                    |kv: &KeyValue| entry::record(kv).map(|record| Event { record, prev: None });
                snapshot.compacted =
                    Some(message.events.iter().map(event).collect::<Result<_, _>>()?);
                Ok(())
            }
            (Some(&WRITE), _) => {
                self.end_snapshot();
                self.write(payload)
            }
            (kind, _) => Err(format!("a record of kind {kind:?} cannot stand here")),
        }
    }

    /// Ends the reading of a snapshot, if one was being read, and sets the state from it.
    fn end_snapshot(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            let Snapshot {
                head,
                keys,
                compacted,
            } = snapshot;
            let compacted = compacted.map(Into::into);
            self.state = State::restored(keys.finish(), head.revision, head.compacted, compacted);
        }
    }

    fn write(&mut self, payload: &Bytes) -> Result<(), String> {
        let message: WriteMessage = decode(payload)?;
        if !message.events.is_empty() {
            let expected = self.state.revision() + 1;
            let mut records = Vec::with_capacity(message.events.len());
            for kv in &message.events {
                if kv.mod_revision != expected {
                    let found = kv.mod_revision;
                    return Err(format!("revision {found} stands where {expected} should"));
                }
                records.push(entry::record(kv)?);
            }
            self.state.redo(records);
        }
        if let Some(lease) = &message.lease_granted {
            self.leases.insert(lease.id, lease.ttl_s);
        }
        if let Some(id) = &message.lease_revoked {
            self.leases.remove(id);
        }
        if let Some(alarm) = message.alarm_raised {
            self.alarms.insert(entry::alarm(alarm)?);
        }
        if let Some(alarm) = message.alarm_cleared {
            self.alarms.remove(&entry::alarm(alarm)?);
        }
        if let Some(revision) = message.compacted {
            let compacted = self.state.compact(revision);
            compacted.map_err(|refusal| format!("a compaction at {revision}: {refusal}"))?;
        }
        Ok(())
    }
}
