//! Keys and leases that one connection creates and deletes, so that no two connections use the
//! same.
//!
//! The key that operation n creates or deletes depends on the operations before it on the same
//! connection, not on what was acknowledged: the plan of a run does not depend on its timing.

use std::collections::VecDeque;

use workloads::SmallRequest;

/// The least number of keys or leases that are kept. With fewer, a deletion creates another key
/// instead, so that a key is deleted long after it was created.
const LEAST_ALIVE: usize = 16;
/// The number of keys that one DeleteRange deletes.
const RANGE: usize = 10;

/// The keys and leases of one connection, each numbered in the order of creation.
#[derive(Debug, Default)]
pub(crate) struct OwnKeys {
    keys: Made,
    leases: Made,
}

/// An operation on a key, a lease or a range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnKey {
    /// The operation.
    pub(crate) request: SmallRequest,
    /// The number of the key or lease; that of the first key of a range.
    pub(crate) number: u64,
    /// The number of keys; 1 except for a range.
    pub(crate) count: u64,
    /// The revision of the key that is deleted. For leases and ranges, above 0 if all are known to
    /// exist. 0 if the creation of any is not acknowledged yet.
    pub(crate) revision: i64,
}

impl OwnKeys {
    /// Returns the next key or lease to delete if `request` deletes and there are enough, the lease
    /// to keep alive if there is one, or else a new one.
    pub(crate) fn next(&mut self, request: SmallRequest) -> OwnKey {
        let of_lease = matches!(
            request,
            SmallRequest::LeaseGrant | SmallRequest::LeaseRevoke | SmallRequest::LeaseKeepAlive
        );
        let (made, new) = match of_lease {
            true => (&mut self.leases, SmallRequest::LeaseGrant),
            false => (&mut self.keys, SmallRequest::Create),
        };
        let enough = |count| made.revisions.len() >= LEAST_ALIVE + count;
        let there = match request {
            SmallRequest::Delete | SmallRequest::LeaseRevoke if enough(1) => made.take(1),
            SmallRequest::DeleteRange if enough(RANGE) => made.take(RANGE),
            SmallRequest::LeaseKeepAlive => made.latest(),
            _ => None,
        };
        let (request, (number, count, revision)) = match there {
            Some(there) => (request, there),
            None => (new, (made.add(), 1, 0)),
        };
        OwnKey {
            request,
            number,
            count,
            revision,
        }
    }

    /// Records that a key was created at this revision, or that a lease was granted.
    pub(crate) fn made(&mut self, key: OwnKey, revision: i64) {
        match key.request {
            SmallRequest::LeaseGrant => self.leases.acknowledged(key.number, revision),
            _ => self.keys.acknowledged(key.number, revision),
        }
    }
}

/// The keys or leases that were created and not deleted.
#[derive(Debug, Default)]
struct Made {
    /// The number of the oldest.
    oldest: u64,
    /// The revision of each from the oldest on; 0 if that is not known yet.
    revisions: VecDeque<i64>,
}

impl Made {
    /// Adds one and returns its number.
    fn add(&mut self) -> u64 {
        self.revisions.push_back(0);
        self.oldest + self.revisions.len() as u64 - 1
    }

    /// Removes the oldest `count`. Returns the number of the first, the count, and the least
    /// revision.
    fn take(&mut self, count: usize) -> Option<(u64, u64, i64)> {
        let number = self.oldest;
        let taken = self.revisions.drain(..count);
        let revision = taken.min()?;
        self.oldest += count as u64;
        Some((number, count as u64, revision))
    }

    /// Returns the newest that is known to exist, or else the oldest.
    fn latest(&self) -> Option<(u64, u64, i64)> {
        let known = self.revisions.iter().rposition(|&revision| revision != 0);
        let place = known.unwrap_or(0);
        let revision = *self.revisions.get(place)?;
        Some((self.oldest + place as u64, 1, revision))
    }

    fn acknowledged(&mut self, number: u64, revision: i64) {
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

    fn new(keys: &mut OwnKeys, request: SmallRequest, count: usize) {
        for _ in 0..count {
            keys.next(request);
        }
    }

    fn acknowledged(keys: &mut OwnKeys, request: SmallRequest, number: u64, revision: i64) {
        let key = OwnKey {
            request,
            number,
            count: 1,
            revision: 0,
        };
        keys.made(key, revision);
    }

    #[test]
    fn keys_are_deleted_in_the_order_in_which_they_were_created() {
        let mut keys = OwnKeys::default();
        for number in 0..LEAST_ALIVE as u64 {
            // There is nothing to delete yet.
            let created = keys.next(SmallRequest::Delete);
            assert_eq!(
                (created.request, created.number),
                (SmallRequest::Create, number)
            );
        }
        new(&mut keys, SmallRequest::Create, 1);
        acknowledged(&mut keys, SmallRequest::Create, 0, 100);
        acknowledged(&mut keys, SmallRequest::Create, 2, 102);
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
        // The acknowledgement arrives late.
        acknowledged(&mut keys, SmallRequest::Create, 1, 101);
        assert_eq!(keys.keys.revisions.len(), LEAST_ALIVE + 1);
    }

    #[test]
    fn a_range_is_of_the_oldest_keys_and_known_when_each_of_them_is() {
        let mut keys = OwnKeys::default();
        new(&mut keys, SmallRequest::Create, LEAST_ALIVE + 2 * RANGE);
        for number in 0..RANGE as u64 {
            acknowledged(&mut keys, SmallRequest::Create, number, 5);
        }
        let known = keys.next(SmallRequest::DeleteRange);
        assert_eq!((known.number, known.count), (0, RANGE as u64));
        assert_eq!(known.revision, 5);
        // One of the next ten is known to exist, the others are not.
        acknowledged(&mut keys, SmallRequest::Create, RANGE as u64, 6);
        let unknown = keys.next(SmallRequest::DeleteRange);
        assert_eq!((unknown.number, unknown.revision), (RANGE as u64, 0));
        // Too few are left.
        let more = keys.next(SmallRequest::DeleteRange);
        assert_eq!(more.request, SmallRequest::Create);
    }

    #[test]
    fn the_first_keep_alive_grants_its_lease_and_those_after_it_keep_it() {
        let mut keys = OwnKeys::default();
        let alive = SmallRequest::LeaseKeepAlive;
        assert_eq!(keys.next(alive).request, SmallRequest::LeaseGrant);
        let unknown = keys.next(alive);
        assert_eq!((unknown.request, unknown.number), (alive, 0));
        assert_eq!(unknown.revision, 0);
        new(&mut keys, SmallRequest::LeaseGrant, 2);
        acknowledged(&mut keys, SmallRequest::LeaseGrant, 1, 7);
        let newest_known = keys.next(alive);
        assert_eq!((newest_known.number, newest_known.revision), (1, 7));
        assert_eq!(keys.keys.revisions.len(), 0, "leases are no keys");
    }
}
