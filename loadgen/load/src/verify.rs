//! Compares every list with what was written, from the bytes that were received.
//!
//! Order and framing are checked while the bytes stream in (`etcd_api::client::list_validator`).
//! This module checks the number of objects and bytes, the revision, and the fingerprint of keys
//! and values.
//!
//! - [`invalid_response`]: the ways in which a complete response can be invalid
//! - [`verifier`]: compares lists with what was written, or with each other

mod invalid_response;
mod verifier;

use workloads::Fingerprint;

use invalid_response::shown;
pub(crate) use invalid_response::{FaultyKeys, malformed};
pub use invalid_response::{History, InvalidResponse};
pub use verifier::Verifier;

/// The metadata of a list. Its contents are in the [`Check`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listed {
    /// The revision (resourceVersion) at which the list was read.
    pub revision: i64,
    /// The number of chunks, pages or frames with objects.
    pub chunks: u64,
    /// The number of bytes received, without the protocol framing of HTTP.
    pub wire_bytes: u64,
}

/// The expected contents of every list.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The number of objects and bytes, and their hashes.
    pub fingerprint: Fingerprint,
    /// The sum of the objects' hashes, each times its mod revision, modulo 2⁶⁴. It verifies which
    /// revision wrote which object. `None` if that is not known of every object.
    pub revisions: Option<u64>,
    /// The least revision of a list: that of the last write before it.
    pub revision: i64,
}

impl Expected {
    /// Compares the received sum with [`Self::revisions`], if that is known.
    ///
    /// # Errors
    /// [`InvalidResponse::ObjectRevision`] if they differ.
    pub fn check_revisions(&self, found: u64) -> Result<(), InvalidResponse> {
        match self.revisions {
            Some(expected) if expected != found => {
                Err(InvalidResponse::ObjectRevision { expected, found })
            }
            _ => Ok(()),
        }
    }
}

/// Accumulates the contents of one list.
#[derive(Debug, Clone)]
pub struct Check {
    /// The prefix that keys are relative to, so that a data set has one fingerprint wherever it is
    /// stored.
    root: String,
    fingerprint: Fingerprint,
    revisions: u64,
    highest_revision: i64,
    foreign_key: Option<String>,
    /// The first object with an impossible history.
    impossible: Option<(String, History)>,
    leases: FaultyKeys,
    /// The key of the first object with fields that etcd does not send.
    irregular: Option<String>,
}

impl Check {
    /// Returns a check of one list whose keys all begin with `root`.
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

    /// Adds an object, and returns its hash for [`Self::visit_again`]. Costs one pass over key and
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

    /// Records the history that etcd reports for the object with this key.
    pub fn note_history(&mut self, key: &[u8], history: History) {
        if history.lease != 0 {
            self.leases.add(key);
        }
        if !history.is_possible() {
            self.impossible.get_or_insert_with(|| (shown(key), history));
        }
    }

    /// Records that the object with this key has fields that etcd does not send.
    pub fn note_irregular(&mut self, key: &[u8]) {
        self.irregular.get_or_insert_with(|| shown(key));
    }

    /// Returns an error that was found from the response's metadata, completed with the object that
    /// caused it.
    pub(crate) fn naming(&self, wrong: InvalidResponse) -> InvalidResponse {
        match wrong {
            InvalidResponse::Irregular { count, first: None } => InvalidResponse::Irregular {
                count,
                first: self.irregular.clone(),
            },
            other => other,
        }
    }

    /// Adds an object that an equal check has visited before, by the hash that [`Self::visit`]
    /// returned and the number of bytes of its relative key and its value.
    pub fn visit_again(&mut self, hash: u64, bytes: u64, mod_revision: i64) {
        self.fingerprint.add_hashed(hash, bytes);
        self.note_revision(hash, mod_revision);
    }

    /// Returns the number of bytes of a key that count, which are those after the root.
    #[must_use]
    pub fn relative_len(&self, key: &[u8]) -> u64 {
        key.len().saturating_sub(self.root.len()) as u64
    }

    fn note_revision(&mut self, hash: u64, mod_revision: i64) {
        self.highest_revision = self.highest_revision.max(mod_revision);
        let product = hash.wrapping_mul(mod_revision as u64);
        self.revisions = self.revisions.wrapping_add(product);
    }

    /// Ends the check. Returns the contents of the list.
    ///
    /// # Errors
    /// The first [`InvalidResponse`] found. Without an expectation, only contradictions within the
    /// list.
    pub fn finish(
        self,
        listed: &Listed,
        expected: Option<&Expected>,
    ) -> Result<Contents, InvalidResponse> {
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
        let found = Contents {
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

/// The contents of one list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    /// The fingerprint of the keys and values received.
    pub fingerprint: Fingerprint,
    /// See [`Expected::revisions`].
    pub revisions: u64,
}

impl Contents {
    /// Adds the contents of another part of the same objects.
    pub fn merge(&mut self, other: &Self) {
        self.fingerprint.merge(&other.fingerprint);
        self.revisions = self.revisions.wrapping_add(other.revisions);
    }

    /// Describes how the list differs from an earlier one of the same revision.
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

    /// Compares the contents of a list, or of several parts together, with the expected ones.
    ///
    /// # Errors
    /// The first [`InvalidResponse`] found.
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
