//! Results as PerfData, which Kubernetes' perfdash draws.
//!
//! perfdash draws a value that a build lacks as 0. Items with the same labels must have the same
//! keys in every build, but whether a start has enough requests for a 99th percentile varies. So an
//! item is one metric with one key, and is present or absent as a whole.

use serde_json::{Value, json};

use super::ExportError;
use super::measurement::measurements;
use crate::compare::Metric;
use crate::result::SavedResult;

/// The version that perfdash reads. It silently drops other versions.
const VERSION: &str = "v1";

/// Returns results as PerfData. Each value is the median of the starts.
///
/// # Errors
/// When a run is given twice, runs of one scenario are of different machines or builds, or no case
/// counts.
pub fn perfdash(results: &[SavedResult]) -> Result<String, ExportError> {
    let items: Vec<Value> = measurements(results)?
        .iter()
        .map(|measurement| {
            let metric = measurement.metric;
            json!({
                "data": { (key(metric)): measurement.spread().p50 },
                "unit": metric.unit(),
                "labels": {
                    "Case": measurement.benchmark.case(),
                    "Metric": metric.to_string(),
                    "Target": measurement.benchmark.target,
                },
            })
        })
        .collect();
    let data = json!({ "version": VERSION, "dataItems": items });
    Ok(format!("{data:#}\n"))
}

/// Returns the key of an item's value. Percentiles are named as in Kubernetes' own tests.
fn key(metric: Metric) -> &'static str {
    match metric {
        Metric::P50 | Metric::FirstChunkP50 => "Perc50",
        Metric::P90 => "Perc90",
        Metric::P99 | Metric::FirstChunkP99 => "Perc99",
        Metric::OverBaseline
        | Metric::ServerCpu
        | Metric::ClientCpu
        | Metric::PeakMemory
        | Metric::IdleMemory
        | Metric::Bytes
        | Metric::Rate => "Value",
    }
}
