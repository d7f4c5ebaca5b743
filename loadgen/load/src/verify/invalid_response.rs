//! What may be wrong with an answer that arrived whole.

use std::fmt;
use std::time::Duration;

/// How an answer that arrived whole is wrong all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResponse {
    /// The list says that a limit cut it, and none was set.
    #[error("the list says that more follows, although no limit was set")]
    Cut,
    /// `count` is not what is there.
    #[error("count is {count} where {expected} objects are")]
    Count {
        /// What should be there.
        expected: u64,
        /// What the answer says.
        count: i64,
    },
    /// A page contradicts what is left after it.
    #[error("a page says more={more} with {left} objects left after it")]
    More {
        /// The page's flag.
        more: bool,
        /// Objects that are left by count.
        left: u64,
    },
    /// Fields that etcd 3.7 does not know, or that are there twice.
    #[error(
        "{count} objects or messages with fields that etcd does not send{}",
        named(.first.as_deref())
    )]
    Irregular {
        /// Objects and messages.
        count: u64,
        /// The key of the first object; `None` where none has such fields.
        first: Option<String>,
    },
    /// Messages behind the one with the response header, which is the last.
    #[error("{0} messages after the one with the response header, which must be the last")]
    BehindHeader(u64),
    /// A response of another cluster than the one before, over the same connection.
    #[error("a response of cluster {found:x} after one of cluster {before:x}, over one connection")]
    Cluster {
        /// The cluster before.
        before: u64,
        /// This one.
        found: u64,
    },
    /// What the store says about an object cannot be.
    #[error("what is said of the writes of `{key}` cannot be: {said}")]
    History {
        /// The object's key.
        key: String,
        /// What is said.
        said: History,
    },
    /// Objects that were written without a lease have one.
    #[error("{count} objects have a lease, and were written without{}", named(.first.as_deref()))]
    Leases {
        /// How many have one.
        count: u64,
        /// The key of the first.
        first: Option<String>,
    },
    /// Chunks without objects before the end, which kube-apiserver rejects.
    #[error("{0} chunks without objects before the last one")]
    EmptyChunks(u64),
    /// Values where only keys were asked for.
    #[error("{count} objects with a value in a list of keys{}", named(.first.as_deref()))]
    Values {
        /// How many have one.
        count: u64,
        /// The key of the first.
        first: Option<String>,
    },
    /// A key that was not asked for.
    #[error("key `{0}` is not below the listed prefix")]
    ForeignKey(String),
    /// An object from the future of the list.
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
        /// The oldest that is right.
        at_least: i64,
    },
    /// Objects are missing, or too many.
    #[error("{found} objects where {expected} were written")]
    Objects {
        /// Written.
        expected: u64,
        /// Received.
        found: u64,
    },
    /// All objects, but not all their bytes.
    #[error("{found} bytes of keys and values where {expected} were written")]
    Bytes {
        /// Written.
        expected: u64,
        /// Received.
        found: u64,
    },
    /// As many objects and bytes, but not the same.
    #[error("altered: the fingerprint is {found}, written was {expected}")]
    Altered {
        /// Written.
        expected: String,
        /// Received.
        found: String,
    },
    /// The right objects, but of another revision than wrote them. Which, a sum over all of them
    /// does not tell: see [`super::Expected::revisions`].
    #[error(
        "an object's revision (resourceVersion) is not the one that wrote it, by a sum over all objects: {found:016x} for {expected:016x}"
    )]
    ObjectRevision {
        /// The sum of what was written.
        expected: u64,
        /// The sum of what was received.
        found: u64,
    },
    /// Another list of the same revision held something else.
    #[error("it is not what an earlier list of the same revision {revision} held: {what}")]
    Contradiction {
        /// Of both lists.
        revision: i64,
        /// What differs.
        what: String,
    },
    /// A watch that the server ended inside its state, since what it was reading is no longer kept
    /// (410).
    #[error("expired: {0}")]
    Expired(String),
    /// A body that is no Kubernetes list.
    #[error("not a Kubernetes list: {0}")]
    NotAList(String),
    /// A client that is a program of its own says that its list took longer than we waited for it.
    #[error("the client says that its list took {took:?}, and it answered after {elapsed:?}")]
    Time {
        /// As it says.
        took: Duration,
        /// By our clock.
        elapsed: Duration,
    },
    /// Keys that do not rise.
    #[error("object {index} is out of order: {key} after {previous}")]
    Order {
        /// Which object, from 0.
        index: u64,
        /// Its key.
        key: String,
        /// The key before.
        previous: String,
    },
}

/// [`InvalidResponse::NotAList`], for this reason.
pub(crate) fn not_a_list(why: &str) -> InvalidResponse {
    InvalidResponse::NotAList(why.to_owned())
}

/// Objects with one and the same fault.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultyKeys {
    pub(crate) count: u64,
    /// The key of the first.
    pub(crate) first: Option<String>,
}

impl FaultyKeys {
    /// Counts one more.
    pub(crate) fn add(&mut self, key: &[u8]) {
        self.count += 1;
        self.first.get_or_insert_with(|| shown(key));
    }
}

/// Returns which object the first is, behind how many there are.
fn named(first: Option<&str>) -> String {
    first.map_or_else(String::new, |key| format!(" (the first is `{key}`)"))
}

/// Returns a key as it is shown.
pub(super) fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

/// What etcd says about the writes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// The revision that created it.
    pub created: i64,
    /// The revision that wrote it last.
    pub modified: i64,
    /// Writes since its creation.
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
    /// Returns whether it may be: an object of version 1 was created by its last write, and one of
    /// a higher version before it.
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
