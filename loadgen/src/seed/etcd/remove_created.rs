//! Removes the keys that loads created beside a data set, on an etcd that continues to run.

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::{Error as EtcdError, Refusal};
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, LeaseRevokeRequest, RangeRequest};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::NotUnseeded;
use crate::timeouts::in_time;

/// The number of keys of a page.
const PAGE: i64 = 1_000;
/// The number of concurrent requests.
const CONCURRENT_DELETES: usize = 32;
/// The fewest digits of the number at the end of a key.
const DIGITS: usize = 10;

/// Deletes the keys that loads created below `root`, key by key, so that no other key there is
/// deleted. Then lists them once more, since a create without a response may be executed after its
/// delete. Returns the number of deleted keys.
///
/// # Errors
/// The first error, or request without a response within 30 s; [`NotUnseeded::Left`] if such keys
/// still exist.
pub async fn remove_created(config: &ClientConfig, root: &str) -> Result<u64, NotUnseeded> {
    let client = in_time(Client::connect(config.clone())).await?;
    let mut removed = 0;
    for _ in 0..2 {
        let ours = made(&client, root).await?;
        removed += ours.len() as u64;
        delete(&client, ours).await?;
    }
    match made(&client, root).await? {
        left if left.is_empty() => Ok(removed),
        left => Err(NotUnseeded::Left(left)),
    }
}

/// Revokes leases. A lease that does not exist any more is not an error.
///
/// # Errors
/// The first error, or request without a response within 30 s.
pub async fn revoke(config: &ClientConfig, leases: Vec<i64>) -> Result<(), EtcdError> {
    if leases.is_empty() {
        return Ok(());
    }
    let client = in_time(Client::connect(config.clone())).await?;
    let revoked = leases.into_iter().map(async |id| {
        let mut lease = client.lease();
        let request = lease.lease_revoke(LeaseRevokeRequest { id });
        match in_time(request).await {
            Ok(_) | Err(EtcdError::Refused(Refusal::LeaseNotFound)) => Ok(()),
            Err(error) => Err(error),
        }
    });
    stream::iter(revoked)
        .buffer_unordered(CONCURRENT_DELETES)
        .try_collect()
        .await
}

/// Returns the keys below `root` whose names have the form of those that loads create.
async fn made(client: &Client, root: &str) -> Result<Vec<Bytes>, EtcdError> {
    let end = prefix_end(root.as_bytes());
    let mut next = root.as_bytes().to_vec();
    let mut ours = Vec::new();
    loop {
        let page = RangeRequest {
            key: next.clone().into(),
            range_end: end.clone().into(),
            limit: PAGE,
            keys_only: true,
            ..RangeRequest::default()
        };
        let page = in_time(client.kv().range(page)).await?.into_inner();
        let Some(last) = page.kvs.last() else {
            return Ok(ours);
        };
        next = last.key.to_vec();
        next.push(0);
        let keys = page.kvs.into_iter().map(|kv| kv.key);
        ours.extend(keys.filter(|key| is_of_a_load(key, root)));
        if !page.more {
            return Ok(ours);
        }
    }
}

/// Returns whether a key has the form `ROOT…/CONNECTION/NUMBER`.
fn is_of_a_load(key: &[u8], root: &str) -> bool {
    let mut parts = key
        .strip_prefix(root.as_bytes())
        .unwrap_or_default()
        .rsplit(|byte| *byte == b'/');
    let (number, connection) = (parts.next(), parts.next());
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    number.is_some_and(|number| number.len() >= DIGITS && is_number(number))
        && connection.is_some_and(is_number)
        && parts.next().is_some()
}

async fn delete(client: &Client, keys: Vec<Bytes>) -> Result<(), EtcdError> {
    let deleted = keys.into_iter().map(async |key| {
        let request = DeleteRangeRequest {
            key,
            ..DeleteRangeRequest::default()
        };
        in_time(client.kv().delete_range(request)).await.map(drop)
    });
    stream::iter(deleted)
        .buffer_unordered(CONCURRENT_DELETES)
        .try_collect()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_named_as_those_of_loads_are_ours() {
        let root = "/loadgen/run/few/created/";
        for ours in ["case/load/0/0000000003", "case/load/17/12345678901"] {
            assert!(
                is_of_a_load(format!("{root}{ours}").as_bytes(), root),
                "{ours}"
            );
        }
        for theirs in [
            "",
            "case",
            "0/0000000003",
            "case/load/0/3",
            "case/load/a/0000000003",
            "case/load/0/000000000x",
            "case/load/0/0000000003/more",
        ] {
            let key = format!("{root}{theirs}");
            assert!(!is_of_a_load(key.as_bytes(), root), "{theirs}");
        }
        assert!(!is_of_a_load(b"/other/case/load/0/0000000003", root));
    }
}
