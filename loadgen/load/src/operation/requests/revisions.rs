//! The known revisions of a data set's objects. All loads of a case share them, so that one load's
//! reads are checked against another's writes.

use std::sync::atomic::{AtomicI64, Ordering};

use workloads::DataSet;

use super::objects_of;

/// The revisions of the objects that requests use, as known from responses. 0 is unknown.
#[derive(Debug)]
pub struct Revisions(Vec<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The latest revision with which a write was acknowledged.
    written: AtomicI64,
    /// The latest revision in any linearizable response. The response to a later request must not
    /// have an older one.
    observed: AtomicI64,
}

impl Revisions {
    /// Returns revisions that are all unknown. Takes 16 bytes for each object, of which there are
    /// at most 10,000.
    #[must_use]
    pub fn new(data: &DataSet) -> Self {
        let objects = 0..objects_of(data);
        Self(objects.map(|_| Known::default()).collect())
    }

    /// Records that a write of an object was acknowledged with this revision.
    pub(super) fn wrote(&self, object: usize, revision: i64) {
        self.0[object]
            .written
            .fetch_max(revision, Ordering::Relaxed);
        self.observe(object, revision);
    }

    /// Records the revision of an object in a linearizable response.
    pub(super) fn observe(&self, object: usize, revision: i64) {
        let observed = &self.0[object].observed;
        // Most responses have a known revision, and a load is cheaper than a write.
        if observed.load(Ordering::Relaxed) < revision {
            observed.fetch_max(revision, Ordering::Relaxed);
        }
    }

    /// Returns the latest revision with which a write was acknowledged.
    pub(super) fn written(&self, object: usize) -> i64 {
        self.0[object].written.load(Ordering::Relaxed)
    }

    /// Returns the least revision that a linearizable response to a request sent now must have.
    pub(super) fn at_least(&self, object: usize) -> i64 {
        self.0[object].observed.load(Ordering::Relaxed)
    }
}
