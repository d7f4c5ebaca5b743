//! What is known of the revisions of a data set's objects: by all loads of a case, so that what one
//! of them writes another reads.

use std::sync::atomic::{AtomicI64, Ordering};

use workloads::DataSet;

use super::objects_of;

/// The revisions of the objects that requests are about, as responses told them. 0 is unknown.
#[derive(Debug)]
pub struct Revisions(Vec<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The latest revision that a write was acknowledged with.
    written: AtomicI64,
    /// The latest revision in any response that is linearizable: a later request must not be
    /// answered with an older one.
    answered: AtomicI64,
}

impl Revisions {
    /// Knows nothing yet. 16 bytes for each object, 10,000 at most.
    #[must_use]
    pub fn new(data: &DataSet) -> Self {
        let objects = 0..objects_of(data);
        Self(objects.map(|_| Known::default()).collect())
    }

    /// A write of an object was acknowledged with this revision.
    pub(super) fn wrote(&self, object: usize, revision: i64) {
        self.0[object]
            .written
            .fetch_max(revision, Ordering::Relaxed);
        self.answered(object, revision);
    }

    /// A linearizable response told this revision of an object.
    pub(super) fn answered(&self, object: usize, revision: i64) {
        let answered = &self.0[object].answered;
        // Most responses tell nothing new, and a load is cheaper than a write.
        if answered.load(Ordering::Relaxed) < revision {
            answered.fetch_max(revision, Ordering::Relaxed);
        }
    }

    /// Returns the latest revision that a write was acknowledged with.
    pub(super) fn written(&self, object: usize) -> i64 {
        self.0[object].written.load(Ordering::Relaxed)
    }

    /// Returns the revision that a linearizable response to a request which is sent now must have,
    /// or a later one.
    pub(super) fn at_least(&self, object: usize) -> i64 {
        self.0[object].answered.load(Ordering::Relaxed)
    }
}
