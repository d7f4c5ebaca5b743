//! Lets a lease with a key expire at the end of every run, once the other clients are done.
//!
//! A write of unknown outcome may take effect at any later time, so an abandoned delete of another
//! client explains the absence of a key as well as the lease's expiry does. Therefore, only deletes
//! of all keys include the lease's key, and such a delete would also remove a second key that has
//! no lease.

use std::sync::Arc;
use std::time::Duration;

use history::{Call, KeyRange, Outcome, RangeRequest};

use crate::client::{Client, Recorded};
use crate::lies::Lie;
use crate::random_requests::{Ask, KEYS, key};
use crate::run::{LAST_READS, Shared};

/// Pause between two reads. Together, the pauses of all [`READS`] allow for a server that was
/// killed and restarts the lease's time to live, and for etcd, which checks for expired leases
/// twice a second.
const PAUSE: Duration = Duration::from_millis(100);
const READS: usize = 200;

/// Puts a key with a lease and reads the key until it is gone. Returns the record of the requests,
/// and the reason why the run is incomplete if the key stays.
pub(crate) async fn wait(shared: Arc<Shared>, number: u32) -> (Recorded, Option<String>) {
    let mut client = Client::new(shared, number, 0);
    for nth in 0..LAST_READS {
        let kept = Ask::Put(kept_key(), format!("stays/{nth}"), 0);
        if is_acknowledged(&mut client, kept).await
            && client.grant_short().await
            && put(&mut client).await
        {
            break;
        }
    }
    let Some(lease) = client.recorded.leases.last().copied() else {
        return (client.recorded, Some("no lease was granted".to_owned()));
    };
    if client.shared.lie == Some(Lie::EarlyExpiry) {
        client.revoke_in_secret(lease.id).await;
    }
    for _ in 0..READS {
        if is_gone(&mut client).await {
            return (client.recorded, None);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let problem = format!("after {READS} reads the key of lease {lease:?} is still there");
    (client.recorded, Some(problem))
}

/// Returns the key that is deleted with the lease.
fn leased_key() -> String {
    key(KEYS)
}

/// Returns the key without a lease.
fn kept_key() -> String {
    key(KEYS + 1)
}

/// Puts the leased key with the last lease; returns whether the put was acknowledged.
async fn put(client: &mut Client) -> bool {
    let lease = client.recorded.leases.last().map_or(0, |lease| lease.id);
    let value = format!("expires/{lease}");
    is_acknowledged(client, Ask::Put(leased_key(), value, lease)).await
}

async fn is_acknowledged(client: &mut Client, ask: Ask) -> bool {
    client.perform(ask).await;
    let last = client.recorded.operations.last().map(|last| &last.call);
    matches!(last, Some(Call::Txn(_, Outcome::Done(_))))
}

async fn is_gone(client: &mut Client) -> bool {
    let range = RangeRequest {
        range: KeyRange::one(&leased_key()),
        ..RangeRequest::default()
    };
    client.perform(Ask::Range(range)).await;
    match client.recorded.operations.last().map(|last| &last.call) {
        Some(Call::Range(_, Outcome::Done(response))) => response.kvs.is_empty(),
        _ => false,
    }
}
