//! Judges a server under load by what it reports: memory, leader and slow writes in its metrics,
//! alarms in its status.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::proto::etcdserverpb::StatusRequest;
use kube_api::client::{KubeAccess, KubeError};
use measure::{MetricsPage, RemotePage};
use report::quantity::Quantity;

/// The reason of a load that is stopped because the cluster has another leader.
pub(super) const LEADER_CHANGED: &str = "the leader has changed";
/// The reason of a load that is stopped because the cluster has none.
pub(super) const NO_LEADER: &str = "the cluster has no leader";
const LEADER_CHANGES: &str = "etcd_server_leader_changes_seen_total";
const SLOW_APPLIES: &str = "etcd_server_slow_apply_total";

/// The server's resident size at the last check, and its limit.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    resident: Arc<AtomicU64>,
    /// The limit; 0 if there is none.
    most: Arc<AtomicU64>,
}

impl Memory {
    pub(super) fn allow_growth(&self, bytes: u64) {
        let now = self.resident.load(Ordering::Relaxed);
        self.most
            .store(now.saturating_add(bytes), Ordering::Relaxed);
    }

    /// Stores the current size and compares it with the limit.
    fn take(&self, resident: u64) -> Result<(), String> {
        self.resident.store(resident, Ordering::Relaxed);
        let most = self.most.load(Ordering::Relaxed);
        if most == 0 || resident <= most {
            return Ok(());
        }
        Err(format!(
            "the server's memory is {}, and {} were expected at most",
            Quantity::bytes(resident),
            Quantity::bytes(most)
        ))
    }
}

/// An endpoint whose metrics are checked.
#[derive(Debug)]
struct Endpoint {
    page: RemotePage,
    memory: Memory,
    leader_changes: Option<f64>,
    slow_applies: SlowApplies,
}

/// Counts of slow writes. A server has some without the load, too, so their rate is compared with
/// the rate before it.
#[derive(Debug, Default)]
struct SlowApplies {
    /// The times of counting, and the counts.
    counts: VecDeque<(Instant, f64)>,
    /// The number of slow writes during the baseline, and its duration; `None` until it has ended.
    before: Option<(f64, Duration)>,
}

/// The metrics of a server, or of each member of a cluster.
#[derive(Debug)]
pub struct ServerStatus {
    endpoints: Vec<Endpoint>,
    /// A client of the etcd, if it is one, for its alarms.
    etcd: Option<Client>,
}

impl ServerStatus {
    /// Reads the metrics page of each of these URLs.
    ///
    /// # Errors
    /// [`KubeError`] if one of them cannot be read; the server's state is unknown then.
    pub async fn open(
        urls: &[String],
        access: &KubeAccess,
        etcd: Option<Client>,
    ) -> Result<Self, KubeError> {
        let mut endpoints = Vec::new();
        for url in urls {
            let mut page = RemotePage::new(url, access.clone())?;
            let first = page.read().await?;
            let memory = Memory::default();
            memory.resident.store(first.rss, Ordering::Relaxed);
            endpoints.push(Endpoint {
                page,
                memory,
                leader_changes: first.counters.get(LEADER_CHANGES).copied(),
                slow_applies: SlowApplies::default(),
            });
        }
        Ok(Self { endpoints, etcd })
    }

    /// Returns the largest resident size at the last sample, in bytes.
    #[must_use]
    pub fn resident(&self) -> u64 {
        let sizes = self.endpoints.iter().map(|one| &one.memory.resident);
        let sizes = sizes.map(|size| size.load(Ordering::Relaxed));
        sizes.max().unwrap_or(0)
    }

    pub(super) fn memory(&self) -> Vec<Memory> {
        let endpoints = self.endpoints.iter();
        endpoints.map(|one| one.memory.clone()).collect()
    }

    /// Begins the baseline.
    pub(super) async fn begin(&mut self) {
        for one in &mut self.endpoints {
            if let Ok(page) = one.page.read().await {
                one.slow_applies.count(&page);
            }
        }
    }

    /// Ends the baseline.
    pub(super) async fn end_of_baseline(&mut self) -> Result<(), String> {
        self.look().await?;
        for one in &mut self.endpoints {
            one.slow_applies.end_of_baseline();
        }
        Ok(())
    }

    /// Checks the server once.
    ///
    /// # Errors
    /// One line, if the server suffers.
    pub(super) async fn look(&mut self) -> Result<(), String> {
        if let Some(client) = &self.etcd
            && let Ok(status) = client.maintenance().status(StatusRequest {}).await
            && let Some(alarm) = status.get_ref().errors.first()
        {
            return Err(format!("the server says: {}", alarm.trim_end()));
        }
        for one in &mut self.endpoints {
            one.look().await?;
        }
        Ok(())
    }
}

impl Endpoint {
    async fn look(&mut self) -> Result<(), String> {
        // If the server is too busy to respond, the small reads will show it.
        let Ok(page) = self.page.read().await else {
            return Ok(());
        };
        let changes = page.counters.get(LEADER_CHANGES).copied();
        if self.leader_changes.is_some() && changes > self.leader_changes {
            return Err(LEADER_CHANGED.to_owned());
        }
        self.slow_applies.count(&page);
        self.slow_applies.judge()?;
        self.memory.take(page.rss)
    }
}

impl SlowApplies {
    fn count(&mut self, page: &MetricsPage) {
        if let Some(count) = page.counters.get(SLOW_APPLIES) {
            self.counts.push_back((Instant::now(), *count));
        }
    }

    fn risen(&self) -> f64 {
        let first = self.counts.front().map_or(0.0, |(_, count)| *count);
        self.counts.back().map_or(0.0, |(_, count)| *count) - first
    }

    fn end_of_baseline(&mut self) {
        let (Some((first, _)), Some((last, _))) = (self.counts.front(), self.counts.back()) else {
            return;
        };
        self.before = Some((self.risen(), last.duration_since(*first)));
    }

    /// Compares the slow writes of the latest period, as long as the baseline, with those of the
    /// baseline.
    fn judge(&mut self) -> Result<(), String> {
        let Some((before, length)) = self.before else {
            return Ok(());
        };
        while let (Some((second, _)), Some((last, _))) = (self.counts.get(1), self.counts.back())
            && last.duration_since(*second) >= length
        {
            self.counts.pop_front();
        }
        let now = self.risen();
        if now <= before {
            return Ok(());
        }
        Err(format!(
            "{now} writes were slow within {} s, and {before} before the load",
            length.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_grows_beyond_what_was_expected_stops() {
        let memory = Memory::default();
        let mib = |n: u64| n << 20;
        assert_eq!(memory.take(mib(50)), Ok(()), "no limit yet");
        memory.allow_growth(mib(10));
        assert_eq!(memory.take(mib(60)), Ok(()));
        let stopped = memory.take(mib(61)).expect_err("too much");
        assert!(stopped.contains("is 61.0 MiB, and 60.0 MiB"), "{stopped}");
    }

    /// Returns the number of checks, one every two seconds with this many more slow writes each,
    /// after which the load is stopped. The load begins with the fourth check.
    fn stopped_at(more: &[u32]) -> Option<usize> {
        let begun = Instant::now();
        let mut slow = SlowApplies::default();
        let mut count = 0;
        for (nth, more) in more.iter().enumerate() {
            count += more;
            let at = begun + Duration::from_secs(2 * nth as u64);
            slow.counts.push_back((at, count.into()));
            if nth == 3 {
                slow.end_of_baseline();
            }
            if slow.judge().is_err() {
                return Some(nth);
            }
        }
        None
    }

    #[test]
    fn slow_writes_may_not_come_faster_than_before_the_load() {
        assert_eq!(stopped_at(&[7, 1, 1, 1, 1, 1, 1, 1, 1]), None);
        assert_eq!(stopped_at(&[7, 1, 1, 1, 1, 2, 1, 1, 1]), Some(5));
        assert_eq!(stopped_at(&[7, 0, 0, 0, 0, 0, 0, 1]), Some(7));
    }
}
