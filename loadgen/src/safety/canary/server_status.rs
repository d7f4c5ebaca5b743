//! What a server says of itself while it is under load: memory, leader, slow writes, alarms.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::proto::etcdserverpb::StatusRequest;
use kube_api::client::{KubeAccess, KubeError};
use measure::{MetricsPage, RemotePage};
use report::quantity::Quantity;

const LEADER_CHANGES: &str = "etcd_server_leader_changes_seen_total";
const SLOW_APPLIES: &str = "etcd_server_slow_apply_total";

/// The server's memory: what it was at the last look, and what it may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    resident: Arc<AtomicU64>,
    /// 0 while there is no limit.
    most: Arc<AtomicU64>,
}

impl Memory {
    pub(super) fn allow_growth(&self, bytes: u64) {
        let now = self.resident.load(Ordering::Relaxed);
        self.most
            .store(now.saturating_add(bytes), Ordering::Relaxed);
    }

    /// Takes a look's size.
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

/// One endpoint that is looked at.
#[derive(Debug)]
struct Endpoint {
    page: RemotePage,
    memory: Memory,
    leader_changes: Option<f64>,
    slow_applies: SlowApplies,
}

/// Slow writes, which a server has without us, too: they may not come faster than they came before
/// the load.
#[derive(Debug, Default)]
struct SlowApplies {
    /// When they were counted, and how many there were.
    counts: VecDeque<(Instant, f64)>,
    /// How many came during the baseline, and how long that was; `None` until it is over.
    before: Option<(f64, Duration)>,
}

/// What a server, or each member of a cluster, says of itself.
#[derive(Debug)]
pub struct ServerStatus {
    endpoints: Vec<Endpoint>,
    /// An etcd, which also tells its alarms.
    etcd: Option<Client>,
}

impl ServerStatus {
    /// Opens the metrics page of each of these URLs.
    ///
    /// # Errors
    /// [`KubeError`] when one of them cannot be had; then nobody knows how the server is.
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

    /// Returns the resident size of the largest at the last sample, bytes.
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

    /// Looks once.
    ///
    /// # Errors
    /// In one line, where the server suffers.
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
        // Whether it is too busy to tell, the small reads know better.
        let Ok(page) = self.page.read().await else {
            return Ok(());
        };
        let changes = page.counters.get(LEADER_CHANGES).copied();
        if self.leader_changes.is_some() && changes > self.leader_changes {
            return Err("the leader has changed".to_owned());
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

    /// Holds the last stretch, as long as the baseline, against that.
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

    /// One look every two seconds, so many slow writes more at each: after how many looks the load
    /// is stopped, which begins with the fourth.
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
