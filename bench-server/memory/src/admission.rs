//! Limits the memory of responses that are buffered whole before their first byte is sent.
//!
//! A few large responses at once could use all memory of a machine. Each must therefore be admitted
//! with its size, which it holds until its last byte is passed to its connection. Requests wait for
//! memory in the order of their arrival and are rejected after a timeout. Responses that are
//! encoded while being sent need no admission, because they hold only their frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::metrics::{counter, gauge};
use crate::room::{Room, UNIT_BYTES, WAIT_TIMEOUT};

/// Maximum number of concurrent scans of many keys per core. Others wait; cancelled requests leave
/// the queue.
const SCANS_PER_CORE: usize = 2;

/// The memory limit of one tier; cheap to clone.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    room: Room,
    scans: Arc<Semaphore>,
    refused: AtomicU64,
}

/// Memory admitted for a response; released when dropped.
#[derive(Debug)]
pub struct Admitted(OwnedSemaphorePermit);

impl Admitted {
    /// Releases the memory beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let kept = usize::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(usize::MAX);
        let surplus = self.0.num_permits().saturating_sub(kept);
        drop(self.0.split(surplus));
    }
}

/// The memory of a response whose size is known only when all of it has arrived.
#[derive(Debug)]
pub struct Growing {
    admission: Admission,
    admitted: Option<Admitted>,
    bytes: u64,
    /// The time for which it may still wait. A time limit for each part would let a response of
    /// many parts wait for minutes.
    wait: Duration,
}

impl Growing {
    /// Returns the bytes that it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the admitted memory to `bytes`: waits for more, but never for more than the limit,
    /// or releases the excess. Two growing responses may wait for each other until one is rejected.
    ///
    /// # Errors
    /// [`Busy`] when all waits of this response together reach the timeout.
    pub async fn resize(&mut self, bytes: u64) -> Result<(), Busy> {
        match (&mut self.admitted, bytes.checked_sub(self.bytes)) {
            (_, Some(0)) => {}
            (_, Some(missing)) => self.extend(missing).await?,
            (Some(admitted), None) => admitted.shrink_to(bytes),
            (None, None) => unreachable!("bytes are admitted"),
        }
        self.bytes = bytes;
        Ok(())
    }

    async fn extend(&mut self, bytes: u64) -> Result<(), Busy> {
        let room = &self.admission.0.room;
        let held = self
            .admitted
            .as_ref()
            .map_or(0, |held| held.0.num_permits());
        let left = room.units_of(u64::MAX).saturating_sub(held as u32);
        let units = room.units_of(bytes).min(left);
        let begun = Instant::now();
        let more = self.admission.take(units, self.wait).await;
        self.wait = self.wait.saturating_sub(begun.elapsed());
        let more = more?;
        match &mut self.admitted {
            Some(held) => held.0.merge(more.0),
            None => self.admitted = Some(more),
        }
        Ok(())
    }

    /// Returns the memory, to be held until the response is sent.
    pub fn into_admitted(self) -> Option<Admitted> {
        self.admitted
    }
}

/// The error when no memory was free in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for the response within {} s", WAIT_TIMEOUT.as_secs())]
pub struct Busy;

impl Admission {
    /// Returns a limit of `bytes` for all responses.
    pub fn new(bytes: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Shared {
            room: Room::new(bytes),
            scans: Arc::new(Semaphore::new(SCANS_PER_CORE * cores)),
            refused: AtomicU64::new(0),
        }))
    }

    /// Waits for memory for a response of `bytes`. A response larger than the limit takes all of
    /// it.
    ///
    /// # Errors
    /// [`Busy`] after the timeout.
    pub async fn admit(&self, bytes: u64) -> Result<Admitted, Busy> {
        self.take(self.0.room.units_of(bytes), WAIT_TIMEOUT).await
    }

    /// Waits for memory like [`Self::admit`], but without a timeout: for the response of a
    /// completed write, which cannot be rejected.
    pub async fn admit_eventually(&self, bytes: u64) -> Admitted {
        let room = self.0.room.clone();
        let units = room.units_of(bytes);
        Admitted(room.take(units).await)
    }

    /// Returns no memory yet, for a response of unknown size.
    pub fn growing(&self) -> Growing {
        Growing {
            admission: self.clone(),
            admitted: None,
            bytes: 0,
            wait: WAIT_TIMEOUT,
        }
    }

    async fn take(&self, units: u32, wait: Duration) -> Result<Admitted, Busy> {
        let shared = &self.0;
        match timeout(wait, shared.room.clone().take(units)).await {
            Ok(permit) => Ok(Admitted(permit)),
            Err(_) => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
                Err(Busy)
            }
        }
    }

    /// Waits for permission to scan many keys. The scan must hold the returned permit, since it
    /// continues when its request is cancelled.
    pub async fn admit_scan(&self) -> impl Send + 'static + use<> {
        let scan = self.0.scans.clone().acquire_owned().await;
        scan.unwrap_or_else(|_| unreachable!("the semaphore is never closed"))
    }

    /// Returns a collector of its metrics.
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(AdmissionCollector(self.clone()))
    }
}

#[derive(Debug)]
struct AdmissionCollector(Admission);

impl Collector for AdmissionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let shared = &self.0.0;
        let e = &mut encoder;
        gauge(
            e,
            "bench_server_buffered_response_bytes",
            "Bytes of responses that were gathered as a whole and are not sent yet",
            shared.room.taken_bytes() as i64,
        )?;
        gauge(
            e,
            "bench_server_buffered_response_limit_bytes",
            "Bytes that they may hold",
            shared.room.limit_bytes() as i64,
        )?;
        counter(
            e,
            "bench_server_buffered_responses_refused",
            "Responses for which there was no room in time",
            shared.refused.load(Ordering::Relaxed) as f64,
        )
    }
}

/// Returns a quarter of the memory that this process may use: that of the machine, or of its
/// control group if that is less.
pub fn quarter_of_memory() -> u64 {
    /// Assumed when the machine's memory is unknown.
    const UNKNOWN: u64 = 4 << 30;
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:"))?;
            let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
            Some(kib * 1024)
        });
    machine.unwrap_or(UNKNOWN).min(group_limit()) / 4
}

/// Returns the lowest limit of the process's control group and its ancestors, of cgroup v1 and v2.
fn group_limit() -> u64 {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut least = u64::MAX;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the path may be the host's; the root is then the container's own group.
        let path = std::path::Path::new(path.trim_start_matches('/'));
        for group in path.ancestors() {
            let text = std::fs::read_to_string(std::path::Path::new(root).join(group).join(file));
            let limit = text.ok().and_then(|text| text.trim().parse().ok());
            least = least.min(limit.unwrap_or(u64::MAX));
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_is_admitted_in_order_and_rejected_after_the_timeout() {
        let admission = Admission::new(100 * UNIT_BYTES);
        let first = admission
            .admit(60 * UNIT_BYTES)
            .await
            .expect("there is room");
        let mut large = Box::pin(admission.admit(1 << 40));
        assert!((&mut large).now_or_never().is_none(), "it needs all of it");
        let behind = admission.admit(1);
        tokio::pin!(behind);
        assert!((&mut behind).now_or_never().is_none(), "it came later");
        drop(first);
        let large = large.await.expect("all of it is free");
        let begun = Instant::now();
        assert_eq!(behind.await.expect_err("nothing is free"), Busy);
        assert_eq!(begun.elapsed(), WAIT_TIMEOUT);
        drop(large);
        assert!(admission.admit(100 * UNIT_BYTES).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_of_unknown_size_never_waits_for_itself() {
        let admission = Admission::new(10 * UNIT_BYTES);
        let mut growing = admission.growing();
        for parts in 1..=5 {
            let grown = growing.resize(parts * 4 * UNIT_BYTES).now_or_never();
            assert_eq!(grown, Some(Ok(())));
        }
        assert_eq!(admission.admit(1).await.expect_err("it has all"), Busy);
        let shrunk = growing.resize(9 * UNIT_BYTES - 1).now_or_never();
        assert_eq!(shrunk, Some(Ok(())));
        assert!(admission.admit(UNIT_BYTES).now_or_never().is_some());
        assert!(admission.admit(2 * UNIT_BYTES).now_or_never().is_none());
        drop(growing);
        assert!(admission.admit(1).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_waits_for_all_parts_of_a_response_share_one_timeout() {
        let admission = Admission::new(10 * UNIT_BYTES);
        let first = admission.admit(10 * UNIT_BYTES).await.expect("it is free");
        let mut growing = admission.growing();
        let begun = Instant::now();
        let free = async {
            tokio::time::sleep(WAIT_TIMEOUT * 2 / 3).await;
            drop(first);
        };
        let (grown, ()) = tokio::join!(growing.resize(UNIT_BYTES), free);
        assert_eq!(grown, Ok(()));
        let _all_else = admission.admit(9 * UNIT_BYTES).await.expect("it is free");
        let refused = growing.resize(2 * UNIT_BYTES).await;
        assert_eq!(refused, Err(Busy));
        assert_eq!(begun.elapsed(), WAIT_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_cancelled_leaves_the_queue() {
        let admission = Admission::new(10 * UNIT_BYTES);
        let first = admission
            .admit(10 * UNIT_BYTES)
            .await
            .expect("there is room");
        assert!(admission.admit(1).now_or_never().is_none(), "cancelled");
        drop(first);
        assert!(admission.admit(10 * UNIT_BYTES).now_or_never().is_some());
    }

    #[test]
    fn a_quarter_of_memory_is_some() {
        assert!((16 << 20..1 << 50).contains(&quarter_of_memory()));
    }
}
