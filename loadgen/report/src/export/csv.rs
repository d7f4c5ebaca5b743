//! Results as CSV: one value per line, with all the columns that distinguish it from others. A case
//! that does not count is one line with its reason and without a value.

use clap::ValueEnum as _;

use super::setup;
use super::target_names::TargetNames;
use crate::compare::Metric;
use crate::result::{Case, SavedResult, ServerStart};

/// Titles of the columns, in order. Existing columns keep their names; new ones are appended.
pub const TITLES: [&str; 23] = [
    "run",
    "started",
    "commit",
    "scenario",
    "data_set",
    "fingerprint",
    "target",
    "target_version",
    "tier",
    "case",
    "encoding",
    "clients",
    "metric",
    "unit",
    "statistic",
    "start",
    "value",
    "n",
    "valid",
    "reason",
    "host",
    "cpu",
    "cores",
];

/// Returns results as CSV. The iterator yields each result with the name of its run.
///
/// # Errors
/// When a line cannot be written. None is expected, since it writes to memory.
pub fn csv<'a>(
    results: impl IntoIterator<Item = (String, &'a SavedResult)>,
) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(TITLES)?;
    for (run, result) in results {
        let names = TargetNames::of(&result.report);
        for case in &result.report.cases {
            for line in lines(&run, result, case, names.get(&case.target)) {
                writer.write_record(&line)?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn lines(run: &str, result: &SavedResult, case: &Case, target: &str) -> Vec<Vec<String>> {
    let report = &result.report;
    let mut data_sets = report.data_sets.iter();
    let data_set = data_sets.find(|data_set| data_set.name == case.data_set);
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let setup = setup(&report.environment, &case.target);
    let of_case = vec![
        run.to_owned(),
        report.started.clone(),
        text(report.environment.commit.as_ref()),
        report.scenario.clone(),
        case.data_set.clone(),
        text(data_set.and_then(|data_set| data_set.fingerprint.as_ref())),
        target.to_owned(),
        text(setup.map(|setup| &setup.program)),
        case.tier.to_string(),
        case.work(),
        text(case.encoding.as_ref()),
        case.clients.to_string(),
    ];
    let environment = &report.environment;
    let of_machine = [
        environment.host.clone(),
        environment.cpu_model.clone(),
        environment.cores.to_string(),
    ];
    let with = |rest: [String; 8]| [of_case.as_slice(), &rest, &of_machine].concat();
    if !case.counts() {
        let reason = case.refusal().to_owned();
        let mut rest = [const { String::new() }; 8];
        (rest[6], rest[7]) = ("false".to_owned(), reason);
        return vec![with(rest)];
    }
    let starts = case.server_starts();
    let values = starts.iter().enumerate().flat_map(|(at, start)| {
        let metrics = Metric::value_variants().iter();
        metrics.filter_map(move |metric| {
            let value = metric.of(start)?;
            let (name, statistic) = named(*metric);
            Some([
                name.to_owned(),
                metric.unit().to_owned(),
                statistic.to_owned(),
                at.to_string(),
                value.to_string(),
                requests(*metric, start).to_string(),
                "true".to_owned(),
                String::new(),
            ])
        })
    });
    values.map(with).collect()
}

/// Returns the name of the measured quantity, and the statistic of it.
fn named(metric: Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::P50 => ("latency", "p50"),
        Metric::P90 => ("latency", "p90"),
        Metric::P99 => ("latency", "p99"),
        Metric::FirstChunkP50 => ("first_chunk", "p50"),
        Metric::FirstChunkP99 => ("first_chunk", "p99"),
        Metric::OverBaseline => ("over_baseline", "p50"),
        Metric::ServerCpu => ("server_cpu", "mean"),
        Metric::ClientCpu => ("client_cpu", "mean"),
        Metric::PeakMemory => ("peak_memory", "max"),
        Metric::IdleMemory => ("idle_memory", "min"),
        Metric::Bytes => ("bytes", "one"),
        Metric::Rate => ("rate", "mean"),
    }
}

/// Returns the number of values that a metric was computed from.
fn requests(metric: Metric, start: &ServerStart) -> u64 {
    let of = match metric {
        Metric::P50 | Metric::P90 | Metric::P99 => &start.latency_ms,
        Metric::FirstChunkP50 | Metric::FirstChunkP99 => &start.first_chunk_ms,
        _ => return start.requests,
    };
    of.as_ref().map_or(0, |quantiles| quantiles.n)
}
