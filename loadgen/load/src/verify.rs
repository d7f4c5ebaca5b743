//! Every list is compared with what was seeded, from the bytes that
//! were received.
//!
//! Order and framing are checked while the bytes come in (`etcd_api::client::list_validator`);
//! here are number, bytes, revision and the fingerprint of keys and values.

use std::fmt;
use std::time::Duration;

use workloads::Fingerprint;

/// What a list said about itself; what it held is in the [`Check`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listed {
    /// Revision (resourceVersion) that it was read at.
    pub revision: i64,
    /// Chunks, pages or frames with objects.
    pub chunks: u64,
    /// Bytes received, protocol framing of HTTP excluded.
    pub wire_bytes: u64,
}

/// What every list must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Objects and bytes and what they are.
    pub fingerprint: Fingerprint,
    /// Which revision wrote which object: the sum of the objects' hashes, each times its mod
    /// revision, modulo 2⁶⁴. `None` where that is not known of every object.
    pub revisions: Option<u64>,
    /// No list may be read at an older revision: the one of the last write before it.
    pub revision: i64,
}

impl Expected {
    /// Holds a sum of what was received against [`Self::revisions`], where that is known.
    ///
    /// # Errors
    /// [`Wrong::ObjectRevision`].
    pub fn check_revisions(&self, found: u64) -> Result<(), Wrong> {
        match self.revisions {
            Some(expected) if expected != found => Err(Wrong::ObjectRevision { expected, found }),
            _ => Ok(()),
        }
    }
}

/// How an answer that arrived whole is wrong all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
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
    #[error("{0} messages behind the one with the header")]
    BehindHeader(u64),
    /// A response of another cluster than the one before, over the same connection.
    #[error("from cluster {found:x} after one from cluster {before:x}")]
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
    /// does not tell: see [`Expected::revisions`].
    #[error(
        "an object's revision (resourceVersion) is not the one that wrote it: over all objects their sum is {found:016x}, and of those that wrote them {expected:016x}"
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

/// [`Wrong::NotAList`], for this reason.
pub(crate) fn not_a_list(why: &str) -> Wrong {
    Wrong::NotAList(why.to_owned())
}

/// Objects with one and the same fault.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faulty {
    pub(crate) count: u64,
    /// The key of the first.
    pub(crate) first: Option<String>,
}

impl Faulty {
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
fn shown(key: &[u8]) -> String {
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
    fn is_possible(&self) -> bool {
        let Self {
            created, modified, ..
        } = *self;
        match self.version {
            1 => created == modified,
            version => version > 1 && (1..modified).contains(&created),
        }
    }
}

/// Gathers what one list holds.
#[derive(Debug, Clone)]
pub struct Check {
    /// What keys are taken relative to, so that a data set has one fingerprint wherever it is
    /// stored.
    root: String,
    fingerprint: Fingerprint,
    revisions: u64,
    highest_revision: i64,
    foreign_key: Option<String>,
    /// The first that is not possible, and whose it is.
    impossible: Option<(String, History)>,
    leases: Faulty,
    /// The key of the first with fields that etcd does not send.
    irregular: Option<String>,
}

impl Check {
    /// A check of one list whose keys all begin with `root`.
    #[must_use]
    pub fn new(root: &str) -> Self {
        Self {
            root: root.to_owned(),
            fingerprint: Fingerprint::default(),
            revisions: 0,
            highest_revision: 0,
            foreign_key: None,
            impossible: None,
            leases: Faulty::default(),
            irregular: None,
        }
    }

    /// Takes an object and returns its hash, for [`Self::visit_again`]. Costs one pass over key and
    /// value.
    pub fn visit(&mut self, key: &[u8], value: &[u8], mod_revision: i64) -> u64 {
        let Some(relative) = key.strip_prefix(self.root.as_bytes()) else {
            self.foreign_key.get_or_insert_with(|| shown(key));
            return 0;
        };
        let hash = self.fingerprint.add(relative, value);
        self.note_revision(hash, mod_revision);
        hash
    }

    /// Takes what etcd says about the writes of the object with this key.
    pub fn note_history(&mut self, key: &[u8], history: History) {
        if history.lease != 0 {
            self.leases.add(key);
        }
        if !history.is_possible() {
            self.impossible.get_or_insert_with(|| (shown(key), history));
        }
    }

    /// Takes that the object with this key has fields that etcd does not send.
    pub fn note_irregular(&mut self, key: &[u8]) {
        self.irregular.get_or_insert_with(|| shown(key));
    }

    /// Returns what is wrong with the list by its response alone, with the object that has it.
    pub(crate) fn naming(&self, wrong: Wrong) -> Wrong {
        match wrong {
            Wrong::Irregular { count, first: None } => Wrong::Irregular {
                count,
                first: self.irregular.clone(),
            },
            other => other,
        }
    }

    /// Takes an object that an equal check has visited before, by the hash that it returned and the
    /// bytes of its relative key and its value.
    pub fn visit_again(&mut self, hash: u64, bytes: u64, mod_revision: i64) {
        self.fingerprint.add_hashed(hash, bytes);
        self.note_revision(hash, mod_revision);
    }

    /// Bytes of a key that count: those behind the root.
    #[must_use]
    pub fn relative_len(&self, key: &[u8]) -> u64 {
        key.len().saturating_sub(self.root.len()) as u64
    }

    fn note_revision(&mut self, hash: u64, mod_revision: i64) {
        self.highest_revision = self.highest_revision.max(mod_revision);
        let product = hash.wrapping_mul(mod_revision as u64);
        self.revisions = self.revisions.wrapping_add(product);
    }

    /// Ends the check.
    ///
    /// # Errors
    /// The first thing that is [`Wrong`]; without an expectation only what contradicts itself.
    pub fn finish(self, listed: &Listed, expected: Option<&Expected>) -> Result<Found, Wrong> {
        if let Some(key) = self.foreign_key {
            return Err(Wrong::ForeignKey(key));
        }
        if self.highest_revision > listed.revision {
            return Err(Wrong::Revision {
                object: self.highest_revision,
                list: listed.revision,
            });
        }
        if let Some((key, said)) = self.impossible {
            return Err(Wrong::History { key, said });
        }
        let found = Found {
            fingerprint: self.fingerprint,
            revisions: self.revisions,
        };
        if let Some(expected) = expected {
            found.compare(listed, expected)?;
            let Faulty { count, first } = self.leases;
            if count > 0 {
                return Err(Wrong::Leases { count, first });
            }
        }
        Ok(found)
    }
}

/// What one list held.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Of the keys and values received.
    pub fingerprint: Fingerprint,
    /// As [`Expected::revisions`].
    pub revisions: u64,
}

impl Found {
    /// Adds what another part of the same objects held.
    pub fn merge(&mut self, other: &Self) {
        self.fingerprint.merge(&other.fingerprint);
        self.revisions = self.revisions.wrapping_add(other.revisions);
    }

    /// Returns what it has other than an earlier list of the same revision, in words.
    #[must_use]
    pub fn difference(&self, before: &Self) -> String {
        let (found, earlier) = (&self.fingerprint, &before.fingerprint);
        if found.objects != earlier.objects {
            format!("{} objects, then {}", earlier.objects, found.objects)
        } else if found.bytes != earlier.bytes {
            format!("{} bytes, then {}", earlier.bytes, found.bytes)
        } else if found != earlier {
            format!("fingerprint {earlier}, then {found}")
        } else {
            "objects have other revisions".to_owned()
        }
    }

    /// Whether this is what was expected of a list, or of several parts together.
    ///
    /// # Errors
    /// The first thing that is [`Wrong`].
    pub fn compare(&self, listed: &Listed, expected: &Expected) -> Result<(), Wrong> {
        let (found, wanted) = (&self.fingerprint, &expected.fingerprint);
        if found.objects != wanted.objects {
            return Err(Wrong::Objects {
                expected: wanted.objects,
                found: found.objects,
            });
        }
        if found.bytes != wanted.bytes {
            return Err(Wrong::Bytes {
                expected: wanted.bytes,
                found: found.bytes,
            });
        }
        if found != wanted {
            return Err(Wrong::Altered {
                expected: wanted.to_string(),
                found: found.to_string(),
            });
        }
        expected.check_revisions(self.revisions)?;
        if listed.revision < expected.revision {
            return Err(Wrong::Stale {
                found: listed.revision,
                at_least: expected.revision,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: [(&[u8], &[u8]); 3] = [(b"/r/a", b"1"), (b"/r/b", b"22"), (b"/r/c", b"333")];
    const LISTED: Listed = Listed {
        revision: 9,
        chunks: 1,
        wire_bytes: 0,
    };

    fn check(objects: &[(&[u8], &[u8])], expected: Option<&Expected>) -> Result<Found, Wrong> {
        let mut check = Check::new("/r/");
        for (key, value) in objects {
            check.visit(key, value, 9);
        }
        check.finish(&LISTED, expected)
    }

    fn expected() -> Expected {
        let found = check(&OBJECTS, None).expect("nothing is expected");
        Expected {
            fingerprint: found.fingerprint,
            revisions: Some(found.revisions),
            revision: 9,
        }
    }

    #[test]
    fn what_was_written_passes() {
        let found = check(&OBJECTS, Some(&expected())).expect("the same objects");
        let found = &found.fingerprint;
        assert_eq!((found.objects, found.bytes), (3, 9));
    }

    #[test]
    fn every_fault_has_its_name() {
        let expected = expected();
        let short = check(&OBJECTS[..2], Some(&expected));
        assert!(matches!(
            short,
            Err(Wrong::Objects {
                expected: 3,
                found: 2
            })
        ));
        let flipped = [OBJECTS[0], OBJECTS[1], (b"/r/c", b"334")];
        assert!(matches!(
            check(&flipped, Some(&expected)),
            Err(Wrong::Altered { .. })
        ));
        let longer = [OBJECTS[0], OBJECTS[1], (b"/r/c", b"3333")];
        assert!(matches!(
            check(&longer, Some(&expected)),
            Err(Wrong::Bytes { .. })
        ));
        // The same bytes, with the border between key and value moved.
        let moved = [OBJECTS[0], OBJECTS[1], (&b"/r/c3"[..], &b"33"[..])];
        assert!(matches!(
            check(&moved, Some(&expected)),
            Err(Wrong::Altered { .. })
        ));
        let foreign = [OBJECTS[0], (&b"/other"[..], &b""[..])];
        assert!(matches!(
            check(&foreign, Some(&expected)),
            Err(Wrong::ForeignKey(_))
        ));
        let mut rewritten = Check::new("/r/");
        for ((key, value), revision) in OBJECTS.iter().zip([9, 8, 9]) {
            rewritten.visit(key, value, revision);
        }
        let rewritten = rewritten.finish(&LISTED, Some(&expected));
        let wrong = rewritten.expect_err("an object of another revision");
        let sum = expected.revisions.expect("it is known");
        assert!(
            matches!(wrong, Wrong::ObjectRevision { expected, found } if expected == sum && found != sum)
        );
        assert!(
            wrong.to_string().contains(&format!("{sum:016x}")),
            "{wrong}"
        );
        let newer = Expected {
            revision: 10,
            ..expected
        };
        assert!(matches!(
            check(&OBJECTS, Some(&newer)),
            Err(Wrong::Stale { .. })
        ));
    }

    #[test]
    fn what_is_said_of_an_object_s_writes_must_be_possible() {
        let history = |created, modified, version, lease| History {
            created,
            modified,
            version,
            lease,
        };
        let finished = |noted, expected: Option<&Expected>| {
            let mut check = Check::new("/r/");
            for (key, value) in &OBJECTS {
                check.visit(key, value, 9);
                check.note_history(key, noted);
            }
            check.finish(&LISTED, expected).map(drop)
        };
        let expected = expected();
        for good in [history(9, 9, 1, 0), history(2, 9, 8, 0)] {
            assert_eq!(finished(good, Some(&expected)), Ok(()), "{good:?}");
        }
        for bad in [
            history(9, 9, 2, 0),
            history(8, 9, 1, 0),
            history(0, 9, 2, 0),
            history(9, 9, 0, 0),
            history(10, 9, 2, 0),
        ] {
            let (key, said) = ("/r/a".to_owned(), bad);
            let wrong = Wrong::History { key, said };
            assert_eq!(finished(bad, None), Err(wrong), "the first of three");
        }
        let leased = history(9, 9, 1, 7);
        assert_eq!(finished(leased, None), Ok(()), "somebody else's may have");
        let written = finished(leased, Some(&expected));
        let wrong = written.expect_err("nothing was written with a lease");
        assert_eq!(
            wrong.to_string(),
            "3 objects have a lease, and were written without (the first is `/r/a`)"
        );
    }

    #[test]
    fn an_object_newer_than_its_list_is_wrong() {
        let mut check = Check::new("/r/");
        check.visit(b"/r/a", b"1", 10);
        assert!(matches!(
            check.finish(&LISTED, None),
            Err(Wrong::Revision { .. })
        ));
    }
}
