//! Moves a worker from its shard to another one, at a revision that all workers agree on. The old
//! shards apply up to that revision, and the new ones after it. Each write thus belongs to one
//! worker, however many objects move, and writers need not stop.
//!
//! The worker reads on until nothing up to that revision is missing, and forgets the objects that
//! now belong to others. It lists the objects that are new to it as they were at that revision, and
//! watches its new shard from there. Nothing that it already had is listed again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use measure::heap;

use super::{End, HeldObject, WatchWorker};
use crate::operation::list::kube::stored_bytes::{DecodedObject, Sink};
use crate::operation::list::{ListError, ShardRequest};
use crate::verify::{InvalidResponse, malformed};

/// A worker's shard from a revision on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The revision.
    pub revision: i64,
    /// Whether the worker must first read up to the revision. A worker that had no shard need not.
    pub waits: bool,
    /// Its shard from then on.
    pub part: ShardRequest,
    /// The part of its shard that is new to it.
    pub gains: Option<ShardRequest>,
}

/// The result of taking over a shard.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// The time from the command until nothing up to the revision was missing.
    pub waited: Duration,
    /// The time from the command until the worker held its new shard.
    pub latency: Duration,
    /// The number of objects that it listed.
    pub objects: u64,
    /// The bytes received for them.
    pub wire_bytes: u64,
    /// The objects that it held then, at that revision.
    pub held: HashMap<u64, HeldObject>,
}

impl WatchWorker {
    /// Takes over another shard. The next [`Self::read`] watches it.
    ///
    /// # Errors
    /// [`ListError`] when the watch or the list fails or violates the protocol. Waits forever if
    /// the watch does not report anything any more.
    pub async fn take_over(&mut self, change: &Change) -> Result<Taken, ListError> {
        let begun = Instant::now();
        if change.waits {
            self.read_up_to(change.revision).await?;
        }
        let waited = begun.elapsed();
        self.leave();
        self.revision = change.revision;
        let shard = &change.part.shard;
        self.held.retain(|_, held| shard.selects(held.shard_hash));
        let before = self.held.len();
        let mut wire_bytes = 0;
        if let Some(gains) = &change.gains {
            self.kube.take_part(gains.clone());
            let mut gained = Gained {
                held: &mut self.held,
                revision: change.revision,
            };
            wire_bytes = self.kube.list_exactly(change.revision, &mut gained).await?;
        }
        self.kube.take_part(change.part.clone());
        self.decoder = self.kube.decoder();
        Ok(Taken {
            waited,
            latency: begun.elapsed(),
            objects: (self.held.len() - before) as u64,
            wire_bytes,
            held: heap::handing_away(|| self.held.clone()),
        })
    }

    /// Reads until nothing up to this revision is missing. What comes after it will be received
    /// again.
    async fn read_up_to(&mut self, revision: i64) -> Result<(), ListError> {
        self.end = Some(End {
            revision,
            is_passed: false,
        });
        while self.revision < revision && self.end.is_some_and(|end| !end.is_passed) {
            self.read().await?;
        }
        self.end = None;
        Ok(())
    }
}

/// Collects the objects of a list that are new to a worker.
struct Gained<'f> {
    held: &'f mut HashMap<u64, HeldObject>,
    revision: i64,
}

impl Sink for Gained<'_> {
    fn take(&mut self, object: DecodedObject<'_>) -> Result<(), InvalidResponse> {
        if object.revision > self.revision {
            return Err(InvalidResponse::Revision {
                object: object.revision,
                list: self.revision,
            });
        }
        let (key, held) = HeldObject::of(&object)?;
        match self.held.insert(key, held) {
            None => Ok(()),
            Some(_) => Err(malformed("an object that was not asked for")),
        }
    }
}
