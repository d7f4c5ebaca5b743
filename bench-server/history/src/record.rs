//! The recorded data: requests with their times and outcomes, and the responses of watches.

use serde::{Deserialize, Serialize};

/// A reading of the recording process's monotonic clock, in nanoseconds since the history began.
pub type Nanoseconds = u64;

/// Everything that the clients of one database observed, from its empty state at revision 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// A watch of all keys from revision 2, resumed after disconnects.
    pub log: Watch,
    /// Requests, in any order.
    pub operations: Vec<Operation>,
    /// Other watch streams. A stream that is resumed is another one with a later start.
    pub watches: Vec<Watch>,
    /// Leases without keep-alives: each may expire.
    #[serde(default)]
    pub leases: Vec<Lease>,
}

/// A lease that may expire, which deletes all attached keys at one revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The lease's id.
    pub id: i64,
    /// The time until which it must not expire: its TTL, counted from the call of its grant. A
    /// server may keep it longer, as etcd does after an election.
    pub lives_until: Nanoseconds,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Number of the client.
    pub client: u32,
    /// The time before its first byte was sent.
    pub called: Nanoseconds,
    /// The time at which the first part of its response had arrived: the revision of the response
    /// existed then. Differs from `returned` only for streams.
    pub settled: Nanoseconds,
    /// The time after its last byte was received, or at which its client gave up.
    pub returned: Nanoseconds,
    /// The request and its outcome.
    pub call: Call,
}

/// A request and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// Put, DeleteRange, LeaseRevoke (transactions of one change) or Txn.
    Txn(Txn, Outcome<TxnResponse>),
    /// Range, or RangeStream with its messages merged.
    Range(RangeRequest, Outcome<RangeResponse>),
    /// A compaction to a revision. Its result is the revision of the response's header.
    Compact(i64, Outcome<i64>),
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome<T> {
    /// A response.
    Done(T),
    /// An error that means that nothing was done.
    Refused(Refusal),
    /// A timeout or a lost connection: the request may take effect at any time after its call.
    Unknown,
}

/// The error of a refused request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The revision is compacted.
    Compacted,
    /// The revision does not exist yet.
    FutureRevision,
    /// Anything else, as text.
    Other(String),
}

/// A key at some revision. A deleted key has version 0, create revision 0, and no value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// The key's name.
    pub key: String,
    /// The key's value.
    pub value: String,
    /// Revision of its creation.
    pub create_revision: i64,
    /// Revision of its last change.
    pub mod_revision: i64,
    /// Number of changes since its creation, including the creation.
    pub version: i64,
    /// The attached lease; 0 for none.
    pub lease: i64,
}

/// The keys with `from <= key < end`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRange {
    /// First key.
    pub from: String,
    /// The key after the last.
    pub end: String,
}

impl KeyRange {
    /// Returns the range of one key.
    pub fn one(key: &str) -> Self {
        Self {
            from: key.to_owned(),
            end: format!("{key}\0"),
        }
    }

    /// Returns whether the range contains a key.
    pub fn contains(&self, key: &str) -> bool {
        self.from.as_str() <= key && key < self.end.as_str()
    }
}

/// A comparison of a transaction: the mod revision that a key must have; 0 means that the key does
/// not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// Key.
    pub key: String,
    /// The required mod revision.
    pub mod_revision: i64,
}

/// One operation of a transaction. Writes are sent with `prev_kv`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Key, value (unique in the history), and lease or 0.
    Put(String, String, i64),
    /// Deletes all keys of a range.
    Delete(KeyRange),
    /// Revokes a lease, which deletes all attached keys. It is the only operation of its
    /// transaction.
    Revoke(i64),
    /// Reads a range.
    Get(KeyRange),
}

/// A transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Txn {
    /// The comparisons. `success` runs if all of them hold, otherwise `failure`.
    pub compares: Vec<Compare>,
    /// The operations if the comparisons hold. No key is changed twice.
    pub success: Vec<Change>,
    /// The operations if a comparison fails. They only read, so all changes of a transaction in the
    /// log are those of `success`.
    pub failure: Vec<Change>,
}

impl Txn {
    /// Returns the values of the puts.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.success.iter().filter_map(|change| match change {
            Change::Put(_, value, _) => Some(value.as_str()),
            Change::Delete(_) | Change::Revoke(_) | Change::Get(_) => None,
        })
    }
}

/// A transaction's response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxnResponse {
    /// The header's revision.
    pub revision: i64,
    /// Whether the compares held.
    pub succeeded: bool,
    /// The response of each operation of the branch.
    pub responses: Vec<OpResponse>,
}

/// The response of one operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpResponse {
    /// The previous key.
    Put(Option<KeyValue>),
    /// The deleted keys.
    Delete(Vec<KeyValue>),
    /// An acknowledgement that the lease is revoked, without the deleted keys.
    Revoke,
    /// The keys found.
    Get(Vec<KeyValue>),
}

/// A request for Range or RangeStream, in key order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeRequest {
    /// The keys.
    pub range: KeyRange,
    /// Revision to read at; 0 for the latest.
    pub revision: i64,
    /// Maximum number of keys to return; 0 for all.
    pub limit: usize,
    /// Whether to return only the number of keys.
    pub count_only: bool,
    /// Whether the request is sent as RangeStream.
    pub stream: bool,
}

/// A range's response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeResponse {
    /// The header's revision.
    pub revision: i64,
    /// Keys found.
    pub kvs: Vec<KeyValue>,
    /// Number of keys in the range, regardless of the limit.
    pub count: i64,
    /// Whether the limit cut the result.
    pub more: bool,
}

/// One watch stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// Number of the client.
    pub client: u32,
    /// The keys.
    pub range: KeyRange,
    /// The requested first revision, at least 1.
    pub start: i64,
    /// Responses in the order received, except the one that confirms the creation.
    pub responses: Vec<WatchResponse>,
}

impl Watch {
    /// Returns all events, in the order received.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.responses
            .iter()
            .flat_map(|response| match &response.message {
                Message::Events(events) => events.as_slice(),
                Message::Progress(_) | Message::Compacted(_) => &[],
            })
    }

    /// Returns the revision up to which the watch has received all events.
    pub fn complete_until(&self) -> i64 {
        let told = self
            .responses
            .iter()
            .map(|one| one.message.complete_until());
        let last = told.max();
        last.unwrap_or(0).max(self.start - 1)
    }
}

/// One response on a watch stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchResponse {
    /// The time at which it was received.
    pub at: Nanoseconds,
    /// The response's content.
    pub message: Message,
}

/// The content of a watch response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Events.
    Events(Vec<Event>),
    /// Progress: all events up to this revision were sent.
    Progress(i64),
    /// The watch is cancelled, because its start is before this compacted revision.
    Compacted(i64),
}

impl Message {
    /// Returns the revision up to which the message completes a watch; 0 if it does not.
    pub fn complete_until(&self) -> i64 {
        match self {
            Self::Events(events) => events.last().map_or(0, |event| event.kv.mod_revision),
            Self::Progress(revision) => *revision,
            Self::Compacted(_) => 0,
        }
    }
}

/// One change of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The key after the change.
    pub kv: KeyValue,
    /// The key before the change, if the watch requested it and it was not compacted.
    pub previous: Option<KeyValue>,
}
