//! Compacts storage as kube-apiserver does: at each interval, one of the servers that share the
//! storage compacts it to its revision of one interval ago.
//!
//! The servers coordinate through one key, [`COMPACT_REV_KEY`]. Each tries to write the key on the
//! condition that it has not changed for one interval. The server that succeeds compacts; the
//! others remember the new revision of the key. The condition of kube-apiserver is on the key's
//! version, the condition here is on its revision. Both change with every write and only then, so
//! both kinds of server can share a storage.

use std::sync::Arc;
use std::time::Duration;

use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{COMPACT_REV_KEY, KubernetesEtcd, PutOptions};
use tokio::time::sleep;

/// The interval of kube-apiserver.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);

/// Compacts `backend` at each `interval`, unless another server has. Never returns.
pub(crate) async fn run(backend: Arc<dyn KubernetesEtcd>, interval: Duration) {
    let mut compactor = Compactor::default();
    loop {
        sleep(interval).await;
        match compactor.try_compact(&*backend).await {
            Ok(Some(revision)) => tracing::info!("compacted storage to revision {revision}"),
            Ok(None) => {}
            Err(error) => tracing::warn!(
                "compacting storage failed, trying again after the interval: {error}"
            ),
        }
    }
}

/// The state that this server remembers from the last interval.
#[derive(Debug, Default)]
struct Compactor {
    /// The revision of the key; 0 if it did not exist.
    key_revision: i64,
    /// The revision of storage; 0 before the first interval.
    revision: i64,
}

impl Compactor {
    /// Compacts storage if no other server has written the key. Returns the revision to which this
    /// server has compacted, if it has.
    async fn try_compact(&mut self, backend: &dyn KubernetesEtcd) -> Result<Option<i64>, Error> {
        let options = PutOptions {
            get_on_failure: true,
            ..PutOptions::default()
        };
        let value = self.revision.to_string().into();
        let put = backend
            .optimistic_put(COMPACT_REV_KEY, value, self.key_revision, options)
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
            // Another client has compacted, for example etcdctl.
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
            .get(COMPACT_REV_KEY, GetOptions::default())
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
