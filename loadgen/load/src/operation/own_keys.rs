//! Keys that one connection creates and deletes, so that no two connections are about the same.
//!
//! Which key operation n creates or deletes follows from the operations before it on the same
//! connection, not from what was acknowledged: the plan of a run does not depend on its timing.

use std::collections::VecDeque;

use workloads::SmallRequest;

/// Keys that stay at least: what would be deleted before there are as many is a key more instead, so
/// that a key is deleted long after it was created.
const LEAST_ALIVE: usize = 16;

/// The keys of one connection, numbered in the order in which they are created.
#[derive(Debug, Default)]
pub(crate) struct OwnKeys {
    /// Number of the oldest that is not deleted.
    oldest: u64,
    /// Revision of each that is not deleted, from the oldest on; 0 where that is not known yet.
    revisions: VecDeque<i64>,
}

/// What is done with one of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnKey {
    /// What is done: create or delete.
    pub(crate) request: SmallRequest,
    /// The key.
    pub(crate) number: u64,
    /// The revision of what is deleted; 0 where its creation is not acknowledged yet.
    pub(crate) revision: i64,
}

impl OwnKeys {
    /// The next to be deleted where `request` is to delete one and there are enough, else a new one.
    pub(crate) fn next(&mut self, request: SmallRequest) -> OwnKey {
        if request == SmallRequest::Delete
            && self.revisions.len() > LEAST_ALIVE
            && let Some(revision) = self.revisions.pop_front()
        {
            let number = self.oldest;
            self.oldest += 1;
            return OwnKey {
                request,
                number,
                revision,
            };
        }
        let number = self.oldest + self.revisions.len() as u64;
        self.revisions.push_back(0);
        OwnKey {
            request: SmallRequest::Create,
            number,
            revision: 0,
        }
    }

    /// A key was created at this revision.
    pub(crate) fn created(&mut self, number: u64, revision: i64) {
        let place = number.checked_sub(self.oldest);
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(known) = place.and_then(|place| self.revisions.get_mut(place)) {
            *known = revision;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_deleted_in_the_order_in_which_they_were_created() {
        let mut keys = OwnKeys::default();
        for number in 0..=LEAST_ALIVE as u64 {
            // There is nothing to delete yet.
            let created = keys.next(SmallRequest::Delete);
            assert_eq!(
                (created.request, created.number),
                (SmallRequest::Create, number)
            );
        }
        keys.created(0, 100);
        keys.created(2, 102);
        let deleted: Vec<_> = (0..3)
            .map(|_| {
                let deleted = keys.next(SmallRequest::Delete);
                keys.next(SmallRequest::Create);
                (deleted.request, deleted.number, deleted.revision)
            })
            .collect();
        let delete = SmallRequest::Delete;
        assert_eq!(
            deleted,
            [(delete, 0, 100), (delete, 1, 0), (delete, 2, 102)]
        );
        // Its acknowledgement comes late.
        keys.created(1, 101);
        assert_eq!(keys.revisions.len(), LEAST_ALIVE + 1);
    }
}
