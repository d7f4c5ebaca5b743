//! Every list is compared with what was seeded, from the bytes that were received.
//!
//! Order and framing are checked while the bytes come in (`etcd_api::client::list_validator`);
//! here are number, bytes, revision and the fingerprint of keys and values.
//!
//! - [`invalid_response`]: what may be wrong with a list

mod invalid_response;

use workloads::Fingerprint;

use invalid_response::shown;
pub(crate) use invalid_response::{FaultyKeys, not_a_list};
pub use invalid_response::{History, InvalidResponse};

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
    /// [`InvalidResponse::ObjectRevision`].
    pub fn check_revisions(&self, found: u64) -> Result<(), InvalidResponse> {
        match self.revisions {
            Some(expected) if expected != found => {
                Err(InvalidResponse::ObjectRevision { expected, found })
            }
            _ => Ok(()),
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
    leases: FaultyKeys,
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
            leases: FaultyKeys::default(),
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
    pub(crate) fn naming(&self, wrong: InvalidResponse) -> InvalidResponse {
        match wrong {
            InvalidResponse::Irregular { count, first: None } => InvalidResponse::Irregular {
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
    /// The first thing that is [`InvalidResponse`]; without an expectation only what contradicts
    /// itself.
    pub fn finish(
        self,
        listed: &Listed,
        expected: Option<&Expected>,
    ) -> Result<Found, InvalidResponse> {
        if let Some(key) = self.foreign_key {
            return Err(InvalidResponse::ForeignKey(key));
        }
        if self.highest_revision > listed.revision {
            return Err(InvalidResponse::Revision {
                object: self.highest_revision,
                list: listed.revision,
            });
        }
        if let Some((key, said)) = self.impossible {
            return Err(InvalidResponse::History { key, said });
        }
        let found = Found {
            fingerprint: self.fingerprint,
            revisions: self.revisions,
        };
        if let Some(expected) = expected {
            found.compare(listed, expected)?;
            let FaultyKeys { count, first } = self.leases;
            if count > 0 {
                return Err(InvalidResponse::Leases { count, first });
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
    /// The first thing that is [`InvalidResponse`].
    pub fn compare(&self, listed: &Listed, expected: &Expected) -> Result<(), InvalidResponse> {
        let (found, wanted) = (&self.fingerprint, &expected.fingerprint);
        if found.objects != wanted.objects {
            return Err(InvalidResponse::Objects {
                expected: wanted.objects,
                found: found.objects,
            });
        }
        if found.bytes != wanted.bytes {
            return Err(InvalidResponse::Bytes {
                expected: wanted.bytes,
                found: found.bytes,
            });
        }
        if found != wanted {
            return Err(InvalidResponse::Altered {
                expected: wanted.to_string(),
                found: found.to_string(),
            });
        }
        expected.check_revisions(self.revisions)?;
        if listed.revision < expected.revision {
            return Err(InvalidResponse::Stale {
                found: listed.revision,
                at_least: expected.revision,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
