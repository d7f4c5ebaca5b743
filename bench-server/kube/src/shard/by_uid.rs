//! The entries of the index on uids.

use index::Item;

use crate::resource::object::Object;

/// An object, ordered by the bucket of its hash and then by its key.
#[derive(Debug, Clone)]
pub(crate) struct ByUid(pub(crate) Object);

impl Item for ByUid {
    type Tag = ();

    fn key(&self) -> &[u8] {
        self.0.bucket_and_key()
    }

    fn weight(&self) -> u64 {
        self.0.weight()
    }

    fn tag(&self) {}
}
