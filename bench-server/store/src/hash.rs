//! Hashes the stored keys, to compare two reads of a store or two of these stores.

use crc::{CRC_32_ISCSI, Crc, Table};
use etcd_api::error::Refusal;

use super::Store;

/// CRC-32C, as in etcd. etcd hashes its own storage format, so hashes of both servers differ.
static CRC_32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// A hash, and the revisions that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeysHash {
    /// CRC-32C over the encoded keys in key order.
    pub hash: u32,
    /// Last compacted revision; −1 when none.
    pub compact_revision: i64,
    /// Revision that was hashed.
    pub hash_revision: i64,
    /// The store's latest revision.
    pub revision: i64,
}

impl Store {
    /// Hashes the keys as they were at `rev` (`rev <= 0` is the latest). Reads every byte.
    ///
    /// # Errors
    /// [`Refusal::Compacted`], [`Refusal::FutureRevision`].
    pub fn hash_kv(&self, rev: i64) -> Result<KeysHash, Refusal> {
        let snapshot = self.snapshot_at(rev)?;
        let mut cursor = snapshot.cursor(etcd_api::keys::KeyRange::From(b""));
        let mut digest = CRC_32C.digest();
        while let Some(record) = cursor.next_ref() {
            let pieces = record.wire().into_iter();
            pieces.for_each(|piece| digest.update(piece));
        }
        Ok(KeysHash {
            hash: digest.finalize(),
            compact_revision: self.compact_revision(),
            hash_revision: snapshot.revision(),
            revision: snapshot.head_revision(),
        })
    }
}
