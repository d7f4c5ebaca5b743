//! A synthetic result with every kind of case, to draw, save and compare. Nothing in it was
//! measured.

use std::time::Duration;

use report::latency::Latencies;
use report::result::histogram_log::TaggedHistogram;
use report::result::series::{Sample, Series};
use report::result::{
    Case, ClientMetrics, Cold, DataSet, Environment, MachineLoad, OtherTarget, Outcome, Quantiles,
    Report, SCHEMA_VERSION, SavedResult, ServedFrom, ServerMetrics, ServerSetup, Threshold,
    TierMetrics, Verified, WarmUp,
};
use workloads::strategy::Tier;

const MIB: f64 = 1024.0 * 1024.0;
const OBJECTS: u64 = 150_000;
const BYTES: u64 = 1_515_000_000;

/// The values from which a case is made.
struct Sketch {
    target: &'static str,
    tier: Tier,
    strategy: &'static str,
    encoding: &'static str,
    list_ms: f64,
    first_ms: Option<f64>,
    idle_mib: f64,
    above_mib: f64,
    cpu_s: f64,
}

/// Returns a result of one data set on two targets. `speed` multiplies every time and size of the
/// target `bench`.
pub(crate) fn result(speed: f64) -> SavedResult {
    let mut result = SavedResult {
        report: report(),
        histograms: Vec::new(),
        series: Vec::new(),
        load_intervals: Vec::new(),
        scenario_toml: "name = \"synthetic\"\n".into(),
    };
    let bench = |tier,
                 strategy,
                 encoding,
                 list_ms: f64,
                 first_ms: Option<f64>,
                 above_mib: f64,
                 cpu_s: f64| Sketch {
        target: "bench",
        tier,
        strategy,
        encoding,
        list_ms: list_ms * speed,
        first_ms: first_ms.map(|ms| ms * speed),
        idle_mib: 1_510.0,
        above_mib: above_mib * speed,
        cpu_s: cpu_s * speed,
    };
    let etcd = |strategy, encoding, list_ms, first_ms, above_mib, cpu_s| Sketch {
        target: "etcd",
        tier: Tier::Etcd,
        strategy,
        encoding,
        list_ms,
        first_ms,
        idle_mib: 2_100.0,
        above_mib,
        cpu_s,
    };
    measured(
        &mut result,
        &bench(Tier::Etcd, "unary", "buffered", 1_900.0, None, 1_520.0, 0.9),
    );
    measured(
        &mut result,
        &bench(
            Tier::Etcd,
            "unary-incremental",
            "incremental",
            610.0,
            Some(0.9),
            3.1,
            0.45,
        ),
    );
    measured(
        &mut result,
        &bench(Tier::Etcd, "stream", "stream", 640.0, Some(1.1), 3.4, 0.48),
    );
    measured(
        &mut result,
        &bench(
            Tier::Etcd,
            "paged:10000",
            "incremental",
            690.0,
            Some(1.4),
            4.0,
            0.50,
        ),
    );
    measured(
        &mut result,
        &bench(
            Tier::Etcd,
            "paged:500",
            "incremental",
            780.0,
            Some(0.7),
            2.2,
            0.61,
        ),
    );
    measured(
        &mut result,
        &bench(Tier::Kube, "cached", "protobuf", 760.0, Some(1.2), 9.0, 0.7),
    );
    measured(
        &mut result,
        &bench(
            Tier::Kube,
            "consistent",
            "protobuf",
            790.0,
            Some(2.6),
            9.5,
            0.7,
        ),
    );
    measured(
        &mut result,
        &bench(
            Tier::Kube,
            "paged:500",
            "protobuf",
            940.0,
            Some(0.9),
            6.0,
            0.9,
        ),
    );
    measured(
        &mut result,
        &etcd("unary", "buffered", 8_500.0, None, 2_846.0, 2.8),
    );
    let reason = "etcd 3.7.1 has one encoding for Range; incremental answers are this project's own experiment";
    let na = Outcome::NotApplicable {
        reason: reason.into(),
    };
    result.report.cases.push(Case::new(
        "pods-150k",
        "etcd",
        Tier::Etcd,
        "unary-incremental",
        na,
    ));
    measured(
        &mut result,
        &etcd("stream", "stream", 2_330.0, Some(38.0), 578.0, 1.6),
    );
    measured(
        &mut result,
        &etcd("paged:10000", "buffered", 4_070.0, Some(190.0), 772.0, 1.8),
    );
    let broken = Outcome::Failed {
        reason: "150,000 objects expected, 149,999 received".into(),
    };
    result.report.cases.push(Case::new(
        "pods-150k",
        "etcd",
        Tier::Etcd,
        "paged:500",
        broken,
    ));
    let limited = &mut result.report.cases[2];
    limited.null_sink_ms = Some(Quantiles {
        n: 5,
        p50: Some(505.0),
        ..Quantiles::default()
    });
    limited.mark_client_limited(&[1.2, 1.3, 1.25, 1.2, 1.3]);
    let spoiled = &mut result.report.cases[6];
    spoiled.valid = false;
    spoiled.outcome = Outcome::Invalid {
        reason: "the generator lost its CPU for 1.2 s".into(),
    };
    result
}

fn report() -> Report {
    let server = |target: &str, program: &str, flag: &str| ServerSetup {
        target: target.into(),
        program: program.into(),
        flags: vec![flag.into()],
        allocator: Some("synthetic".into()),
        fsync: None,
        quota_bytes: Some(8 << 30),
        restarted_after_seeding: false,
    };
    Report {
        schema_version: SCHEMA_VERSION,
        scenario: "synthetic".into(),
        started: "2026-01-02T03:04:05Z".into(),
        elapsed_s: 171.0,
        interrupted: false,
        environment: Environment {
            host: "nowhere".into(),
            cpu_model: "a made-up CPU <of no & kind>".into(),
            cores: 2,
            memory_bytes: 24 << 30,
            command: vec!["loadgen".into(), "run".into(), "a b".into()],
            servers: vec![
                server(
                    "bench",
                    "bench-server 0.1.0",
                    "--range-encoding=incremental",
                ),
                server("etcd", "etcd 3.7.1", "--unsafe-no-fsync"),
            ],
            ..Environment::default()
        },
        data_sets: vec![DataSet {
            name: "pods-150k".into(),
            seed: Some(1),
            objects: OBJECTS,
            bytes: BYTES,
            has_mixed_sizes: false,
            fingerprint: Some("00c0ffee00c0ffee".into()),
        }],
        cases: Vec::new(),
        ab: None,
        shard: None,
        generators: Vec::new(),
        growth: Vec::new(),
        conformance: Vec::new(),
        thresholds: vec![
            threshold(600.0, None, Some(640.0), Some(1_250.0)),
            threshold(1.2, Some("etcd/unary-incremental"), Some(640.0), None),
        ],
    }
}

/// Adds a case, its histograms and its series, all derived from the sketch.
fn measured(result: &mut SavedResult, sketch: &Sketch) {
    let mut case = Case::new(
        "pods-150k",
        sketch.target,
        sketch.tier,
        sketch.strategy,
        Outcome::Measured,
    );
    let spread = [1.0, 0.97, 1.06, 1.01, 0.99];
    let lists = histogram(spread.iter().map(|part| sketch.list_ms * part));
    case.encoding = Some(sketch.encoding.into());
    case.served_from = if sketch.tier == Tier::Kube {
        ServedFrom::WatchCache
    } else {
        ServedFrom::Store
    };
    (case.objects, case.bytes, case.requests, case.valid) = (OBJECTS, BYTES, lists.n(), true);
    case.latency_ms = Some(lists.quantiles_ms());
    case.null_sink_ms =
        Some(histogram(spread.iter().map(|part| sketch.list_ms * part * 0.95)).quantiles_ms());
    let first = sketch
        .first_ms
        .map(|ms| histogram((0..1_000).map(|n| ms * (0.9 + f64::from(n % 100) / 400.0))));
    case.cold = Some(Cold {
        ms: sketch.list_ms * 1.6,
        peak_above_idle: Some((sketch.above_mib * 1.2 * MIB) as u64),
    });
    case.warm_up = Some(WarmUp {
        lists: 4,
        s: sketch.list_ms * 4.6 / 1e3,
        stands_still: Some(true),
    });
    case.first_chunk_ms = first.as_ref().map(Latencies::quantiles_ms);
    case.longest_gap_ms = Some(histogram(spread.iter().map(|part| 9.0 * part)).quantiles_ms());
    case.chunks = Some(1_440);
    case.throughput_bytes_per_s = Some(BYTES as f64 / sketch.list_ms * 1e3);
    let mut server = ServerMetrics {
        rss_resolution: Some(256 << 10),
        socket_idle: Some(1 << 20),
        socket_peak: Some(9 << 20),
        socket_resolution: Some(2 << 20),
        peaks_above_idle: spread
            .iter()
            .map(|part| (sketch.above_mib * part * MIB) as u64)
            .collect(),
        ..ServerMetrics::default()
    };
    let mut process = TierMetrics {
        rss_idle: (sketch.idle_mib * MIB) as u64,
        rss_peak: ((sketch.idle_mib + sketch.above_mib) * MIB) as u64,
        rss_anon_idle: (sketch.idle_mib * 0.8 * MIB) as u64,
        rss_anon_peak: ((sketch.idle_mib * 0.8 + sketch.above_mib) * MIB) as u64,
        rss_file_idle: (sketch.idle_mib * 0.2 * MIB) as u64,
        rss_file_peak: ((sketch.idle_mib * 0.2 + sketch.above_mib * 0.3) * MIB) as u64,
        allocated_idle: Some((sketch.idle_mib * 0.9 * MIB) as u64),
        allocated_peak: Some((sketch.idle_mib * 0.9 * MIB + sketch.above_mib * 0.9 * MIB) as u64),
        cpu_s: Some(sketch.cpu_s * 5.0),
        ..TierMetrics::default()
    };
    server.add_up([&mut process]);
    server.etcd = Some(process);
    server.settle(BYTES, 5);
    case.server = Some(server);
    case.client = Some(ClientMetrics {
        program: None,
        cpu_s: Some(sketch.list_ms * 5.0 / 2e3),
        rss_peak: Some(30 << 20),
        cpu_s_per_request: None,
        late_over_early: None,
        late_over_early_likely: None,
        stall_ms: None,
        lag_ms: None,
    });
    case.machine = Some(MachineLoad {
        others_cpu_part: Some(0.01),
        stolen_cpu_part: Some(0.002),
        waiting_part: Some(0.2),
    });
    case.verified = Some(Verified {
        objects: OBJECTS,
        bytes: BYTES,
        fingerprint: "00c0ffee00c0ffee".into(),
    });
    let duration = Duration::from_secs_f64(sketch.list_ms * 5.0 / 1e3);
    for (measure, histogram) in [("latency", Some(lists)), ("first_chunk", first)] {
        result
            .histograms
            .extend(histogram.map(|histogram| TaggedHistogram {
                measure: measure.into(),
                case: case.id(),
                start: Duration::from_secs(1),
                duration,
                histogram,
            }));
    }
    let samples = |base: f64, above: f64, allocated: Option<f64>| {
        let steps = 250;
        (0..=steps)
            .map(|step| {
                let part = f64::from(step) / f64::from(steps);
                // Memory rises and falls with each of the five lists.
                let now = base + above * (part * 5.0 * std::f64::consts::PI).sin().abs();
                Sample {
                    elapsed_s: duration.as_secs_f64() * part,
                    rss: (now * MIB) as u64,
                    anon: (now * 0.8 * MIB) as u64,
                    file: (now * 0.2 * MIB) as u64,
                    cpu_s: sketch.cpu_s * 5.0 * part,
                    allocated: allocated.map(|of| (now * of * MIB) as u64),
                }
            })
            .collect()
    };
    let series = |process: &str, samples| Series {
        case: case.id(),
        process: process.into(),
        samples,
    };
    result.series.push(series(
        "etcd",
        samples(sketch.idle_mib, sketch.above_mib, Some(0.9)),
    ));
    result
        .series
        .push(series("loadgen", samples(28.0, 2.0, None)));
    result.report.cases.push(case);
}

fn histogram(values_ms: impl Iterator<Item = f64>) -> Latencies {
    values_ms
        .map(|ms| Duration::from_secs_f64(ms / 1e3))
        .collect()
}

/// Returns a threshold of the case `etcd/stream`.
fn threshold(
    limit: f64,
    basis: Option<&str>,
    figure: Option<f64>,
    other: Option<f64>,
) -> Threshold {
    let base = basis.map(|_| 610.0);
    let value = figure.map(|figure| figure / base.unwrap_or(1.0));
    Threshold {
        name: format!("at most {limit}"),
        source: None,
        data_set: "pods-150k".into(),
        row: "etcd/stream".into(),
        metric: "latency_ms.p50".into(),
        target: "bench".into(),
        limit,
        at_least: false,
        basis: basis.map(str::to_owned),
        figure,
        range: figure.map(|figure| [figure * 0.9, figure * 1.2]),
        likely: figure.map(|figure| [figure * 0.98, figure * 1.05]),
        base,
        resolution: None,
        value,
        met: value.map(|value| value <= limit),
        others: vec![OtherTarget {
            target: "etcd".into(),
            figure: other,
            ratio: other.zip(figure).map(|(other, own)| other / own),
        }],
    }
}
