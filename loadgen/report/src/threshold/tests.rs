//! Tests of thresholds with synthetic cases.

use super::*;
use crate::result::{Quantiles, ServerMetrics, Spread};
use workloads::strategy::Tier;

const SCENARIO: &str = r#"
name = "bars"
summary = "two bars"
repeats = 3
[cases]
etcd = ["stream", "unary"]
[[threshold]]
name = "absolute"
case = "etcd/stream"
metric = "latency_ms.p50"
at_most = 600
[[threshold]]
name = "against another row"
case = "etcd/stream"
metric = "latency_ms.p50"
at_most = 1.2
of_case = "etcd/unary"
[[threshold]]
name = "against another target"
case = "etcd/unary"
metric = "latency_ms.p50"
at_most = 1
of_target = "etcd"
[[data_set]]
name = "raw"
kind = "raw"
objects = 10
object_size = 100
seed = 1
"#;

fn case(target: &str, strategy: &str, p50: Option<f64>) -> Case {
    let mut case = Case::new("raw", target, Tier::Etcd, strategy, Outcome::Measured);
    case.row = strategy.to_owned();
    case.valid = p50.is_some();
    case.latency_ms = Some(Quantiles {
        p50,
        ..Quantiles::default()
    });
    case
}

#[test]
fn a_threshold_is_held_against_the_first_target_with_the_others_beside_it() {
    let scenario = Scenario::parse(SCENARIO, "bars").expect("a scenario");
    let cases = [
        case("bench", "stream", Some(500.0)),
        case("bench", "unary", Some(400.0)),
        case("etcd-3.7.1", "stream", None),
        case("etcd-3.7.1", "unary", Some(800.0)),
    ];
    let thresholds: Vec<Threshold> = scenario
        .thresholds
        .iter()
        .map(|threshold| judged(threshold, "raw", &cases))
        .collect();
    assert_eq!(
        (thresholds[0].value, thresholds[0].met),
        (Some(500.0), Some(true))
    );
    assert_eq!(
        (thresholds[1].value, thresholds[1].met),
        (Some(1.25), Some(false))
    );
    assert_eq!(
        (thresholds[2].value, thresholds[2].met),
        (Some(0.5), Some(true))
    );
    assert_eq!(thresholds[2].basis.as_deref(), Some("etcd-3.7.1"));
    assert_eq!(
        thresholds[0].others[0].figure, None,
        "a case that does not count has no value"
    );
    assert_eq!(thresholds[2].others[0].ratio, Some(2.0));
}

#[test]
fn a_figure_with_an_interval_of_its_own_decides_nothing_within_it() {
    let text = SCENARIO.replace("latency_ms.p50", "server.late_over_early");
    let scenario = Scenario::parse(&text, "bars").expect("a scenario");
    let mut spec = scenario.thresholds[0].clone();
    spec.at_most = Some(1.05);
    let judge = |ratio: f64, likely: Option<[f64; 2]>| {
        let mut case = case("bench", "stream", Some(1.0));
        case.server = Some(ServerMetrics {
            late_over_early: Some(ratio),
            late_over_early_likely: likely,
            ..ServerMetrics::default()
        });
        judged(&spec, "raw", &[case])
    };
    let around = judge(1.04, Some([0.98, 1.1]));
    assert_eq!((around.met, around.range), (None, Some([0.98, 1.1])));
    assert_eq!(judge(1.02, Some([1.01, 1.03])).met, Some(true));
    assert_eq!(judge(1.2, Some([1.1, 1.3])).met, Some(false));
    assert_eq!(judge(1.04, None).met, Some(true), "of earlier results");
}

#[test]
fn a_median_that_may_lie_on_either_side_decides_nothing() {
    let text = SCENARIO.replace("latency_ms.p50", "checking_ratio.p50");
    let scenario = Scenario::parse(&text, "bars").expect("a scenario");
    let mut spec = scenario.thresholds[0].clone();
    spec.at_most = Some(1.2);
    let met = |ratios: &[f64]| {
        let mut case = case("bench", "stream", Some(1.0));
        case.checking_ratio = Spread::of(ratios.iter().copied());
        judged(&spec, "raw", &[case]).met
    };
    let around = [0.67, 0.74, 0.76, 0.82, 0.99, 1.20, 1.22, 1.26, 1.29, 2.09];
    assert_eq!(met(&around), None);
    assert_eq!(
        met(&[1.0, 1.1, 1.0, 1.1, 1.0, 1.1, 1.0, 1.1, 1.1, 2.0]),
        Some(true)
    );
    assert_eq!(
        met(&[1.3, 1.3, 1.3, 1.4, 1.3, 1.3, 1.3, 1.3, 1.3, 0.9]),
        Some(false)
    );
    assert_eq!(
        met(&[1.1, 1.1, 1.3]),
        Some(true),
        "of three there is the median alone"
    );
}

#[test]
fn memory_closer_to_its_limit_than_its_counter_can_tell_is_undecided() {
    let scenario = Scenario::parse(SCENARIO, "bars").expect("a scenario");
    let mut spec = scenario.thresholds[0].clone();
    spec.metric = "server.peak_above_idle".to_owned();
    (spec.at_most, spec.at_least) = (Some(1_048_576.0), None);
    let met = |kib: u64| judged(&spec, "raw", &[holding("bench", kib)]).met;
    let verdicts = [700, 876, 1_200, 1_400].map(met);
    assert_eq!(verdicts, [Some(true), None, None, Some(false)]);
}

/// 84,000 KiB are 677 times 124 KiB, but both are known only within 256 KiB.
#[test]
fn ratios_of_memory_have_the_floor_that_comparisons_have() {
    let scenario = Scenario::parse(SCENARIO, "floor").expect("a scenario");
    let mut spec = scenario.thresholds[0].clone();
    spec.metric = "server.peak_above_idle".to_owned();
    let cases = [holding("bench", 124), holding("etcd-3.7.1", 84_000)];
    let others = judged(&spec, "raw", &cases).others;
    let expected = (84_000.0 + 1_024.0) / (124.0 + 1_024.0);
    let ratio = others[0].ratio.expect("both have a figure");
    assert!((ratio - expected).abs() < 1e-9, "{ratio} is not {expected}");
}

/// Returns a case whose server holds so much above idle.
fn holding(target: &str, kib: u64) -> Case {
    let mut case = case(target, "stream", Some(1.0));
    case.server = Some(ServerMetrics {
        peak_above_idle: kib << 10,
        rss_resolution: Some(256 << 10),
        ..ServerMetrics::default()
    });
    case
}

#[test]
fn a_threshold_without_its_case_is_neither_met_nor_missed() {
    let scenario = Scenario::parse(SCENARIO, "bars").expect("a scenario");
    let threshold = judged(
        &scenario.thresholds[1],
        "raw",
        &[case("bench", "stream", Some(1.0))],
    );
    assert_eq!((threshold.figure, threshold.met), (Some(1.0), None));
}

#[test]
fn metrics_are_what_the_schema_says() {
    for metric in [
        "latency_ms.p50",
        "server.cpu_s_per_request",
        "seed_s",
        "errors",
        "shards.server_cpu_part_max",
        "shards.events.dropped",
        "yardstick.time_ratio.p50",
        "yardstick.list_server_cpu_ms.p50",
        "yardstick.server_cpu_ratio.max",
    ] {
        assert!(is_metric(metric), "{metric}");
    }
    for metric in ["latency", "latency_ms", "target", "server.cpu", ""] {
        assert!(!is_metric(metric), "{metric}");
    }
}

#[test]
fn a_metric_s_path_says_its_unit() {
    let text = |metric, value| quantity(metric, value).to_string();
    assert_eq!(text("latency_ms.p99", 2.0), "2.00 ms");
    assert_eq!(text("server.cpu_s_per_request", 7e-6), "7.00 µs");
    assert_eq!(text("server.peak_above_idle", 4_194_304.0), "4.00 MiB");
    assert_eq!(text("server.idle_per_stored_byte", 1.15), "1.150 ×");
    assert_eq!(text("requests_per_s", 25_000.0), "25,000/s");
    assert_eq!(text("seed_s", 4.0), "4.00 s");
    assert_eq!(text("yardstick.time_ratio.p50", 1.07), "1.070 ×");
    assert_eq!(text("shards.objects_skew", 1.5), "1.500 ×");
    assert_eq!(text("shards.resharding.moved", 0.2), "0.200 ×");
    assert_eq!(text("shards.server_cpu_s_max", 0.5), "500 ms");
    assert_eq!(text("shards.server_cpu_part_max", 0.06), "0.060 ×");
    assert_eq!(text("shards.events.bytes_max", 1024.0), "1.00 KiB");
    assert_eq!(text("server.late_over_early", 1.04), "1.040 ×");
    assert_eq!(text("shards.events.dropped", 12_000.0), "12,000");
    assert_eq!(text("shards.events.dropped", 0.25), "0.250");
}
