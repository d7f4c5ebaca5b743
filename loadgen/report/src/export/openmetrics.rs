//! Results as OpenMetrics 1.0 text: gauges, with one sample for each run and case at the time when
//! the run began. `promtool tsdb create-blocks-from openmetrics` loads them as a history.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

use super::ExportError;
use super::measurement::{Apart, Measurement, check_runs, of_run};
use crate::compare::Metric;
use crate::result::SavedResult;

/// The OpenMetrics family of a metric.
struct Family {
    /// The full name, which ends in the unit.
    name: &'static str,
    /// The unit in the `# UNIT` line; empty for a rate, which has no unit of its own.
    unit: &'static str,
    help: &'static str,
    /// The label `quantile`, for metrics that share a family.
    quantile: Option<&'static str>,
    /// The factor that converts the metric to the family's unit.
    scale: f64,
}

/// The samples of a family, sorted by labels and then by time, as the format requires.
type Samples = BTreeMap<(String, Option<u128>), f64>;

/// Returns results as OpenMetrics text. Each value is the median of a run's starts.
///
/// # Errors
/// When a run is given twice, runs of one scenario are of different machines, or no case counts.
pub fn openmetrics(results: &[SavedResult]) -> Result<String, ExportError> {
    check_runs(results, Apart::Machines)?;
    let mut families: BTreeMap<&str, (Family, Samples)> = BTreeMap::new();
    for result in results {
        let started = humantime::parse_rfc3339(&result.report.started).ok();
        let since = started.and_then(|started| started.duration_since(UNIX_EPOCH).ok());
        let milliseconds = since.map(|since| since.as_millis());
        for measurement in of_run(result) {
            let family = family(measurement.metric);
            let labels = labels(&measurement, &family);
            let value = measurement.spread().p50 * family.scale;
            let (_, samples) = families
                .entry(family.name)
                .or_insert_with(|| (family, Samples::new()));
            samples.insert((labels, milliseconds), value);
        }
    }
    if families.is_empty() {
        return Err(ExportError::Nothing);
    }
    let mut text = String::new();
    for (family, samples) in families.values() {
        write_family(family, samples, &mut text).expect("a string takes everything");
    }
    text.push_str("# EOF\n");
    Ok(text)
}

fn write_family(family: &Family, samples: &Samples, text: &mut String) -> std::fmt::Result {
    let Family {
        name, unit, help, ..
    } = family;
    writeln!(text, "# TYPE {name} gauge")?;
    if !unit.is_empty() {
        writeln!(text, "# UNIT {name} {unit}")?;
    }
    writeln!(text, "# HELP {name} {help}")?;
    for ((labels, milliseconds), value) in samples {
        write!(text, "{name}{{{labels}}} {value}")?;
        if let Some(milliseconds) = milliseconds {
            // The timestamp is in seconds.
            write!(text, " {}.{:03}", milliseconds / 1000, milliseconds % 1000)?;
        }
        text.push('\n');
    }
    Ok(())
}

fn labels(measurement: &Measurement, family: &Family) -> String {
    let benchmark = &measurement.benchmark;
    let labels = [
        ("scenario", Some(benchmark.scenario.as_str())),
        ("data_set", Some(benchmark.data_set.as_str())),
        ("case", Some(benchmark.work.as_str())),
        ("target", Some(benchmark.target.as_str())),
        ("quantile", family.quantile),
    ];
    let labels = labels
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}=\"{}\"", escaped(value?))));
    labels.collect::<Vec<String>>().join(",")
}

/// Escapes a label's value for use between quotes.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn family(metric: Metric) -> Family {
    let seconds = |name, help, quantile| Family {
        name,
        unit: "seconds",
        help,
        quantile,
        scale: 1e-3,
    };
    let latency = |quantile| {
        let help = "Time of a request from its intended start to its checked end.";
        seconds("loadgen_latency_seconds", help, Some(quantile))
    };
    let first_chunk = |quantile| {
        let help = "Time from the start of a list to its first chunk with an object.";
        seconds("loadgen_first_chunk_seconds", help, Some(quantile))
    };
    let bytes = |name, help| Family {
        name,
        unit: "bytes",
        help,
        quantile: None,
        scale: 1.0,
    };
    match metric {
        Metric::P50 => latency("0.5"),
        Metric::P90 => latency("0.9"),
        Metric::P99 => latency("0.99"),
        Metric::FirstChunkP50 => first_chunk("0.5"),
        Metric::FirstChunkP99 => first_chunk("0.99"),
        Metric::OverBaseline => Family {
            name: "loadgen_over_baseline_ratio",
            unit: "ratio",
            help: "Time of a list over that of the same bytes from one buffer.",
            quantile: None,
            scale: 1.0,
        },
        Metric::ServerCpu => seconds(
            "loadgen_server_cpu_seconds",
            "CPU time of the servers for each request.",
            None,
        ),
        Metric::ClientCpu => seconds(
            "loadgen_client_cpu_seconds",
            "CPU time of the clients for each request.",
            None,
        ),
        Metric::PeakMemory => bytes(
            "loadgen_peak_above_idle_bytes",
            "Peak private memory of the servers above idle.",
        ),
        Metric::IdleMemory => bytes(
            "loadgen_idle_memory_bytes",
            "Private memory of the servers at rest.",
        ),
        Metric::Bytes => bytes("loadgen_list_bytes", "Bytes of one list as received."),
        Metric::Rate => Family {
            name: "loadgen_requests_per_second",
            unit: "",
            help: "Requests per second that were answered.",
            quantile: None,
            scale: 1.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_its_line() {
        assert_eq!(escaped("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    }
}
