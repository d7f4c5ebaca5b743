//! The encoding of a log record, which has all changes of one write.
//!
//! A record is one byte for its kind, then a protobuf message. Events are the stored bytes of their
//! records, which already are a field of that message. `docs/durability.md` lists the fields.

use bytes::Bytes;
use etcd_api::proto::etcdserverpb::AlarmType;
use etcd_api::proto::mvccpb::KeyValue;
use prost::Message;

use crate::history::Commit;
use crate::record::{Fields, Record};

/// First byte of a write; the only kind in a log.
pub(super) const WRITE: u8 = 1;
/// First byte of a snapshot's first record, which has everything except keys.
pub(super) const HEAD: u8 = 2;
/// First byte of a snapshot's records with keys.
pub(super) const KEYS: u8 = 3;
/// First byte of the write at the compacted revision. Its changes are already part of the keys; it
/// is stored for watchers that start there.
pub(super) const COMPACTED_WRITE: u8 = 4;

/// One write in the log.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Its events, if it made a revision.
    pub(super) commit: Option<Commit>,
    /// Its change other than keys, if any.
    pub(super) change: Option<Change>,
}

/// A change other than keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A lease was granted.
    LeaseGranted {
        /// The lease's id.
        id: i64,
        /// The TTL in seconds.
        ttl_s: i64,
    },
    /// A lease was revoked, or expired.
    LeaseRevoked(i64),
    /// History below a revision was compacted.
    Compacted(i64),
    /// An alarm was raised.
    AlarmRaised(AlarmType),
    /// An alarm was cleared.
    AlarmCleared(AlarmType),
}

/// The message of a write.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WriteMessage {
    #[prost(message, repeated, tag = "2")]
    pub(super) events: Vec<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub(super) lease_granted: Option<LeaseMessage>,
    #[prost(int64, optional, tag = "4")]
    pub(super) lease_revoked: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub(super) compacted: Option<i64>,
    #[prost(enumeration = "AlarmType", optional, tag = "6")]
    pub(super) alarm_raised: Option<i32>,
    #[prost(enumeration = "AlarmType", optional, tag = "7")]
    pub(super) alarm_cleared: Option<i32>,
}

/// The message of a lease.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseMessage {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(int64, tag = "2")]
    pub(super) ttl_s: i64,
}

/// The first message of a snapshot.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HeadMessage {
    /// Revision of the keys that follow.
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
    /// The compacted revision.
    #[prost(int64, tag = "2")]
    pub(super) compacted: i64,
    #[prost(message, repeated, tag = "3")]
    pub(super) leases: Vec<LeaseMessage>,
    #[prost(enumeration = "AlarmType", repeated, tag = "4")]
    pub(super) alarms: Vec<i32>,
}

/// Keys of a snapshot.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeysMessage {
    #[prost(message, repeated, tag = "2")]
    pub(super) keys: Vec<KeyValue>,
}

impl Entry {
    /// Appends the record to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(WRITE);
        self.commit
            .iter()
            .for_each(|commit| put_events(commit, out));
        if let Some(change) = self.change {
            let message = WriteMessage::from(change);
            message.encode(out).expect("a vector has room");
        }
    }
}

/// Appends the events of a commit, encoded as a field of the message.
pub(super) fn put_events(commit: &Commit, out: &mut Vec<u8>) {
    for event in commit.iter() {
        event
            .record
            .wire()
            .iter()
            .for_each(|piece| out.extend_from_slice(piece));
    }
}

impl From<Change> for WriteMessage {
    fn from(change: Change) -> Self {
        let mut message = Self::default();
        match change {
            Change::LeaseGranted { id, ttl_s } => {
                message.lease_granted = Some(LeaseMessage { id, ttl_s });
            }
            Change::LeaseRevoked(id) => message.lease_revoked = Some(id),
            Change::Compacted(revision) => message.compacted = Some(revision),
            Change::AlarmRaised(alarm) => message.alarm_raised = Some(alarm.into()),
            Change::AlarmCleared(alarm) => message.alarm_cleared = Some(alarm.into()),
        }
        message
    }
}

/// Decodes the message after the kind byte. Keys and values reference `payload`.
pub(super) fn decode<M: Message + Default>(payload: &Bytes) -> Result<M, String> {
    M::decode(payload.slice(1..)).map_err(|e| format!("the record is no message of its kind: {e}"))
}

/// Returns the record with the fields of `kv`.
pub(super) fn record(kv: &KeyValue) -> Result<Record, String> {
    if kv.key.is_empty() {
        return Err("the record holds a key without a name".to_owned());
    }
    Ok(Record::new(Fields {
        key: &kv.key,
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        value: kv.value[..].into(),
        lease: kv.lease,
    }))
}

/// Returns the alarm with this number.
pub(super) fn alarm(number: i32) -> Result<AlarmType, String> {
    AlarmType::try_from(number).map_err(|e| format!("the record holds an alarm that is none: {e}"))
}
