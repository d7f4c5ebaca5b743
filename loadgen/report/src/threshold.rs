//! Evaluates a scenario's thresholds against a run's cases: the value, the limit, whether it is
//! met, and the values of the other targets.

use serde::de::DeserializeOwned;
use serde_json::Value;
use workloads::{Scenario, ThresholdSpec};

use crate::compare::Metric;
use crate::quantity::Quantity;
use crate::result::{Case, OtherTarget, Outcome, Report, Threshold, targets_of};

/// The published schema, which defines the fields of a case and so the metrics that a threshold may
/// name.
const SCHEMA: &str = include_str!("../schema/report.schema.json");

/// The ending of the path of a median. The smallest and the largest value are its siblings.
const MEDIAN: &str = ".p50";

/// The name of a confidence interval. That of a median is its sibling; that of another metric has
/// the metric's name with this appended.
const LIKELY: &str = "likely";

/// The metrics of a server's peak memory.
const PEAKS: [&str; 3] = [
    "server.peak_above_idle",
    "server.peak_per_listed_byte",
    "server.rss_peak",
];

/// The growth of memory of a server, or of one of its processes, and the path of its resolution.
const ABOVE_IDLE: &str = "peak_above_idle";
const RESOLUTION: &str = "server.rss_resolution";

/// The prefix of the generator's own metrics, which are also valid for cases that do not count.
const OWN_METRICS: &str = "client.";

/// Evaluates every threshold of a scenario for the first target that has a case. The values of the
/// other targets are included. Thresholds apply only to objects that loadgen generated, not to
/// existing data.
#[must_use]
pub fn judge(scenario: &Scenario, report: &Report) -> Vec<Threshold> {
    let is_generated = |name: &str| {
        let mut named = report.data_sets.iter().filter(|set| set.name == name);
        named.any(|set| set.seed.is_some())
    };
    scenario
        .thresholds
        .iter()
        .filter(|spec| is_generated(spec.data_set(scenario)))
        .map(|spec| judged(spec, spec.data_set(scenario), &report.cases))
        .collect()
}

fn judged(spec: &ThresholdSpec, data_set: &str, cases: &[Case]) -> Threshold {
    let found = ThresholdCases::new(spec, cases);
    let target = found.targets.first().copied().unwrap_or_default();
    let own = found.of(target, data_set, &spec.case);
    let (basis, base) = found.basis(target, data_set);
    let value = if spec.has_basis() {
        own.zip(base).and_then(|(own, base)| ratio(own, base))
    } else {
        own
    };
    Threshold {
        name: spec.name.clone(),
        source: spec.source.clone(),
        data_set: data_set.to_owned(),
        row: spec.case.clone(),
        metric: spec.metric.clone(),
        target: target.to_owned(),
        limit: limit_of(spec),
        at_least: spec.at_least.is_some(),
        basis: basis.map(str::to_owned),
        figure: own,
        range: found.range(target, data_set),
        likely: own
            .filter(|_| basis.is_none() && found.resolution(target, data_set).is_none())
            .and_then(|_| found.interval(target, data_set)),
        base,
        value,
        resolution: found.resolution(target, data_set),
        met: value.and_then(|value| is_met(spec, value, found.likely(target, data_set))),
        others: found.others(own, data_set),
    }
}

fn limit_of(spec: &ThresholdSpec) -> f64 {
    spec.at_least.or(spec.at_most).unwrap_or(f64::NAN)
}

/// Returns whether a value keeps the limit; `None` where that is undecided.
fn is_met(spec: &ThresholdSpec, value: f64, likely: Option<[f64; 2]>) -> Option<bool> {
    let limit = limit_of(spec);
    let keeps = |value: f64| {
        if spec.at_least.is_some() {
            value >= limit
        } else {
            value <= limit
        }
    };
    match likely {
        // One end of the interval keeps the limit and the other does not, so it is a matter of
        // chance on which side the median was measured.
        Some([lower, upper]) if !spec.has_basis() && keeps(lower) != keeps(upper) => None,
        _ => Some(keeps(value)),
    }
}

/// The cases in which the values of one threshold are found.
struct ThresholdCases<'a> {
    spec: &'a ThresholdSpec,
    cases: &'a [Case],
    /// The targets, in the order of their first cases.
    targets: Vec<&'a str>,
}

impl<'a> ThresholdCases<'a> {
    fn new(spec: &'a ThresholdSpec, cases: &'a [Case]) -> Self {
        Self {
            spec,
            cases,
            targets: targets_of(cases),
        }
    }

    fn case(&self, target: &str, data_set: &str, row: &str) -> Option<&'a Case> {
        self.cases.iter().find(|case| {
            case.target == target
                && case.data_set == data_set
                && format!("{}/{}", case.tier, case.row) == row
        })
    }

    /// Returns the value of the threshold's metric for a case.
    fn of(&self, target: &str, data_set: &str, row: &str) -> Option<f64> {
        self.metric(&self.spec.metric, target, data_set, row)
    }

    fn metric(&self, metric: &str, target: &str, data_set: &str, row: &str) -> Option<f64> {
        let case = self.case(target, data_set, row)?;
        // The metrics page of a server tells its memory between lists, so its peaks are unknown.
        let is_self_reported = case.server.as_ref().is_some_and(|s| s.is_self_reported);
        if is_self_reported && PEAKS.contains(&metric) {
            return None;
        }
        // What a late generator measured of a target is invalid, but how late it was is not.
        let is_own = self.spec.metric.starts_with(OWN_METRICS);
        let late = matches!(case.outcome, Outcome::Invalid { .. });
        (case.counts() || is_own && late).then(|| value_at(case, metric))?
    }

    /// Returns the smallest and the largest value where the metric is a median, otherwise the
    /// metric's own interval.
    fn range(&self, target: &str, data_set: &str) -> Option<[f64; 2]> {
        let Some(group) = self.spec.metric.strip_suffix(MEDIAN) else {
            return self.interval(target, data_set);
        };
        let end = |name| {
            let path = format!("{group}.{name}");
            self.metric(&path, target, data_set, &self.spec.case)
        };
        Some([end("min")?, end("max")?])
    }

    /// Returns the uncertainty of the value, where the metric is growth of a server's memory.
    fn resolution(&self, target: &str, data_set: &str) -> Option<f64> {
        if !self.spec.metric.ends_with(ABOVE_IDLE) {
            return None;
        }
        self.metric(RESOLUTION, target, data_set, &self.spec.case)
    }

    /// Returns the interval that contains the true value, if known: for growth of memory the value
    /// ± its resolution, otherwise the confidence interval of the median or of the metric.
    fn likely(&self, target: &str, data_set: &str) -> Option<[f64; 2]> {
        if let Some(resolution) = self.resolution(target, data_set) {
            let value = self.of(target, data_set, &self.spec.case)?;
            return Some([value - resolution, value + resolution]);
        }
        self.interval(target, data_set)
    }

    /// Returns the confidence interval of the metric that the case contains.
    fn interval(&self, target: &str, data_set: &str) -> Option<[f64; 2]> {
        let metric = &self.spec.metric;
        let path = match metric.strip_suffix(MEDIAN) {
            Some(group) => format!("{group}.{LIKELY}"),
            None => format!("{metric}_{LIKELY}"),
        };
        value_at(self.case(target, data_set, &self.spec.case)?, &path)
    }

    /// Returns the divisor of the value: the name of another case, data set or target, and the
    /// value of the metric there.
    fn basis(&self, target: &str, data_set: &str) -> (Option<&str>, Option<f64>) {
        let spec = self.spec;
        if let Some(row) = &spec.of_case {
            return (Some(row), self.of(target, data_set, row));
        }
        if let Some(data_set) = &spec.of_data_set {
            return (Some(data_set), self.of(target, data_set, &spec.case));
        }
        let Some(other) = self.basis_target(target) else {
            return (None, None);
        };
        (Some(other), self.of(other, data_set, &spec.case))
    }

    /// Returns the target whose value is the divisor, where it is a target.
    fn basis_target(&self, target: &str) -> Option<&str> {
        let start = self.spec.of_target.as_deref()?;
        let mut others = self.targets.iter().copied().filter(|name| *name != target);
        Some(others.find(|name| name.starts_with(start)).unwrap_or(start))
    }

    /// Returns the values of every target but the first, each divided by the first target's. Growth
    /// of memory gets the same floor as in comparisons, since a page more or less is no meaningful
    /// ratio.
    fn others(&self, own: Option<f64>, data_set: &str) -> Vec<OtherTarget> {
        let own_target = self.targets.first().copied().unwrap_or_default();
        let others = self.targets.iter().skip(1);
        let beside_own = |&other: &&str| {
            let its = self.of(other, data_set, &self.spec.case);
            let coarsest = [own_target, other]
                .into_iter()
                .filter_map(|target| self.resolution(target, data_set))
                .reduce(f64::max);
            let floor = coarsest.map_or(0.0, |coarsest| {
                Metric::PeakMemory.floor(Some(coarsest as u64))
            });
            OtherTarget {
                target: other.to_owned(),
                figure: its,
                ratio: its
                    .zip(own)
                    .and_then(|(its, own)| ratio(its + floor, own + floor)),
            }
        };
        others.map(beside_own).collect()
    }
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// Returns the value at a path of a case in `report.json`: `latency_ms.p50`, or
/// `loads.puts.latency_ms.p99` for a load.
fn value_at<T: DeserializeOwned>(case: &Case, path: &str) -> Option<T> {
    let json = serde_json::to_value(case).ok()?;
    let value = path.split('.').try_fold(&json, |at, name| match at {
        // Elements of an array, such as loads, are found by their names.
        Value::Array(elements) => elements.iter().find(|element| element["name"] == name),
        _ => at.get(name),
    })?;
    serde_json::from_value(value.clone()).ok()
}

/// Returns whether cases have a number at this path, according to the published schema.
#[must_use]
pub fn is_metric(metric: &str) -> bool {
    let Ok(schema) = serde_json::from_str::<Value>(SCHEMA) else {
        return false;
    };
    let mut at = &schema["$defs"]["Case"];
    for name in metric.split('.') {
        at = match at["type"] == "array" {
            // Any name may be that of an element of the array.
            true => resolved(&schema, &at["items"]),
            false => resolved(&schema, &at["properties"][name]),
        };
    }
    let kind = &at["type"];
    let is_number = |kind: &Value| kind == "number" || kind == "integer";
    is_number(kind)
        || kind
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(is_number))
}

/// Resolves a reference in the schema, including one that may be null.
fn resolved<'a>(schema: &'a Value, at: &'a Value) -> &'a Value {
    let alternatives = at["anyOf"].as_array().into_iter().flatten();
    let reference = alternatives
        .chain([at])
        .find_map(|one| one["$ref"].as_str());
    match reference.and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => schema.pointer(pointer).unwrap_or(at),
        None => at,
    }
}

/// Returns a value with the unit of its metric, which is derived from the path.
#[must_use]
pub fn quantity(metric: &str, value: f64) -> Quantity {
    let (group, last) = metric.rsplit_once('.').unwrap_or(("", metric));
    let bytes = [
        "rss_",
        "allocated_",
        "peak_above_idle",
        "bytes",
        "anon",
        "file",
    ];
    if group.ends_with("_ms") || last.ends_with("_ms") {
        Quantity::Milliseconds(value)
    } else if last.ends_with("bytes_per_s") {
        Quantity::BytesPerSecond(value)
    } else if last.ends_with("_per_s") {
        Quantity::PerSecond(value)
    } else if group.ends_with("_ratio")
        || ["_byte", "_skew", "_part_max", "moved", "_over_early"]
            .iter()
            .any(|end| last.ends_with(end))
    {
        Quantity::PerByte(value)
    } else if last.ends_with("_s") || last.contains("cpu_s") {
        Quantity::seconds(value)
    } else if bytes.iter().any(|start| last.starts_with(start)) {
        Quantity::Bytes(value)
    } else {
        Quantity::Number(value)
    }
}

#[cfg(test)]
mod tests;
