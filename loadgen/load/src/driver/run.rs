//! One run of small requests: what was ordered, and what it came to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use workloads::SmallRequest;

use super::open_clock::Waiting;
use crate::arrivals::Pace;
use crate::record::{Class, Errors, LatencyHistogram, Live};

/// How long answers may take after the last request was sent.
pub(super) const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// What was ordered.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) pace: Pace,
    pub(super) waiting: Waiting,
    pub(super) duration: Duration,
    pub(super) stop: CancellationToken,
    /// Counts of it that others read meanwhile.
    pub(super) live: Arc<Live>,
}

/// What a run of small requests came to.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// From the intended start (open loop) or from sending (closed loop) to the answer.
    pub latency: LatencyHistogram,
    /// From sending to the answer; only in an open loop.
    pub service: LatencyHistogram,
    /// From the intended start to sending; only in an open loop.
    pub lag: LatencyHistogram,
    /// Requests that have ended.
    pub requests: u64,
    /// Requests that failed, were answered wrongly, or not at all.
    pub errors: u64,
    /// Transactions that wrote nothing, since the key had changed, and were sent again: the time of
    /// the request goes on.
    pub conflicts: u64,
    /// Responses that put a request off (429): it was sent again after the pause that they ask for,
    /// and its time went on.
    pub throttled: u64,
    /// Each kind by itself, where the load is a mix.
    pub kinds: BTreeMap<SmallRequest, KindTally>,
    /// What was written to the data set, where that is kept.
    pub writes: Vec<Written>,
    /// Their reasons.
    pub reasons: Errors,
    /// Set when the target fell so far behind that sending was given up.
    pub overrun: bool,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// The longest time that the clock of an open loop was kept from running.
    pub stall: Duration,
}

impl Tally {
    /// Adds what others came to; not their time nor their longest stall.
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

    /// Returns what is counted of requests of one kind.
    pub(super) fn kind(&mut self, kind: SmallRequest) -> &mut KindTally {
        self.kinds.entry(kind).or_default()
    }

    /// Returns the tally of a run that could not begin, or whose thread is gone.
    pub(super) fn broken(text: String) -> Self {
        let mut tally = Self::default();
        tally.failed(1, Class::Wrong, text);
        tally
    }

    /// Counts requests that failed, for one reason.
    pub fn failed(&mut self, count: u64, class: Class, text: String) {
        self.requests += count;
        self.errors += count;
        self.reasons.add(count, class, text);
    }
}

/// What the requests of one kind came to, in a mix.
#[derive(Debug, Clone, Default)]
pub struct KindTally {
    /// As [`Tally::latency`].
    pub latency: LatencyHistogram,
    /// As [`Tally::requests`].
    pub requests: u64,
    /// As [`Tally::errors`].
    pub errors: u64,
    /// As [`Tally::conflicts`].
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

/// A write that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Its revision.
    pub revision: i64,
    /// When it was to be sent.
    pub intended: Instant,
}
