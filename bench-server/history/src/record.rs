//! What is recorded: requests with their times and outcomes, and what watches were told.

use serde::{Deserialize, Serialize};

/// A reading of the recording process's monotonic clock, in nanoseconds since the history began.
pub type Nanoseconds = u64;

/// Everything that the clients of one database saw, from its empty begin at revision 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// A watch of everything from revision 2, resumed where it was cut.
    pub log: Watch,
    /// Requests, in any order.
    pub operations: Vec<Operation>,
    /// Other watch streams; one that is resumed is another with a later start.
    pub watches: Vec<Watch>,
    /// Leases that nobody keeps alive: each may expire.
    #[serde(default)]
    pub leases: Vec<Lease>,
}

/// A lease that may expire, which deletes all keys that go with it at one revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its id.
    pub id: i64,
    /// Until when it must not expire: its time to live, counted from when its grant was called. A
    /// server may let it live longer, as etcd does after an election.
    pub lives_until: Nanoseconds,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Number of the client.
    pub client: u32,
    /// Before its first byte was sent.
    pub called: Nanoseconds,
    /// When the first part of its response had come: the revision it was served at existed then.
    /// Differs from `returned` only for streams.
    pub settled: Nanoseconds,
    /// After its last byte was received, or when its client gave up.
    pub returned: Nanoseconds,
    /// What was asked and what came back.
    pub call: Call,
}

/// A request and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// Put, DeleteRange, LeaseRevoke (transactions of one change) or Txn.
    Txn(Txn, Outcome<TxnResponse>),
    /// Range, or RangeStream as what its messages merge to.
    Range(RangeRequest, Outcome<RangeResponse>),
    /// A compaction to a revision; its header's revision.
    Compact(i64, Outcome<i64>),
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome<T> {
    /// With a response.
    Done(T),
    /// With an error that says that nothing was done.
    Refused(Refusal),
    /// By a timeout or a lost connection: it may take effect at any time after its call.
    Unknown,
}

/// Why a server refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The revision is compacted.
    Compacted,
    /// The revision does not exist yet.
    FutureRevision,
    /// Anything else, as text.
    Other(String),
}

/// A key as it is at some revision; a deleted one has version and create revision 0, and no value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Revision of its creation.
    pub create_revision: i64,
    /// Revision of its last change.
    pub mod_revision: i64,
    /// Changes since its creation, which is 1.
    pub version: i64,
    /// The lease that it goes with; 0 for none.
    pub lease: i64,
}

/// The keys `from <= key < end`.
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

    /// Returns whether a key is in it.
    pub fn contains(&self, key: &str) -> bool {
        self.from.as_str() <= key && key < self.end.as_str()
    }
}

/// The modification revision that a transaction asks a key to have; 0: it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// Key.
    pub key: String,
    /// Its revision.
    pub mod_revision: i64,
}

/// One operation of a transaction. Writes are sent with `prev_kv`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Key, value, which no other put of the history has, and lease, or 0.
    Put(String, String, i64),
    /// Deletes all keys of a range.
    Delete(KeyRange),
    /// Revokes a lease, alone in its transaction: deletes all keys that go with it.
    Revoke(i64),
    /// Reads a range.
    Get(KeyRange),
}

/// A transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Txn {
    /// All must hold for `success` to be done, else `failure` is.
    pub compares: Vec<Compare>,
    /// Changes no key twice.
    pub success: Vec<Change>,
    /// Only reads: what the log has of a transaction is then what `success` did.
    pub failure: Vec<Change>,
}

impl Txn {
    /// Returns the values that it puts.
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
    /// One for each operation of the branch.
    pub responses: Vec<OpResponse>,
}

/// What came back for one operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpResponse {
    /// The key before.
    Put(Option<KeyValue>),
    /// The keys that were deleted.
    Delete(Vec<KeyValue>),
    /// That the lease is gone; not which keys went with it.
    Revoke,
    /// The keys found.
    Get(Vec<KeyValue>),
}

/// A Range or RangeStream, in key order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeRequest {
    /// Keys.
    pub range: KeyRange,
    /// Revision to read at; 0: the newest.
    pub revision: i64,
    /// Most keys to return; 0: all.
    pub limit: usize,
    /// No keys, only their number.
    pub count_only: bool,
    /// Sent as RangeStream.
    pub stream: bool,
}

/// A range's response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeResponse {
    /// The header's revision.
    pub revision: i64,
    /// Keys found.
    pub kvs: Vec<KeyValue>,
    /// Keys in the range, whatever the limit.
    pub count: i64,
    /// Whether the limit left some out.
    pub more: bool,
}

/// One watch stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// Number of the client.
    pub client: u32,
    /// Keys.
    pub range: KeyRange,
    /// First revision asked for, at least 1.
    pub start: i64,
    /// Responses in the order received, the one that says "created" left out.
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

    /// Returns the revision up to which it has been told everything.
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
    /// When it was received.
    pub at: Nanoseconds,
    /// What it says.
    pub message: Message,
}

/// What a watch response says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Events.
    Events(Vec<Event>),
    /// Everything up to a revision has been told.
    Progress(i64),
    /// The watch is cancelled: its start lies before this compacted revision.
    Compacted(i64),
}

impl Message {
    /// Returns the revision up to which it completes a watch; 0 if it does not.
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
    /// The key after it.
    pub kv: KeyValue,
    /// The key before it, where the watch asked and compaction left it.
    pub previous: Option<KeyValue>,
}
