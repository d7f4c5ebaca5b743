//! Entries that push a data set out of etcd's raft log.
//!
//! Seeding ends with as many entries of one object as etcd keeps of its log in memory ([`ONE_BY_ONE`] says why). A data set
//! of fewer objects would stay there whole. In production it is behind millions of entries, so here entries without an effect
//! follow it.

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::DeleteRangeRequest;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::seed::etcd::ONE_BY_ONE;

/// Requests at the same time.
const AT_ONCE: usize = 200;
/// A key that nothing is stored at. Deleting it is an entry of the log and no revision.
const NO_KEY: &[u8] = b"\0loadgen/no-key";

/// Writes what is missing of [`ONE_BY_ONE`] entries to a server that was seeded with so many objects. Takes a second or two.
///
/// # Errors
/// The first request's that fails.
pub(super) async fn outrun(config: &ClientConfig, objects: u64) -> Result<(), EtcdError> {
    let client = Client::connect(config.clone()).await?;
    stream::iter(objects..ONE_BY_ONE)
        .map(|_| async {
            let mut kv = client.kv();
            let request = DeleteRangeRequest {
                key: NO_KEY.into(),
                ..DeleteRangeRequest::default()
            };
            kv.delete_range(request).await.map(drop)
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
        .map_err(EtcdError::from)
}
