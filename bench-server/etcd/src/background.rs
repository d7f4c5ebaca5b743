//! Background tasks of the store: expires leases and compacts history.

use std::sync::Arc;
use std::time::Duration;

use store::Store;
use store::compaction::{AutoCompaction, Retention};
use tokio::time::MissedTickBehavior;

use super::Node;
use super::flags::{CompactionMode, EtcdFlags};

/// Time between scans for expired leases, as in etcd.
const LEASE_SCAN: Duration = Duration::from_millis(500);

/// Returns the current time for leases and compaction, from tokio's clock, which tests can pause.
pub fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

/// Revokes leases as they expire. Never returns.
pub async fn expire_leases(store: Store) {
    let mut tick = tokio::time::interval(LEASE_SCAN);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let revoked = store.lease_expire(now());
        if revoked > 0 {
            tracing::debug!("{revoked} leases expired");
        }
    }
}

/// Compacts by `retention`. Never returns.
pub async fn compact(node: Arc<Node>, retention: Retention) {
    let mut compaction = AutoCompaction::new(retention);
    let first = tokio::time::Instant::now() + compaction.first_tick();
    let mut tick = tokio::time::interval_at(first, compaction.interval());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(revision) = compaction.tick(now(), node.store.revision()) else {
            continue;
        };
        let store = node.store.clone();
        // Freeing a long history takes time, and this runtime accepts connections.
        match tokio::task::spawn_blocking(move || store.compact(revision)).await {
            Ok(Ok(_)) => tracing::info!("compacted at revision {revision}"),
            // A client has compacted to a later revision.
            Ok(Err(e)) => tracing::debug!("compaction at revision {revision}: {e}"),
            Err(e) => tracing::error!("compaction at revision {revision} failed: {e}"),
        }
    }
}

/// Returns the retention from `--auto-compaction-mode` and `--auto-compaction-retention`; `None` if
/// automatic compaction is off.
///
/// # Errors
/// A message with the expected format.
pub fn retention(flags: &EtcdFlags) -> Result<Option<Retention>, String> {
    let text = flags.auto_compaction_retention.as_str();
    let number = text.parse::<u32>();
    match flags.auto_compaction_mode {
        _ if number == Ok(0) => Ok(None),
        CompactionMode::Revision => match number {
            Ok(kept) => Ok(Some(Retention::Revisions(i64::from(kept)))),
            Err(_) => Err(format!("{text:?} is not a number of revisions")),
        },
        CompactionMode::Periodic => match number {
            Ok(hours) => Ok(Some(Duration::from_secs(u64::from(hours) * 3600))),
            Err(_) => humantime::parse_duration(text)
                .map(Some)
                .map_err(|e| format!("{text:?} is neither a number of hours nor a duration ({e})")),
        }
        .map(|span| span.filter(|s| !s.is_zero()).map(Retention::Time)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::Flags;

    fn read(arguments: &[&str]) -> Result<Option<Retention>, String> {
        let flags = Flags::parse_from([&["bench-server"], arguments].concat());
        retention(&flags.etcd)
    }

    #[test]
    fn retention_is_parsed_as_by_etcd() {
        let by = |mode, text| {
            read(&[
                "--auto-compaction-mode",
                mode,
                "--auto-compaction-retention",
                text,
            ])
        };
        assert_eq!(read(&[]), Ok(None));
        let hour = Duration::from_secs(3600);
        assert_eq!(by("periodic", "1"), Ok(Some(Retention::Time(hour))));
        let minutes = Duration::from_secs(300);
        assert_eq!(by("periodic", "5m"), Ok(Some(Retention::Time(minutes))));
        assert_eq!(by("periodic", "0s"), Ok(None));
        assert_eq!(by("revision", "1000"), Ok(Some(Retention::Revisions(1000))));
        assert!(by("revision", "5m").unwrap_err().contains("5m"));
        assert!(by("periodic", "soon").unwrap_err().contains("soon"));
    }
}
