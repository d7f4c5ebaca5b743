//! Compares the cache with storage every five to seven and a half minutes, as k8s.io/apiserver's
//! consistency checker does.
//!
//! Both are read at one revision, and the keys and revisions of all objects are hashed. If the
//! hashes differ, past snapshots are not served until a later check finds no difference: the
//! snapshots would repeat the difference for as long as they are kept.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use etcd_api::error::Error;
use etcd_api::keys::KeyRange;
use etcd_api::kubernetes::KubernetesEtcd;
use index::Item;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Snapshot, WatchCache};
use crate::resource::object::Object;
use crate::storage::bulk_load::ListChunk;
use crate::storage::list_reader::{ListReader, StreamSupport};

/// The shortest time between two comparisons. Up to half of it is added at random, so that servers
/// that were started together do not read storage at the same time.
const PERIOD: Duration = Duration::from_secs(300);

/// The number of objects that are added to a digest before the task yields to others of its thread.
const OBJECTS_PER_TURN: u64 = 4_096;

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Different,
}

/// One 64-bit FNV-1 hash (multiply, then exclusive or) over `KEY/REVISION` of all objects.
#[derive(Debug, PartialEq, Eq)]
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, key: &[u8], mod_revision: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(mod_revision).bytes();
        for byte in key.iter().copied().chain([b'/']).chain(digits) {
            self.0 = self.0.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
        }
    }
}

impl WatchCache {
    /// Compares the cache with storage periodically, for as long as the cache runs.
    pub(super) async fn check_consistency(
        &self,
        backend: &dyn KubernetesEtcd,
        streams: &StreamSupport,
    ) {
        if !self.gates.detect_cache_inconsistency {
            return;
        }
        loop {
            let chance = RandomState::new().build_hasher().finish() % 1_000;
            sleep(PERIOD + PERIOD.mul_f64(chance as f64 / 2_000.0)).await;
            if !self.is_ready() {
                continue;
            }
            let snapshot = self.snapshot();
            let found = self.compare(&snapshot, backend, streams).await;
            let status = match &found {
                Ok(Comparison::Equal) => "success",
                Ok(Comparison::Different) => "failure",
                Err(error) => {
                    tracing::debug!(
                        "{}: cannot compare the watch cache with storage: {error}",
                        self.resource.name
                    );
                    "error"
                }
            };
            self.metrics.consistency_check(self.resource, status);
            let Ok(finding) = found else { continue };
            if finding == Comparison::Different {
                tracing::error!(
                    "{}: the watch cache differs from storage at revision {}; until a check finds no \
                     difference, lists at exact revisions are read from storage. The next initial \
                     list, as after a restart, replaces the cache",
                    self.resource.name,
                    snapshot.revision
                );
            }
            self.change(|state| {
                if state.generation != snapshot.generation {
                    return; // Another initial list has replaced the compared state.
                }
                state.inconsistent = finding == Comparison::Different;
                if state.inconsistent {
                    let snapshot = state.past_snapshot();
                    state.past_snapshots.reset(state.revision, snapshot);
                }
            });
        }
    }

    async fn compare(
        &self,
        snapshot: &Snapshot,
        backend: &dyn KubernetesEtcd,
        streams: &StreamSupport,
    ) -> Result<Comparison, Error> {
        let reader = ListReader {
            backend,
            decoder: self.decoder(),
            namespace_prefix: "",
            start: "",
            revision: snapshot.revision,
        };
        let (chunks, mut incoming) = mpsc::channel::<ListChunk>(1);
        let digest = async {
            let mut stored = Digest::new();
            while let Some(chunk) = incoming.recv().await {
                chunk.each(|key, value, mod_revision| {
                    let key = reader.decoder.relative_key(key);
                    // Values that do not decode are not in the cache. That is not a difference.
                    if Object::is_readable(self.resource, value) {
                        stored.add(key, mod_revision);
                    }
                })?;
            }
            Ok(stored)
        };
        let (_, stored) = tokio::try_join!(reader.each(streams, chunks), digest)?;
        Ok(match stored == cached(snapshot).await {
            true => Comparison::Equal,
            false => Comparison::Different,
        })
    }
}

async fn cached(snapshot: &Snapshot) -> Digest {
    let mut digest = Digest::new();
    let mut iter = snapshot.tree.cursor(KeyRange::From(b""));
    while let Some(object) = iter.next_ref() {
        digest.add(Item::key(object), object.mod_revision());
        if iter.remaining().is_multiple_of(OBJECTS_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv_1_and_not_1a() {
        let mut digest = Digest::new();
        digest.add(b"", 7);
        // FNV-1 64 of "/7", by its definition.
        let step = |hash: u64, byte: u8| hash.wrapping_mul(1_099_511_628_211) ^ u64::from(byte);
        let expected = step(step(14_695_981_039_346_656_037, b'/'), b'7');
        assert_eq!(digest, Digest(expected));
        let mut other = Digest::new();
        other.add(b"a", 7);
        assert_ne!(digest, other);
    }
}
