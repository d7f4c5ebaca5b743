//! Compaction as an apiserver does it: one of those that share a storage compacts it, each interval, to the
//! revision of an interval ago.
//!
//! They agree through one key, `compact_rev_key`, that everybody tries to write at every turn if it still is
//! what they saw at their last one: who succeeds compacts, the others take note of the new state. An
//! apiserver compares the key's version where this compares its revision; both change with every write and
//! with nothing else, so the two may share a storage.

use std::sync::Arc;
use std::time::Duration;

use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{KubernetesEtcd, PutOptions};
use tokio::time::sleep;

/// The key, outside of every registry prefix. It holds the revision that was compacted to.
const KEY: &[u8] = b"compact_rev_key";

/// An apiserver's own interval.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);

/// Compacts `backend` for ever, once each `interval` in turn with others.
pub(crate) async fn run(backend: Arc<dyn KubernetesEtcd>, interval: Duration) {
    let mut compactor = Compactor::default();
    loop {
        sleep(interval).await;
        match compactor.try_compact(&*backend).await {
            Ok(Some(revision)) => tracing::info!("compacted to revision {revision}"),
            Ok(None) => {}
            Err(error) => tracing::warn!("compaction: {error}"),
        }
    }
}

/// What was seen at the last turn.
#[derive(Debug, Default)]
struct Compactor {
    /// Revision of the key; 0 when it was not there.
    key_revision: i64,
    /// Revision of storage; 0 before the first turn.
    revision: i64,
}

impl Compactor {
    /// Tries to take the turn; answers the revision that was compacted to, if any.
    async fn try_compact(&mut self, backend: &dyn KubernetesEtcd) -> Result<Option<i64>, Error> {
        let options = PutOptions {
            get_on_failure: true,
            ..PutOptions::default()
        };
        let value = self.revision.to_string().into();
        let put = backend
            .optimistic_put(KEY, value, self.key_revision, options)
            .await?;
        let target = std::mem::replace(&mut self.revision, put.revision);
        if !put.succeeded {
            self.key_revision = put.kv.map_or(0, |kv| kv.mod_revision);
            return Ok(None);
        }
        self.key_revision = put.revision;
        if target == 0 {
            return Ok(None);
        }
        match backend.compact(target).await {
            // Somebody compacted by hand.
            Err(Error::Refused(Refusal::Compacted)) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Ok(Some(target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use etcd_api::kubernetes::GetOptions;

    use super::*;
    use crate::tests::fake::FakeEtcd;

    #[tokio::test]
    async fn one_of_two_compacts_at_each_turn() {
        let backend = FakeEtcd::default();
        let write = |key: &'static [u8]| {
            let backend = backend.clone();
            async move {
                let put = backend.optimistic_put(key, "v".into(), 0, PutOptions::default());
                put.await.expect("written").revision
            }
        };
        let (mut one, mut other) = (Compactor::default(), Compactor::default());
        write(b"/registry/pods/a/a").await;
        let first = one.try_compact(&backend).await.expect("a turn");
        assert_eq!(first, None, "there is no revision of an interval ago yet");
        assert_eq!(
            other.try_compact(&backend).await.expect("a turn"),
            None,
            "the key is taken"
        );
        let then = one.revision;
        assert_eq!(other.revision, then);

        write(b"/registry/pods/a/b").await;
        assert_eq!(
            other.try_compact(&backend).await.expect("a turn"),
            Some(then)
        );
        assert_eq!(
            one.try_compact(&backend).await.expect("a turn"),
            None,
            "lost this turn"
        );
        assert_eq!(backend.compacted_revision().await.expect("known"), then);
        let key = backend
            .get(KEY, GetOptions::default())
            .await
            .expect("read")
            .kv;
        assert_eq!(key.expect("there").value, then.to_string().as_bytes());

        let later = one.revision;
        assert_eq!(
            one.try_compact(&backend).await.expect("a turn"),
            Some(later),
            "and wins the next"
        );
        backend.compact(one.revision).await.expect("compacts");
        assert_eq!(
            one.try_compact(&backend)
                .await
                .expect("by hand is no error"),
            None
        );
    }
}
