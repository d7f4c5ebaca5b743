//! Results as Bencher Metric Format: benchmarks and their measures, each with the median, the
//! smallest and the largest value of the starts. Times are in nanoseconds, sizes in bytes.
//!
//! `latency` and `throughput` are Bencher's built-in measures. Bencher creates the others when it
//! first receives them.

use serde_json::{Map, Value, json};

use super::ExportError;
use super::measurement::measurements;
use crate::compare::Metric;
use crate::result::SavedResult;

/// Returns results as BMF.
///
/// # Errors
/// When a run is given twice, runs of one scenario are of different machines or builds, or no case
/// counts.
pub fn bencher(results: &[SavedResult]) -> Result<String, ExportError> {
    let mut benchmarks: Map<String, Value> = Map::new();
    for measurement in measurements(results)? {
        let (slug, scale) = measure(measurement.metric);
        let mut value = json!({ "value": measurement.spread().p50 * scale });
        if let Some(spread) = measurement.spread_of_several() {
            value["lower_value"] = json!(spread.min * scale);
            value["upper_value"] = json!(spread.max * scale);
        }
        let benchmark = benchmarks.entry(measurement.benchmark.name());
        benchmark.or_insert_with(|| json!({}))[slug] = value;
    }
    Ok(format!("{:#}\n", Value::Object(benchmarks)))
}

/// Returns the measure of a metric, and the factor that converts the metric to the measure's unit.
fn measure(metric: Metric) -> (&'static str, f64) {
    match metric {
        Metric::P50 => ("latency", 1e6),
        Metric::P90 => ("latency-p90", 1e6),
        Metric::P99 => ("latency-p99", 1e6),
        Metric::FirstChunkP50 => ("first-chunk", 1e6),
        Metric::FirstChunkP99 => ("first-chunk-p99", 1e6),
        Metric::OverBaseline => ("over-baseline", 1.0),
        Metric::ServerCpu => ("server-cpu", 1e6),
        Metric::ClientCpu => ("client-cpu", 1e6),
        Metric::PeakMemory => ("peak-above-idle", 1.0),
        Metric::IdleMemory => ("idle-memory", 1.0),
        Metric::Bytes => ("list-bytes", 1.0),
        Metric::Rate => ("throughput", 1.0),
    }
}
