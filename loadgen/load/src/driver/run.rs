//! One run of small requests: its settings and its tally.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use workloads::SmallRequest;

use super::open_clock::Waiting;
use crate::arrivals::Pace;
use crate::record::{Class, Errors, LatencyHistogram, Live};

/// How long responses may take after the last request was sent.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) pace: Pace,
    pub(super) waiting: Waiting,
    pub(super) duration: Duration,
    pub(super) stop: CancellationToken,
    /// The run's counters, which others read meanwhile.
    pub(super) live: Arc<Live>,
}

/// The results of a run of small requests.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The time from the intended start (open loop) or from sending (closed loop) to the response.
    pub latency: LatencyHistogram,
    /// The time from sending to the response; only in an open loop.
    pub service: LatencyHistogram,
    /// The time from the intended start to sending; only in an open loop.
    pub lag: LatencyHistogram,
    /// The number of requests that have ended, failed ones included.
    pub requests: u64,
    /// The number of requests that failed, or had a wrong response or none.
    pub errors: u64,
    /// The number of transactions that wrote nothing because the key had changed, and were sent
    /// again. The latency of the request includes the retries.
    pub conflicts: u64,
    /// The number of responses that deferred a request (429). The request was sent again after the
    /// pause that the response asked for, and its latency includes the pause.
    pub throttled: u64,
    /// The results by kind of request, if the load is a mix.
    pub kinds: BTreeMap<SmallRequest, KindTally>,
    /// The writes to the data set, if they are kept.
    pub writes: Vec<AcknowledgedWrite>,
    /// The reasons of the errors.
    pub reasons: Errors,
    /// Set when the target fell so far behind that sending was stopped.
    pub overrun: bool,
    /// The time from the first request to the last response.
    pub elapsed: Duration,
    /// The longest time that the clock of an open loop was prevented from running.
    pub stall: Duration,
}

impl Tally {
    /// Adds another tally, except for its elapsed time and its longest stall.
    pub fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.lag.add(&other.lag);
        self.requests += other.requests;
        self.errors += other.errors;
        self.conflicts += other.conflicts;
        self.throttled += other.throttled;
        for (kind, other) in &other.kinds {
            self.kind(*kind).add(other);
        }
        self.writes.extend_from_slice(&other.writes);
        self.overrun |= other.overrun;
        self.reasons.merge(&other.reasons);
    }

    /// Returns the tally of requests of one kind.
    pub(super) fn kind(&mut self, kind: SmallRequest) -> &mut KindTally {
        self.kinds.entry(kind).or_default()
    }

    /// Returns the tally of a run that could not begin, or whose thread has ended.
    pub(super) fn broken(text: String) -> Self {
        let mut tally = Self::default();
        tally.failed(1, Class::Wrong, text);
        tally
    }

    /// Counts requests that failed for the same reason.
    pub fn failed(&mut self, count: u64, class: Class, text: String) {
        self.requests += count;
        self.errors += count;
        self.reasons.add(count, class, text);
    }
}

/// The results of the requests of one kind, in a mix.
#[derive(Debug, Clone, Default)]
pub struct KindTally {
    /// See [`Tally::latency`].
    pub latency: LatencyHistogram,
    /// See [`Tally::requests`].
    pub requests: u64,
    /// See [`Tally::errors`].
    pub errors: u64,
    /// See [`Tally::conflicts`].
    pub conflicts: u64,
}

impl KindTally {
    pub(super) fn ended(&mut self, latency: Duration) {
        self.requests += 1;
        self.latency.record(latency);
    }

    pub(super) fn failed(&mut self) {
        self.requests += 1;
        self.errors += 1;
    }

    fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.requests += other.requests;
        self.errors += other.errors;
        self.conflicts += other.conflicts;
    }
}

/// An acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedWrite {
    /// The write's revision.
    pub revision: i64,
    /// The intended start of the write.
    pub intended: Instant,
}
