//! Small synthetic reports for the tests of the page.

use workloads::strategy::Tier;

use crate::result::{Case, DataSet, Outcome, Quantiles, Report, SCHEMA_VERSION, ServerMetrics};

/// Returns a report with these cases: target, strategy, median time in ms.
pub(crate) fn report(cases: &[(&str, &str, f64)]) -> Report {
    Report {
        schema_version: SCHEMA_VERSION,
        scenario: "made-up".to_owned(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        elapsed_s: 60.0,
        interrupted: false,
        environment: crate::result::Environment {
            host: "nowhere".to_owned(),
            ..Default::default()
        },
        data_sets: vec![DataSet {
            name: "pods".to_owned(),
            objects: 1_000,
            bytes: 10_000_000,
            ..DataSet::default()
        }],
        ab: None,
        shard: None,
        generators: Vec::new(),
        cases: cases
            .iter()
            .map(|(target, strategy, ms)| case(target, strategy, *ms))
            .collect(),
        growth: Vec::new(),
        conformance: Vec::new(),
        thresholds: Vec::new(),
    }
}

/// Returns a case of five lists whose times are within a tenth of `ms`. For each ms it has a MiB
/// above idle and half a ms of CPU time.
pub(crate) fn case(target: &str, strategy: &str, ms: f64) -> Case {
    let mut case = Case::new("pods", target, Tier::Etcd, strategy, Outcome::Measured);
    (case.valid, case.requests, case.bytes) = (true, 5, 10_000_000);
    case.latency_ms = Some(Quantiles {
        n: 5,
        min: Some(ms * 0.9),
        p50: Some(ms),
        max: Some(ms * 1.1),
        ..Quantiles::default()
    });
    case.server = Some(ServerMetrics {
        peak_above_idle: (ms * 1_048_576.0) as u64,
        cpu_s_per_request: Some(ms / 2e3),
        ..ServerMetrics::default()
    });
    case
}
