//! The expected contents of each shard of a data set. They are computed from the data set alone,
//! independently of the hashes of the server and of workers.

use kube_api::envelope;
use kube_api::metadata::Metadata;
use kube_api::shard_selector::{ShardKey, ShardSelector};
use workloads::{DataSet, Fingerprint, Version};

use super::distribution::Distribution;

/// The error of a value without the metadata by which objects are sharded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is no Kubernetes object: {reason}")]
pub struct NoObject {
    /// The object's key.
    pub key: String,
    /// A description of what is wrong with it.
    pub reason: String,
}

/// One object of the data set, or a later version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The hash of the field by which objects are sharded.
    pub shard_hash: u64,
    /// The hash of key and value, as added to a [`Fingerprint`].
    pub hash: u64,
    /// The number of bytes of both.
    pub bytes: u64,
}

/// All objects of a data set.
#[derive(Debug, Clone)]
pub struct Inventory {
    key: ShardKey,
    entries: Vec<Entry>,
}

impl Entry {
    /// Returns the entry of a stored object. `key` is relative to the registry's prefix.
    ///
    /// # Errors
    /// [`NoObject`] when the value is no Kubernetes object.
    pub fn of(by: ShardKey, key: &[u8], value: &[u8]) -> Result<Self, NoObject> {
        let no_object = |reason: &dyn std::fmt::Display| NoObject {
            key: key.escape_ascii().to_string(),
            reason: reason.to_string(),
        };
        let object = envelope::open(value).map_err(|e| no_object(&e))?;
        let metadata = Metadata::read(object).map_err(|e| no_object(&e))?;
        let mut one = Fingerprint::default();
        Ok(Self {
            shard_hash: by.hash(metadata.uid, metadata.namespace),
            hash: one.add(key, value),
            bytes: one.bytes,
        })
    }
}

impl Inventory {
    /// Generates every object once: about 4 µs a pod.
    ///
    /// # Errors
    /// [`NoObject`] when the objects are no Kubernetes objects.
    pub fn new(data: &DataSet, by: ShardKey) -> Result<Self, NoObject> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut entries = Vec::with_capacity(usize::try_from(data.len()).unwrap_or_default());
        for i in 0..data.len() {
            key.clear();
            value.clear();
            data.write_key(i, &mut key);
            data.write_version(i, Version::default(), &mut value);
            entries.push(Entry::of(by, &key, &value)?);
        }
        Ok(Self { key: by, entries })
    }

    /// Returns an inventory of objects whose entries are known already.
    #[must_use]
    pub fn of(key: ShardKey, entries: Vec<Entry>) -> Self {
        Self { key, entries }
    }

    /// Returns the entries by object number.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the number of objects by hash.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let hashes = self.entries.iter().map(|entry| entry.shard_hash);
        Distribution::new(self.key, hashes)
    }

    /// Returns the fingerprint of a list of this shard.
    #[must_use]
    pub fn expected(&self, shard: &ShardSelector) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        for entry in &self.entries {
            if shard.selects(entry.shard_hash) {
                fingerprint.add_hashed(entry.hash, entry.bytes);
            }
        }
        fingerprint
    }
}
