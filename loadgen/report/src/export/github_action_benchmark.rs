//! Results for github-action-benchmark, in the form that its tool `customSmallerIsBetter` reads.
//!
//! It turns `null`, an empty text and an empty list into 0, so an entry is either complete or
//! absent. Rates are left out, since for rates larger is better.

use serde::Serialize;

use super::ExportError;
use super::measurement::{Measurement, measurements};
use crate::compare::Better;
use crate::result::SavedResult;

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Entry {
    /// Benchmark and metric. If a name occurs twice, the first entry is used.
    name: String,
    /// `ms`, `bytes` or `ratio`.
    unit: &'static str,
    /// The median of the starts.
    value: f64,
    /// The distance from the median to the start that is farthest from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    /// The text that a chart shows in addition to the value.
    extra: String,
}

/// Returns results as a JSON list of entries.
///
/// # Errors
/// When a run is given twice, runs of one scenario are of different machines or builds, or no case
/// counts.
pub fn github_action_benchmark(results: &[SavedResult]) -> Result<String, ExportError> {
    let measurements = measurements(results)?;
    let entries = measurements.iter().filter(|measurement| {
        let better = measurement.metric.better();
        better == Better::Lower
    });
    let entries: Vec<Entry> = entries.map(entry).collect();
    let json = serde_json::to_string_pretty(&entries).expect("numbers and texts");
    Ok(json + "\n")
}

fn entry(measurement: &Measurement) -> Entry {
    let Measurement {
        benchmark, metric, ..
    } = measurement;
    let range = measurement.spread_of_several().map(|spread| {
        let farthest = (spread.p50 - spread.min).max(spread.max - spread.p50);
        // Rounded, since a difference of fractions has meaningless digits.
        format!("± {}", (farthest * 1e6).round() / 1e6)
    });
    let starts = match measurement.starts.len() {
        1 => "one start".to_owned(),
        n => format!("{n} starts"),
    };
    let extra: Vec<String> = [starts]
        .into_iter()
        .chain(benchmark.built_from.clone())
        .collect();
    Entry {
        name: format!("{} {metric}", benchmark.name()),
        unit: metric.unit(),
        value: measurement.spread().p50,
        range,
        extra: extra.join("\n"),
    }
}
