//! Ratios of a target's metrics to those of the first target.
//!
//! Where there are enough starts of both servers, a ratio has a confidence interval and a verdict,
//! as `loadgen compare` computes them. With one start each, it has a range that follows from the
//! extremes within the starts.

use crate::compare::{Comparison, Interval, Metric, Options, Sides, Verdict, compare};
use crate::result::{Case, Quantiles, SavedResult, ServerStart};

use super::side_by_side::{SideBySide, Work};

/// The number of values from which on their extremes do not bound the median usefully.
const MANY_VALUES: u64 = 100;

/// The comparison of each target with the first one.
pub(super) struct Pairs {
    /// The comparisons in the order of the targets; `None` for the first one, and where nothing can
    /// be compared.
    comparisons: Vec<Option<Comparison>>,
}

/// The ratio of a target's metric to the first target's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// The ratio. Above 1, the target's value is larger.
    pub(super) ratio: f64,
    /// The range of the ratio: the 95 % confidence interval where there is a verdict, otherwise
    /// from the smallest value over the first target's largest to the reverse. `None` where the
    /// extremes are unknown or say too little.
    pub(super) ends: Option<[f64; 2]>,
    /// The verdict; `None` if there are too few starts.
    pub(super) verdict: Option<Verdict>,
}

impl Pairs {
    /// Returns the comparisons of every target with the first.
    pub(super) fn of(result: &SavedResult, cases: &SideBySide<'_>) -> Self {
        let base = cases.targets.first().copied().unwrap_or_default();
        let against = |(at, target): (usize, &&str)| {
            let sides = Sides::of_targets(std::slice::from_ref(result), base, target);
            let found = (at > 0).then(|| compare(&sides, &Options::default()));
            // Where a comparison is not permitted there is no verdict. The values are shown
            // nevertheless.
            found?.ok()
        };
        Self {
            comparisons: cases.targets.iter().enumerate().map(against).collect(),
        }
    }

    /// Returns the ratio to the first target's value, where both have a value that may be ranked.
    pub(super) fn of_metric(&self, work: &Work<'_>, target: usize, metric: Metric) -> Option<Pair> {
        if target == 0 {
            return None;
        }
        let (base, new) = (work.counted(0)?, work.counted(target)?);
        let is_of_queues = metric.is_latency() && (base.saturated || new.saturated);
        if is_of_queues {
            return None;
        }
        if let Some(pair) = self.compared(work, target, metric) {
            return Some(pair);
        }
        let floor = metric.floor(resolution(base).max(resolution(new)));
        let over = |new: f64, base: f64| (new + floor) / (base + floor);
        let ratio = over(figure(new, metric)?, figure(base, metric)?);
        let few = |case: &Case| extremes(case, metric).filter(|_| is_of_few(case, metric));
        let ends = few(base).zip(few(new));
        let ends = ends.map(|(base, new)| [over(new[0], base[1]), over(new[1], base[0])]);
        ratio.is_finite().then_some(Pair {
            ratio,
            ends: ends.filter(|ends| ends.iter().all(|end| end.is_finite())),
            verdict: None,
        })
    }

    /// Returns the verdicts on a metric of a target over all its cases.
    pub(super) fn verdicts(&self, target: usize, metric: Metric) -> Vec<Verdict> {
        let lines = self.comparisons[target].iter().flat_map(|it| &it.lines);
        lines
            .filter(|line| line.metric == metric && line.estimate.is_some_and(has_interval))
            .map(|line| line.verdict)
            .collect()
    }

    fn compared(&self, work: &Work<'_>, target: usize, metric: Metric) -> Option<Pair> {
        let label = work.label();
        let mut lines = self.comparisons[target].iter().flat_map(|it| &it.lines);
        let line = lines.find(|line| line.metric == metric && line.case == label)?;
        let estimate = line.estimate?;
        let Interval { lower, upper, .. } = estimate.interval?;
        Some(Pair {
            ratio: estimate.ratio,
            ends: Some([lower, upper]),
            verdict: Some(line.verdict),
        })
    }
}

fn has_interval(estimate: crate::compare::Estimate) -> bool {
    estimate.interval.is_some()
}

/// Returns whether the extremes bound the median usefully. Those of thousands of requests are the
/// bounds of single requests.
fn is_of_few(case: &Case, metric: Metric) -> bool {
    let values = match metric {
        Metric::P50 => case.latency_ms.as_ref(),
        Metric::FirstChunkP50 => case.first_chunk_ms.as_ref(),
        _ => None,
    };
    values.is_none_or(|values| values.n < MANY_VALUES)
}

fn resolution(case: &Case) -> Option<u64> {
    case.server.as_ref()?.rss_resolution
}

/// Returns a case's metric, computed as comparisons do for a start.
pub(super) fn figure(case: &Case, metric: Metric) -> Option<f64> {
    metric.of(&ServerStart::of(case))
}

/// Returns the smallest and the largest of the values that a case's metric summarizes.
pub(super) fn extremes(case: &Case, metric: Metric) -> Option<[f64; 2]> {
    let of_quantiles = |quantiles: &Option<Quantiles>| {
        let quantiles = quantiles.as_ref()?;
        Some([quantiles.min?, quantiles.max?])
    };
    match metric {
        Metric::P50 => of_quantiles(&case.latency_ms),
        Metric::FirstChunkP50 => of_quantiles(&case.first_chunk_ms),
        Metric::PeakMemory => {
            let peaks = case.server.iter().flat_map(|it| &it.peaks_above_idle);
            ends(peaks.map(|bytes| *bytes as f64))
        }
        Metric::ServerCpu => {
            // A round of small requests contains thousands of them.
            let is_a_list = case.requests == case.rounds.len() as u64;
            let rounds = case.rounds.iter().filter(|_| is_a_list);
            ends(rounds.filter_map(|round| round.server_cpu_ms))
        }
        _ => None,
    }
}

/// Returns the smallest and the largest value; `None` for fewer than two values or if all are 0.
fn ends(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let values: Vec<f64> = values.collect();
    let (least, most) = values.iter().fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(*value), most.max(*value)),
    );
    (values.len() > 1 && most > 0.0).then_some([least, most])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;

    fn saved(report: crate::result::Report) -> SavedResult {
        SavedResult {
            report,
            histograms: Vec::new(),
            series: Vec::new(),
            load_intervals: Vec::new(),
            scenario_toml: String::new(),
        }
    }

    #[test]
    fn of_one_start_each_a_ratio_has_extremes_and_no_verdict() {
        let report = fixture::report(&[("bench", "stream", 100.0), ("etcd", "stream", 300.0)]);
        let result = saved(report);
        let cases = SideBySide::of(&result.report);
        let pairs = Pairs::of(&result, &cases);
        let work = &cases.works[0];
        let pair = pairs.of_metric(work, 1, Metric::P50).expect("both have it");
        assert!((pair.ratio - 3.0).abs() < 1e-9 && pair.verdict.is_none());
        let [least, most] = pair.ends.expect("both have extremes");
        assert!((least - 270.0 / 110.0).abs() < 1e-9 && (most - 330.0 / 90.0).abs() < 1e-9);
        let mut many = result.clone();
        many.report.cases[1].latency_ms.as_mut().expect("it has").n = 5_000;
        let cases = SideBySide::of(&many.report);
        let pair = Pairs::of(&many, &cases).of_metric(&cases.works[0], 1, Metric::P50);
        assert_eq!(pair.expect("both have it").ends, None, "of many requests");
        assert_eq!(pairs.of_metric(work, 0, Metric::P50), None, "the base");
        assert!(pairs.verdicts(1, Metric::P50).is_empty());
    }

    #[test]
    fn of_several_starts_it_has_an_interval_and_a_verdict() {
        let mut report = fixture::report(&[("bench", "stream", 100.0), ("etcd", "stream", 300.0)]);
        for (case, ms) in report.cases.iter_mut().zip([100.0, 300.0]) {
            let start = |n: u32| ServerStart {
                pair: Some(n),
                requests: 5,
                latency_ms: Some(Quantiles {
                    n: 5,
                    p50: Some(ms + f64::from(n)),
                    ..Quantiles::default()
                }),
                ..ServerStart::default()
            };
            case.starts = (0..8).map(start).collect();
        }
        let result = saved(report);
        let cases = SideBySide::of(&result.report);
        let pairs = Pairs::of(&result, &cases);
        let pair = pairs.of_metric(&cases.works[0], 1, Metric::P50);
        let pair = pair.expect("both have starts");
        assert_eq!(pair.verdict, Some(Verdict::Worse));
        let [lower, upper] = pair.ends.expect("of eight pairs there is one");
        assert!(2.8 < lower && lower <= pair.ratio && pair.ratio <= upper && upper < 3.1);
        assert_eq!(pairs.verdicts(1, Metric::P50), [Verdict::Worse]);
    }

    #[test]
    fn memory_of_nothing_has_a_ratio_and_a_target_that_failed_has_none() {
        let mut report = fixture::report(&[("bench", "stream", 1.0), ("etcd", "stream", 9.0)]);
        if let Some(server) = &mut report.cases[0].server {
            server.peak_above_idle = 0;
        }
        let mut result = saved(report);
        let ratio = |result: &SavedResult| {
            let cases = SideBySide::of(&result.report);
            let pair = Pairs::of(result, &cases).of_metric(&cases.works[0], 1, Metric::PeakMemory);
            pair.map(|pair| pair.ratio)
        };
        assert_eq!(ratio(&result), Some(10.0), "a MiB is added to both");
        result.report.cases[1].valid = false;
        assert_eq!(ratio(&result), None);
    }

    #[test]
    fn times_of_a_target_that_does_not_keep_the_rate_have_no_ratio() {
        let mut report = fixture::report(&[("bench", "get", 1.0), ("etcd", "get", 900.0)]);
        report.cases[1].saturated = true;
        let result = saved(report);
        let cases = SideBySide::of(&result.report);
        let pairs = Pairs::of(&result, &cases);
        assert_eq!(pairs.of_metric(&cases.works[0], 1, Metric::P50), None);
        assert!(
            pairs
                .of_metric(&cases.works[0], 1, Metric::ServerCpu)
                .is_some()
        );
    }
}
