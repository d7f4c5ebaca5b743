//! The number of objects by hash.

use kube_api::shard_selector::ShardKey;

/// The number of objects by hash, with each hash once, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    key: ShardKey,
    entries: Vec<(u64, u64)>,
    total: u64,
}

impl Distribution {
    /// Returns the distribution of the objects' hashes of this field. O(n log n).
    #[must_use]
    pub fn new(key: ShardKey, hashes: impl IntoIterator<Item = u64>) -> Self {
        let mut hashes: Vec<u64> = hashes.into_iter().collect();
        hashes.sort_unstable();
        let entries = hashes
            .chunk_by(|a, b| a == b)
            .map(|same| (same[0], same.len() as u64))
            .collect();
        Self {
            key,
            entries,
            total: hashes.len() as u64,
        }
    }

    /// Returns the field that was hashed.
    #[must_use]
    pub fn key(&self) -> ShardKey {
        self.key
    }

    /// Returns each hash with its number of objects, in ascending order.
    #[must_use]
    pub fn entries(&self) -> &[(u64, u64)] {
        &self.entries
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of objects of the most frequent hash; 0 if there are none.
    #[must_use]
    pub fn heaviest(&self) -> u64 {
        self.entries
            .iter()
            .map(|&(_, weight)| weight)
            .max()
            .unwrap_or(0)
    }
}

/// Returns the largest value divided by the mean; 1 if all are equal, or if there is nothing.
#[must_use]
pub fn skew(loads: &[u64]) -> f64 {
    let total: u64 = loads.iter().sum();
    let largest = loads.iter().max().copied().unwrap_or(0);
    if total == 0 {
        return 1.0;
    }
    largest as f64 * loads.len() as f64 / total as f64
}
