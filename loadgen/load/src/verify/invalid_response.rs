//! The ways in which a complete response can be invalid.

use std::fmt;
use std::time::Duration;

/// Why a complete response is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResponse {
    /// The list reports that a limit truncated it, and none was set.
    #[error("the list says that more follows, although no limit was set")]
    Cut,
    /// The `count` differs from the number of objects.
    #[error("count is {count} where {expected} objects are")]
    Count {
        /// The number of objects.
        expected: u64,
        /// The `count` in the response.
        count: i64,
    },
    /// A page contradicts the number of objects that remain after it.
    #[error("a page says more={more} with {left} objects left after it")]
    More {
        /// The page's flag.
        more: bool,
        /// The number of objects that remain by count.
        left: u64,
    },
    /// Objects or messages have fields that are unknown in etcd 3.7, or duplicate fields.
    #[error(
        "{count} objects or messages with fields that etcd does not send{}",
        named(.first.as_deref())
    )]
    Irregular {
        /// The number of objects and messages.
        count: u64,
        /// The key of the first object; `None` if only messages have such fields.
        first: Option<String>,
    },
    /// Messages follow the one with the response header, which must be the last.
    #[error("{0} messages after the one with the response header, which must be the last")]
    BehindHeader(u64),
    /// The response is of another cluster than the one before, over the same connection.
    #[error("a response of cluster {found:x} after one of cluster {before:x}, over one connection")]
    Cluster {
        /// The cluster of the response before.
        before: u64,
        /// The cluster of this response.
        found: u64,
    },
    /// The history that the store reports for an object is impossible.
    #[error("what is said of the writes of `{key}` cannot be: {said}")]
    History {
        /// The object's key.
        key: String,
        /// The reported history.
        said: History,
    },
    /// Objects that were written without a lease have one.
    #[error("{count} objects have a lease, and were written without{}", named(.first.as_deref()))]
    Leases {
        /// The number of objects with a lease.
        count: u64,
        /// The key of the first.
        first: Option<String>,
    },
    /// There are chunks without objects before the end, which kube-apiserver rejects.
    #[error("{0} chunks without objects before the last one")]
    EmptyChunks(u64),
    /// Objects have values although only keys were requested.
    #[error("{count} objects with a value in a list of keys{}", named(.first.as_deref()))]
    Values {
        /// The number of objects with a value.
        count: u64,
        /// The key of the first.
        first: Option<String>,
    },
    /// A key was not requested.
    #[error("key `{0}` is not below the listed prefix")]
    ForeignKey(String),
    /// An object is newer than its list.
    #[error("an object of revision {object} in a list of revision {list}")]
    Revision {
        /// The object's mod revision.
        object: i64,
        /// The list's revision.
        list: i64,
    },
    /// The list is older than what was written before it.
    #[error(
        "stale: the list is of revision {found}, and revision {at_least} was written before it"
    )]
    Stale {
        /// The list's revision.
        found: i64,
        /// The least valid revision.
        at_least: i64,
    },
    /// Objects are missing, or there are too many.
    #[error("{found} objects where {expected} were written")]
    Objects {
        /// The number written.
        expected: u64,
        /// The number received.
        found: u64,
    },
    /// All objects are present, but not all their bytes.
    #[error("{found} bytes of keys and values where {expected} were written")]
    Bytes {
        /// The number written.
        expected: u64,
        /// The number received.
        found: u64,
    },
    /// The numbers of objects and bytes are right, but their contents are not.
    #[error("altered: the fingerprint is {found}, written was {expected}")]
    Altered {
        /// The fingerprint of what was written.
        expected: String,
        /// The fingerprint of what was received.
        found: String,
    },
    /// The objects are right, but some have another revision than the one that wrote them. A sum
    /// over all objects does not show which: see [`super::Expected::revisions`].
    #[error(
        "an object's revision (resourceVersion) is not the one that wrote it, by a sum over all objects: {found:016x} for {expected:016x}"
    )]
    ObjectRevision {
        /// The sum of what was written.
        expected: u64,
        /// The sum of what was received.
        found: u64,
    },
    /// Another list of the same revision had other contents.
    #[error("it is not what an earlier list of the same revision {revision} held: {what}")]
    Contradiction {
        /// The revision of both lists.
        revision: i64,
        /// A description of the difference.
        what: String,
    },
    /// The server ended a watch within its initial state, because the history that it was reading
    /// is no longer kept (410).
    #[error("expired: {0}")]
    Expired(String),
    /// A list or an event of a watch is malformed, or contradicts itself or what was before it.
    #[error("malformed response: {0}")]
    Malformed(String),
    /// A client that is an external program reports that its list took longer than loadgen waited
    /// for it.
    #[error("the client says that its list took {took:?}, but it responded after {elapsed:?}")]
    Time {
        /// The time that the client reports.
        took: Duration,
        /// The time by the generator's clock.
        elapsed: Duration,
    },
    /// Keys are not in ascending order.
    #[error("object {index} is out of order: {key} after {previous}")]
    Order {
        /// The object's index, from 0.
        index: u64,
        /// The object's key.
        key: String,
        /// The key before it.
        previous: String,
    },
}

/// Returns [`InvalidResponse::Malformed`] with this reason.
pub(crate) fn malformed(reason: &str) -> InvalidResponse {
    InvalidResponse::Malformed(reason.to_owned())
}

/// The objects that have the same fault.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultyKeys {
    pub(crate) count: u64,
    /// The key of the first.
    pub(crate) first: Option<String>,
}

impl FaultyKeys {
    /// Counts one more object.
    pub(crate) fn add(&mut self, key: &[u8]) {
        self.count += 1;
        self.first.get_or_insert_with(|| shown(key));
    }
}

/// Returns the text that names the first object, to be appended to the number of objects.
fn named(first: Option<&str>) -> String {
    first.map_or_else(String::new, |key| format!(" (the first is `{key}`)"))
}

/// Returns a key in printable form.
pub(super) fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

/// The history that etcd reports for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// The revision that created the object.
    pub created: i64,
    /// The revision that wrote it last.
    pub modified: i64,
    /// The number of writes since its creation.
    pub version: i64,
    /// Its lease, or 0.
    pub lease: i64,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            created,
            modified,
            version,
            ..
        } = self;
        write!(
            f,
            "version {version}, created by revision {created} and written by {modified}"
        )
    }
}

impl History {
    /// Returns whether the history is possible: an object of version 1 was created by its last
    /// write, and one of a higher version before that.
    pub(super) fn is_possible(&self) -> bool {
        let Self {
            created, modified, ..
        } = *self;
        match self.version {
            1 => created == modified,
            version => version > 1 && (1..modified).contains(&created),
        }
    }
}
