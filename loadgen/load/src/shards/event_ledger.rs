//! Checks that the workers together received every write once: each event at the worker that owns
//! the object, none lost, duplicated or at another worker. A missing event is detected even if a
//! later one of the same object arrived.

use std::collections::HashMap;
use std::time::Instant;

use workloads::Fingerprint;
use workloads::writes::Effect;

use crate::operation::watch_worker::{HeldObject, Seen};
use crate::record::LatencyHistogram;

/// An acknowledged write, which its event must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The write's revision.
    pub revision: i64,
    /// The effect of the write.
    pub effect: Effect,
    /// The worker that owns the object.
    pub worker: usize,
    /// The hash of the object's key.
    pub key: u64,
    /// The hash of the object's key and bytes.
    pub hash: u64,
    /// The start of the write's latency, as the writers recorded it.
    pub begun: Instant,
}

/// How the events contradict the writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventMismatch {
    /// Events are missing.
    #[error(
        "{dropped} of {writes} writes did not reach their worker: the first is the one of revision {revision}, for worker {worker}"
    )]
    Dropped {
        /// The number of writes without an event.
        dropped: u64,
        /// The number of all writes.
        writes: u64,
        /// The revision of the first.
        revision: i64,
        /// The worker that should have received it.
        worker: usize,
    },
    /// There are events without a write of this worker's objects, or duplicates.
    #[error(
        "{superfluous} events more than writes: the first is one of revision {revision} at worker {worker}"
    )]
    Superfluous {
        /// The number of such events.
        superfluous: u64,
        /// The revision of the first.
        revision: i64,
        /// The worker that received it.
        worker: usize,
    },
    /// An event differs from the write.
    #[error("the event of revision {revision} at worker {worker} is not of what was written")]
    Altered {
        /// The event's revision.
        revision: i64,
        /// The worker that received it.
        worker: usize,
    },
    /// Two workers hold the same object.
    #[error("workers {0} and {1} hold the same object")]
    Overlap(usize, usize),
    /// The workers together hold other objects than those that exist.
    #[error("all workers together hold objects other than those written: {found} for {expected}")]
    Union {
        /// The fingerprint of what was written.
        expected: String,
        /// The fingerprint of what the workers hold.
        found: String,
    },
}

/// The counts of writes and events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// The number of acknowledged writes.
    pub writes: u64,
    /// The number of writes whose event arrived once, at the worker that owns the object.
    pub delivered: u64,
    /// The number of writes whose event did not.
    pub dropped: u64,
    /// The number of events without a write of the worker's objects, or duplicates.
    pub superfluous: u64,
}

/// Compares the events of each worker with the writes. The counts are valid even if the comparison
/// fails. Latencies are measured from [`Written::begun`] to the event.
pub fn events(
    written: &[Written],
    seen: &[Vec<Seen>],
) -> (EventCounts, LatencyHistogram, Result<(), EventMismatch>) {
    let mut open: HashMap<i64, &Written> = written.iter().map(|w| (w.revision, w)).collect();
    let mut counts = EventCounts {
        writes: written.len() as u64,
        ..EventCounts::default()
    };
    let mut latency = LatencyHistogram::default();
    let mut superfluous = None;
    let mut altered = None;
    for (worker, seen) in seen.iter().enumerate() {
        for event in seen {
            let revision = event.revision;
            match open.get(&revision) {
                Some(write) if write.worker == worker => {
                    let same = (write.effect, write.key, write.hash)
                        == (event.effect, event.key, event.hash);
                    if !same {
                        altered.get_or_insert(EventMismatch::Altered { revision, worker });
                    }
                    latency.record(event.at.saturating_duration_since(write.begun));
                    counts.delivered += 1;
                    open.remove(&revision);
                }
                _ => {
                    counts.superfluous += 1;
                    superfluous.get_or_insert((revision, worker));
                }
            }
        }
    }
    counts.dropped = open.len() as u64;
    let first = open.values().min_by_key(|write| write.revision);
    let outcome = match (first, superfluous, altered) {
        (Some(first), ..) => Err(EventMismatch::Dropped {
            dropped: counts.dropped,
            writes: counts.writes,
            revision: first.revision,
            worker: first.worker,
        }),
        (_, Some((revision, worker)), _) => Err(EventMismatch::Superfluous {
            superfluous: counts.superfluous,
            revision,
            worker,
        }),
        (.., Some(altered)) => Err(altered),
        (None, None, None) => Ok(()),
    };
    (counts, latency, outcome)
}

/// Checks that no two workers hold the same object, and that all together hold the expected ones.
/// Returns the sum of the objects' hashes, each times its revision, as in
/// [`crate::verify::Expected`].
///
/// # Errors
/// [`EventMismatch::Overlap`] or [`EventMismatch::Union`].
pub fn union<'h>(
    held: impl IntoIterator<Item = &'h HashMap<u64, HeldObject>>,
    expected: &Fingerprint,
) -> Result<u64, EventMismatch> {
    let mut owners: HashMap<u64, usize> = HashMap::new();
    let (mut found, mut revisions) = (Fingerprint::default(), 0_u64);
    for (worker, held) in held.into_iter().enumerate() {
        for (&key, object) in held {
            if let Some(other) = owners.insert(key, worker) {
                return Err(EventMismatch::Overlap(other, worker));
            }
            found.add_hashed(object.hash, object.bytes);
            let product = object.hash.wrapping_mul(object.revision as u64);
            revisions = revisions.wrapping_add(product);
        }
    }
    if found == *expected {
        return Ok(revisions);
    }
    Err(EventMismatch::Union {
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Returns writes in the order of their revisions, and the events that workers receive when
    /// nothing goes wrong.
    fn scene(workers: &[usize]) -> (Vec<Written>, Vec<Vec<Seen>>) {
        let now = Instant::now();
        let mut seen = vec![Vec::new(); 4];
        let written = workers.iter().zip(1_i64..).map(|(&worker, revision)| {
            let (key, hash) = (revision as u64 % 5, revision as u64 * 31);
            seen[worker].push(Seen {
                revision,
                effect: Effect::Changed,
                key,
                hash,
                at: now + Duration::from_millis(2),
            });
            Written {
                revision,
                effect: Effect::Changed,
                worker,
                key,
                hash,
                begun: now,
            }
        });
        (written.collect(), seen)
    }

    proptest! {
        #[test]
        fn whatever_is_lost_added_or_altered_breaks_the_proof(
            workers in prop::collection::vec(0..4_usize, 1..60), at: prop::sample::Index, other in 0..4_usize,
        ) {
            let (written, seen) = scene(&workers);
            let (counts, latency, outcome) = events(&written, &seen);
            prop_assert_eq!(outcome, Ok(()));
            prop_assert_eq!((counts.delivered, counts.dropped), (workers.len() as u64, 0));
            prop_assert_eq!(latency.n(), workers.len() as u64);

            let revision = at.index(workers.len()) as i64 + 1;
            let worker = written[revision as usize - 1].worker;
            let place = seen[worker].iter().position(|s| s.revision == revision).expect("it was seen");

            let mut lost = seen.clone();
            let event = lost[worker].remove(place);
            let (counts, _, outcome) = events(&written, &lost);
            let dropped = EventMismatch::Dropped { dropped: 1, writes: counts.writes, revision, worker };
            prop_assert_eq!((counts.dropped, outcome), (1, Err(dropped)));

            let mut again = seen.clone();
            again[other].push(event);
            let (counts, _, outcome) = events(&written, &again);
            prop_assert_eq!(counts.superfluous, 1);
            let is_superfluous = matches!(outcome, Err(EventMismatch::Superfluous { .. }));
            prop_assert!(is_superfluous);

            let mut altered = seen;
            altered[worker][place].hash ^= 1;
            let (.., outcome) = events(&written, &altered);
            prop_assert_eq!(outcome, Err(EventMismatch::Altered { revision, worker }));
        }
    }

    #[test]
    fn a_union_is_whole_and_nobody_s_twice() {
        let object = |hash| HeldObject {
            revision: 3,
            hash,
            bytes: 10,
            shard_hash: 0,
        };
        let mut all = Fingerprint::default();
        let mut shards = vec![HashMap::new(), HashMap::new()];
        for key in 0..10_u64 {
            all.add_hashed(key * 7, 10);
            shards[key as usize % 2].insert(key, object(key * 7));
        }
        assert_eq!(
            union(&shards, &all),
            Ok((0..10).map(|key| key * 7 * 3).sum())
        );
        let held = shards[0].remove(&4).expect("it is even");
        let without = union(&shards, &all);
        assert!(
            matches!(without, Err(EventMismatch::Union { .. })),
            "{without:?}"
        );
        shards[0].insert(5, held);
        assert_eq!(union(&shards, &all), Err(EventMismatch::Overlap(0, 1)));
    }
}
