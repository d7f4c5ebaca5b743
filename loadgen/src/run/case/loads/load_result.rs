//! The measurements of a load for the report, and whether they are valid.

use std::borrow::Cow;
use std::time::Duration;

use load::arrivals::Pace;
use load::driver::deliveries::Delivered;
use load::driver::lists::ListTally;
use load::driver::run::{AcknowledgedWrite, Tally};
use load::record::LatencyHistogram;
use report::result::{Load, LoadKind, Spread, WatcherSpread, WatcherTimes};
use workloads::GeneratorShard;
use workloads::scenario::LoadSpec;

use super::Share;
use crate::run::case::requests::{KEPT_ERRORS, is_saturated, stall_of, warm_up_error};
use crate::to_result;

/// The largest fraction of a quantile of an open loop that may be the generator's lateness. It is
/// larger than that of a single load (0.1 in `case/requests.rs`), since several loads share the
/// generator's CPU. The report has both bounds, the latency from the intended start and the one
/// from sending, and the true value lies between them: up to this fraction they are close enough to
/// be useful.
const MAX_LATENESS_SHARE: f64 = 0.5;
/// A target is saturated below this fraction of the rate of lists. Lists are few, so that the last
/// one alone may end late by more than the one percent that small requests are allowed.
const MIN_ACHIEVED_SHARE_OF_LISTS: f64 = 0.9;

/// The number of watchers with the highest latencies that the report names.
const SLOWEST: usize = 10;

/// The results of the requests of a load.
#[derive(Debug)]
pub(super) enum LoadResult {
    Small(Box<Tally>),
    Lists(Box<ListTally>),
    Watch(Box<Delivered>),
    /// The load could not start.
    Broken(String),
}

impl LoadResult {
    /// Returns the number of requests or lists that ended.
    pub(super) fn requests(&self) -> u64 {
        match self {
            Self::Small(tally) => tally.requests,
            Self::Lists(tally) => tally.lists,
            Self::Watch(_) | Self::Broken(_) => 0,
        }
    }

    /// Returns the most frequent error.
    pub(super) fn first_error(&self) -> Option<String> {
        self.errors().into_iter().next()
    }

    /// Returns the most frequent error that the load did not cause: a wrong response.
    pub(super) fn wrong(&self) -> Option<String> {
        match self {
            Self::Small(tally) => tally.reasons.most_wrong(),
            Self::Lists(tally) => tally.reasons.most_wrong(),
            Self::Watch(_) => None,
            Self::Broken(why) => Some(why.clone()),
        }
    }

    /// Returns the most frequent error of a warm-up; small requests may be rejected, see
    /// [`warm_up_error`].
    pub(super) fn warm_up_error(&self, pace: &Pace) -> Option<String> {
        match self {
            Self::Small(tally) => warm_up_error(tally, pace),
            _ => self.first_error(),
        }
    }

    /// Returns the most frequent error texts, in descending order.
    fn errors(&self) -> Vec<String> {
        match self {
            Self::Small(tally) => tally.reasons.most_frequent(KEPT_ERRORS),
            Self::Lists(tally) => tally.reasons.most_frequent(KEPT_ERRORS),
            Self::Watch(_) => Vec::new(),
            Self::Broken(why) => vec![why.clone()],
        }
    }

    /// Returns the writes to the data set.
    pub(super) fn writes(&self) -> &[AcknowledgedWrite] {
        match self {
            Self::Small(tally) => &tally.writes,
            Self::Lists(_) | Self::Watch(_) | Self::Broken(_) => &[],
        }
    }

    /// Returns the number of small requests that failed. Writes among them may have been applied.
    pub(super) fn failed_requests(&self) -> u64 {
        match self {
            Self::Small(tally) => tally.errors,
            Self::Lists(_) | Self::Watch(_) | Self::Broken(_) => 0,
        }
    }

    /// Returns the histograms to keep, the latency from the intended start first. A mix also has
    /// those of each kind, as `latency.KIND`.
    pub(super) fn histograms(&self) -> Vec<(Cow<'static, str>, &LatencyHistogram)> {
        let named = |name: &'static str| Cow::Borrowed(name);
        let all =
            match self {
                Self::Small(tally) => {
                    let mut all = vec![
                        (named("latency"), &tally.latency),
                        (named("service"), &tally.service),
                        (named("lag"), &tally.lag),
                    ];
                    let kinds = tally.kinds.iter();
                    all.extend(kinds.map(|(kind, tally)| {
                        (Cow::Owned(format!("latency.{kind}")), &tally.latency)
                    }));
                    all
                }
                Self::Lists(tally) => vec![
                    (named("latency"), &tally.latency),
                    (named("service"), &tally.service),
                    (named("lag"), &tally.lag),
                    (named("first_object"), &tally.first_object),
                    (named("longest_gap"), &tally.longest_gap),
                ],
                Self::Watch(delivered) => vec![
                    (named("latency"), &delivered.latency),
                    (named("cuts"), &delivered.cuts),
                ],
                Self::Broken(_) => Vec::new(),
            };
        let filled = all.into_iter().filter(|(_, times)| times.n() > 0);
        filled.collect()
    }
}

/// Returns a load's measurements, in a case that lasted `duration`.
pub(super) fn to_report(
    spec: &LoadSpec,
    share: Share,
    pace: &Pace,
    result: &LoadResult,
    duration: Duration,
) -> Load {
    let (start, stop) = spec.window(duration);
    let window = stop - start;
    let (arrivals, offered_per_s) = match pace {
        Pace::Closed { think, .. } if !think.is_zero() => {
            let think = humantime::format_duration(*think);
            (format!("closed-thinking-{think}").replace(' ', ""), None)
        }
        Pace::Closed { .. } => ("closed".to_owned(), None),
        Pace::Open(profile) => (
            profile.to_string(),
            Some(profile.mean_rate(window) * share.part),
        ),
    };
    let common = Load {
        name: spec.name.clone(),
        operation: spec.operation_text(),
        arrivals,
        keys: spec.keys.map(|keys| keys.to_string()),
        clients: share.clients,
        connections: share.connections,
        measured: spec.measured,
        window_s: [start.as_secs_f64(), stop.as_secs_f64()],
        offered_per_s,
        requests: result.requests(),
        error_samples: result.errors(),
        ..Load::default()
    };
    match result {
        LoadResult::Small(tally) => of_requests(common, tally, window),
        LoadResult::Lists(tally) => of_lists(common, tally, window),
        LoadResult::Watch(delivered) => Load {
            arrivals: "at each write".to_owned(),
            requests: delivered.writes,
            events: Some(delivered.events),
            foreign_events: delivered.foreign,
            watchers: spread(delivered, share.shard),
            cut_ms: to_result::quantiles_ms(&delivered.cuts),
            lost_streams: delivered.lost,
            relists: delivered.relists,
            missed_events: delivered.missed,
            invalid: missed(delivered),
            latency_ms: (delivered.latency.n() > 0)
                .then(|| to_result::quantiles_of_ms(&delivered.latency, delivered.writes)),
            ..common
        },
        LoadResult::Broken(_) => Load {
            errors: 1,
            ..common
        },
    }
}

fn of_requests(common: Load, tally: &Tally, window: Duration) -> Load {
    let answered = tally.requests.saturating_sub(tally.errors);
    let is_open = common.offered_per_s.is_some();
    let kinds = tally.kinds.iter().map(|(kind, tally)| LoadKind {
        operation: kind.to_string(),
        requests: tally.requests,
        errors: tally.errors,
        conflicts: tally.conflicts,
        latency_ms: to_result::quantiles_ms(&tally.latency),
    });
    let mut load = Load {
        achieved_per_s: per_second(answered, tally.elapsed, window),
        errors: tally.errors,
        refused: tally.reasons.refused,
        unanswered: tally.reasons.unanswered,
        conflicts: tally.conflicts,
        throttled: tally.throttled,
        saturated: is_open && is_saturated(tally, window),
        latency_ms: to_result::quantiles_ms(&tally.latency),
        service_ms: to_result::quantiles_ms(&tally.service),
        lag_ms: to_result::quantiles_ms(&tally.lag),
        kinds: kinds.collect(),
        ..common
    };
    load.invalid = match (tally.requests, is_open) {
        (0, _) => Some("not one request was sent in this time".to_owned()),
        (_, true) => stall_of(tally).or_else(|| late(&load)),
        (_, false) => None,
    };
    load
}

fn of_lists(common: Load, tally: &ListTally, window: Duration) -> Load {
    let answered = tally.lists.saturating_sub(tally.errors);
    let due = tally.lists as f64 / window.as_secs_f64();
    let achieved = per_second(answered, tally.elapsed, window);
    let is_open = common.offered_per_s.is_some();
    let is_behind = achieved.is_some_and(|per_s| per_s < MIN_ACHIEVED_SHARE_OF_LISTS * due);
    Load {
        achieved_per_s: achieved,
        errors: tally.errors,
        refused: tally.reasons.refused,
        unanswered: tally.reasons.unanswered,
        restarts: tally.restarts.count,
        saturated: is_open && (tally.overrun || is_behind),
        invalid: (tally.lists == 0).then(|| "not one list was begun in this time".to_owned()),
        latency_ms: to_result::quantiles_ms(&tally.latency),
        service_ms: to_result::quantiles_ms(&tally.service),
        lag_ms: to_result::quantiles_ms(&tally.lag),
        first_object_ms: to_result::quantiles_ms(&tally.first_object),
        longest_gap_ms: to_result::quantiles_ms(&tally.longest_gap),
        ..common
    }
}

/// Returns why the delivery latencies do not cover all writes; `None` if they do.
fn missed(delivered: &Delivered) -> Option<String> {
    (delivered.missed > 0).then(|| {
        format!(
            "events were compacted before watchers that had lost their stream went on: {} listed \
             again, and {} events have no time",
            delivered.relists, delivered.missed
        )
    })
}

/// Returns how latencies differ between watchers; `None` for fewer than two. Watchers are numbered
/// across all generators.
fn spread(delivered: &Delivered, shard: GeneratorShard) -> Option<WatcherSpread> {
    let watchers = delivered.watchers.iter();
    let mut watchers: Vec<WatcherTimes> = watchers
        .filter_map(|watcher| {
            let times = to_result::quantiles_ms(&watcher.latency)?;
            Some(WatcherTimes {
                number: watcher.number * shard.count() + shard.index(),
                generator: (!shard.is_whole()).then(|| shard.index()),
                p50_ms: times.p50,
                p99_ms: times.p99,
                max_ms: times.max.unwrap_or(0.0),
            })
        })
        .collect();
    if watchers.len() < 2 {
        return None;
    }
    // A quantile that some watchers lack would describe only the others.
    let of = |quantile: fn(&WatcherTimes) -> Option<f64>| {
        let all: Option<Vec<f64>> = watchers.iter().map(quantile).collect();
        Spread::of(all?)
    };
    let (p50_ms, p99_ms) = (of(|watcher| watcher.p50_ms), of(|watcher| watcher.p99_ms));
    watchers.sort_by(|a, b| b.max_ms.total_cmp(&a.max_ms));
    watchers.truncate(SLOWEST);
    Some(WatcherSpread {
        p50_ms,
        p99_ms,
        slowest: watchers,
    })
}

/// Returns a rate over the load's window, or until its last response if that came later.
fn per_second(count: u64, elapsed: Duration, window: Duration) -> Option<f64> {
    let time = elapsed.max(window);
    (!time.is_zero()).then(|| count as f64 / time.as_secs_f64())
}

/// Returns why the p99 of an open loop (or its median, if there are too few requests for a p99)
/// measures the generator rather than the target. The generator is late by the time between the
/// intended start and sending. A generator that is never late would measure a value between the
/// quantile from sending and the quantile from the intended start.
fn late(load: &Load) -> Option<String> {
    let (latency, service) = (load.latency_ms.as_ref()?, load.service_ms.as_ref()?);
    let (what, latency, service) = match (latency.p99, service.p99) {
        (Some(latency), Some(service)) => ("p99", latency, service),
        _ => ("median", latency.p50?, service.p50?),
    };
    let late = latency - service;
    (late > MAX_LATENESS_SHARE * latency).then(|| {
        format!(
            "the generator was late: {late:.3} of the {latency:.3} ms of the {what} passed before \
             requests were sent, and at most half may"
        )
    })
}

#[cfg(test)]
mod tests {
    use load::record::Class;
    use report::result::Quantiles;
    use workloads::Profile;

    use super::*;

    #[test]
    fn a_warm_up_of_a_schedule_may_be_refused_but_not_wrong() {
        let open = Pace::Open(Profile::Constant(15_000.0));
        let closed = Pace::closed(1);
        let failed = |class, text: &str| {
            let mut tally = Tally::default();
            tally.failed(3, class, text.to_owned());
            LoadResult::Small(Box::new(tally))
        };
        let refused = failed(Class::Refused, "etcdserver: too many requests");
        assert_eq!(refused.warm_up_error(&open), None);
        assert!(refused.warm_up_error(&closed).is_some());
        let wrong = failed(Class::Wrong, "another object");
        assert_eq!(
            wrong.warm_up_error(&open).as_deref(),
            Some("another object")
        );
    }

    #[test]
    fn a_late_generator_spoils_the_quantile_that_is_read() {
        let times = |p50, p99| {
            Some(Quantiles {
                p50: Some(p50),
                p99: Some(p99),
                ..Quantiles::default()
            })
        };
        let load = |latency_ms, service_ms| Load {
            latency_ms,
            service_ms,
            ..Load::default()
        };
        // The generator causes most of the median, and next to nothing of the p99.
        assert_eq!(late(&load(times(0.2, 10.0), times(0.05, 9.5))), None);
        let why = late(&load(times(0.2, 10.0), times(0.2, 4.0))).expect("more than half of it");
        assert!(why.contains("6.000 of the 10.000 ms of the p99"), "{why}");
    }
}
