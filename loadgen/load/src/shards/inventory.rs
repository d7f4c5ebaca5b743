//! What each shard of a data set must hold: computed from the data set alone, so that neither the
//! server's hash nor a worker's has a part in it.

use kube_api::envelope;
use kube_api::metadata::Metadata;
use kube_api::shard_selector::{ShardKey, ShardSelector};
use workloads::{DataSet, Fingerprint, Version};

use super::distribution::Distribution;

/// A value without the metadata that shards are cut by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is no Kubernetes object: {reason}")]
pub struct NoObject {
    /// Its key.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

/// One object of the data set, or a later version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Hash of the field that shards are cut by.
    pub shard_hash: u64,
    /// Hash of key and bytes, as a [`Fingerprint`] adds it.
    pub hash: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// Every object of a data set.
#[derive(Debug, Clone)]
pub struct Inventory {
    key: ShardKey,
    entries: Vec<Entry>,
}

impl Entry {
    /// Returns what is kept of a stored object; `key` is relative to the registry's prefix.
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
    /// Makes every object once: about 4 µs a pod.
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

    /// Returns the inventory of objects that were inspected elsewhere.
    #[must_use]
    pub fn of(key: ShardKey, entries: Vec<Entry>) -> Self {
        Self { key, entries }
    }

    /// Returns the entries by number.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns how many objects have which hash.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let hashes = self.entries.iter().map(|entry| entry.shard_hash);
        Distribution::new(self.key, hashes)
    }

    /// Returns what a list of this shard holds.
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
