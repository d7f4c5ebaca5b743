//! Tests with the parts of a synthetic run: the merged result must equal that of one generator, and
//! parts that do not belong together must be rejected with the right error.

use std::time::Duration;

use proptest::prelude::*;
use workloads::strategy::Tier;

use super::*;
use crate::latency::Latencies;
use crate::page::fixture;
use crate::result::histogram_log::{TaggedHistogram, read_log, write_log};
use crate::result::load_intervals::LoadInterval;
use crate::result::series::Series;
use crate::result::{
    Case, ClientMetrics, DataSet, Load, LoadKind, Outcome, Quantiles, RunShard, ServerMetrics,
};

const SCENARIO: &str = r#"
name = "made-up"
summary = "gets and lists"
repeats = 1
duration = "10s"
[[data_set]]
name = "few"
kind = "raw"
objects = 300
object_size = 1_000
seed = 1
[[case]]
name = "both"
load = [
    { name = "small", operation = { get = 1, put = 1 }, arrivals = { poisson = 100 }, connections = 8 },
    { name = "lists", operation = { list = "stream" }, clients = 8 },
]
[[threshold]]
name = "requests that failed"
case = "etcd/both"
metric = "loads.small.errors"
at_most = 0
"#;

fn of_us(values: &[u64]) -> Latencies {
    values.iter().map(|us| Duration::from_micros(*us)).collect()
}

fn quantiles(values: &[u64]) -> Option<Quantiles> {
    (!values.is_empty()).then(|| of_us(values).quantiles_ms())
}

/// Returns the result of generator `index` of `count`: gets and puts alternate and took so many
/// microseconds; a list took a second.
fn part(index: u32, count: u32, values: &[u64]) -> GeneratorResult {
    let mut result = SavedResult {
        report: fixture::report(&[]),
        histograms: Vec::new(),
        series: vec![Series {
            case: "as it was".to_owned(),
            process: format!("loadgen-{index}"),
            samples: Vec::new(),
        }],
        load_intervals: vec![LoadInterval::default()],
        scenario_toml: SCENARIO.to_owned(),
    };
    let kind = |operation: &str, from: usize| {
        let own: Vec<u64> = values.iter().skip(from).step_by(2).copied().collect();
        let kind = LoadKind {
            operation: operation.to_owned(),
            requests: own.len() as u64,
            errors: 0,
            conflicts: 1,
            latency_ms: quantiles(&own),
        };
        (kind, own)
    };
    let ((gets, got), (puts, put)) = (kind("get", 0), kind("put", 1));
    let n = values.len() as u64;
    let small = Load {
        name: "small".to_owned(),
        operation: "get 1, put 1".to_owned(),
        arrivals: "100-per-second".to_owned(),
        clients: 1,
        connections: Some(1),
        measured: true,
        window_s: [0.0, 10.0],
        offered_per_s: Some(100.0 / f64::from(count)),
        achieved_per_s: Some(n as f64 / 10.0),
        requests: n,
        latency_ms: quantiles(values),
        service_ms: quantiles(values),
        lag_ms: quantiles(values),
        kinds: vec![gets, puts],
        ..Load::default()
    };
    let a_second = [1_000_000];
    let lists = Load {
        name: "lists".to_owned(),
        operation: "list by stream".to_owned(),
        arrivals: "closed".to_owned(),
        clients: 1,
        measured: true,
        window_s: [0.0, 10.0],
        achieved_per_s: Some(0.1),
        requests: 1,
        latency_ms: quantiles(&a_second),
        ..Load::default()
    };
    let mut case = Case::new(
        "few",
        "http://e:2379",
        Tier::Etcd,
        "loads",
        Outcome::Measured,
    );
    case.row = "both".to_owned();
    (case.valid, case.requests) = (true, n);
    case.latency_ms = quantiles(values);
    case.service_ms = quantiles(values);
    case.requests_per_s = Some(n as f64 / 10.0);
    case.loads = vec![small, lists];
    case.server = Some(ServerMetrics {
        cpu_s: Some(1.0 + f64::from(index)),
        rss_peak: 1_000 + u64::from(index),
        ..ServerMetrics::default()
    });
    case.client = Some(ClientMetrics {
        cpu_s: Some(0.5),
        rss_peak: Some(10 + u64::from(index)),
        lag_ms: quantiles(values),
        ..ClientMetrics::default()
    });
    let mut keep = |measure: &str, values: &[u64]| {
        if !values.is_empty() {
            result.histograms.push(TaggedHistogram {
                measure: measure.to_owned(),
                case: case.id(),
                start: Duration::from_secs(1),
                duration: Duration::from_secs(10),
                histogram: of_us(values),
            });
        }
    };
    for measure in ["latency", "small.latency", "small.service", "small.lag"] {
        keep(measure, values);
    }
    keep("small.latency.get", &got);
    keep("small.latency.put", &put);
    keep("lists.latency", &a_second);
    let report = &mut result.report;
    report.shard = Some(RunShard {
        index,
        count,
        start_at: Some("2026-01-02T03:04:05.000Z".to_owned()),
        late_ms: Some(0.3),
        ..RunShard::default()
    });
    report.environment.host = format!("host-{index}");
    report.data_sets = vec![DataSet {
        name: "few".to_owned(),
        seed: Some(1),
        objects: 300,
        bytes: 300_000,
        has_mixed_sizes: false,
        fingerprint: Some("xxh3:0000000000000001/300".to_owned()),
    }];
    report.cases = vec![case];
    GeneratorResult {
        name: format!("shard-{index}"),
        result,
    }
}

/// Returns as many generators, each with its own requests, and the times of all requests.
fn parts(count: u32) -> (Vec<GeneratorResult>, Vec<u64>) {
    let own = |index: u32| -> Vec<u64> {
        let from = u64::from(index);
        (0..200 + from)
            .map(|n| 100 + 37 * n * (from + 1) % 9_001)
            .collect()
    };
    let all = (0..count).flat_map(own).collect();
    let parts = (0..count).map(|index| part(index, count, &own(index)));
    (parts.collect(), all)
}

fn merged(parts: Vec<GeneratorResult>) -> SavedResult {
    merge(parts, vec!["loadgen".to_owned(), "merge".to_owned()]).expect("parts of one run")
}

#[test]
fn eight_parts_are_what_one_generator_would_have_had() {
    let (mut parts, all) = parts(8);
    // The parts may be in any order.
    parts.rotate_left(3);
    parts.swap(0, 5);
    let merged = merged(parts);
    let report = &merged.report;
    let case = &report.cases[0];
    let n = all.len() as u64;
    assert_eq!((case.requests, case.errors, case.valid), (n, 0, true));
    assert_eq!(case.latency_ms, quantiles(&all));
    let small = &case.loads[0];
    assert_eq!(small.latency_ms, quantiles(&all));
    assert_eq!(
        (&small.service_ms, &small.lag_ms),
        (&small.latency_ms, &small.latency_ms)
    );
    assert_eq!(
        (small.requests, small.clients, small.connections),
        (n, 1, Some(8))
    );
    assert_eq!(small.offered_per_s, Some(100.0), "the whole rate again");
    assert_eq!(case.requests_per_s, Some(n as f64 / 10.0));
    let kinds: u64 = small.kinds.iter().map(|kind| kind.requests).sum();
    assert_eq!((small.kinds.len(), kinds), (2, n));
    assert_eq!(small.kinds[0].conflicts, 8);
    let of_kinds = small.kinds.iter().map(|kind| kind.latency_ms.as_ref());
    assert_eq!(of_kinds.flatten().map(|q| q.n).sum::<u64>(), n);
    let lists = &case.loads[1];
    assert_eq!((lists.clients, lists.requests), (8, 8));
    assert_eq!(lists.latency_ms.as_ref().map(|q| q.n), Some(8));
    // The generators' costs are added; the servers' costs are those of the first generator.
    let client = case.client.as_ref().expect("figures");
    assert_eq!((client.cpu_s, client.rss_peak), (Some(4.0), Some(17)));
    let server = case.server.as_ref().expect("figures");
    assert_eq!((server.cpu_s, server.rss_peak), (Some(1.0), 1_000));
    assert!(
        merged.load_intervals.is_empty(),
        "{:?}",
        merged.load_intervals
    );
    assert_eq!(merged.series.len(), 1);
    assert_eq!(
        (&*merged.series[0].process, &merged.series[0].case),
        ("loadgen-0", &case.id())
    );
    // The merged result lists each generator.
    assert_eq!(report.shard, None);
    let hosts: Vec<_> = report
        .generators
        .iter()
        .map(|one| one.host.as_str())
        .collect();
    assert_eq!(hosts[..2], ["host-0", "host-1"]);
    assert_eq!(report.generators[7].requests, 207);
    assert_eq!(
        report.thresholds[0].met,
        Some(true),
        "thresholds are of the whole"
    );
    assert_eq!(report.environment.command, ["loadgen", "merge"]);
    // The log is that of an ordinary result.
    let mut log = Vec::new();
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    write_log(&mut log, epoch, &merged.histograms).expect("a vector takes everything");
    let read = read_log(&log).expect("it was just written");
    assert_eq!(read.len(), 7);
    assert_eq!(read[0].histogram.n(), n);
}

#[test]
fn one_bad_part_spoils_the_whole() {
    let spoiled = |spoil: &dyn Fn(&mut GeneratorResult)| {
        let (mut parts, _) = parts(3);
        spoil(&mut parts[1]);
        let case = merged(parts).report.cases.remove(0);
        assert!(!case.valid);
        case.outcome
    };
    let invalid = spoiled(&|part| {
        let case = &mut part.result.report.cases[0];
        case.outcome = Outcome::Invalid {
            reason: "the generator was late".to_owned(),
        };
        case.valid = false;
    });
    let reason = "generator 1: the generator was late".to_owned();
    assert_eq!(invalid, Outcome::Invalid { reason });
    let failed = spoiled(&|part| {
        let case = &mut part.result.report.cases[0];
        case.outcome = Outcome::Failed {
            reason: "stale".to_owned(),
        };
    });
    let reason = "generator 1: stale".to_owned();
    assert_eq!(failed, Outcome::Failed { reason });
    let late = spoiled(&|part| {
        let shard = part.result.report.shard.as_mut().expect("one");
        shard.late_ms = Some(250.0);
    });
    let reason = "generator 1: its load began 250 ms late".to_owned();
    assert_eq!(late, Outcome::Invalid { reason });
}

/// A defect of the second of three parts, or of all of them, and the expected message.
type Bad = (&'static str, fn(&mut Vec<GeneratorResult>), &'static str);

const BAD: [Bad; 19] = [
    ("none", Vec::clear, "no results to merge"),
    (
        "a missing one",
        |parts| drop(parts.remove(1)),
        "of 3 generators 1 is missing",
    ),
    (
        "two missing",
        |parts| parts.truncate(1),
        "of 3 generators 1, 2 are missing",
    ),
    (
        "one twice",
        |parts| {
            parts[2] = GeneratorResult {
                name: "again".to_owned(),
                ..parts[1].clone()
            }
        },
        "generator 1 is given twice: shard-1 and again",
    ),
    (
        "a whole run",
        |parts| parts[1].result.report.shard = None,
        "shard-1 is no shard of a run",
    ),
    (
        "a number that is none",
        |parts| shard(parts).index = 3,
        "shard-1 holds no whole share of the load: it says that it is generator 3 of 3",
    ),
    (
        "another number of generators",
        |parts| shard(parts).count = 4,
        "shard-0 and shard-1 are of different runs: the number of generators is 3 in one and 4 in the other",
    ),
    (
        "another beginning",
        |parts| shard(parts).start_at = Some("2027".to_owned()),
        "the beginning (--start-at) is 2026-01-02T03:04:05.000Z in one and 2027 in the other",
    ),
    (
        "another scenario",
        |parts| parts[1].result.report.scenario = "other".to_owned(),
        "the scenario is made-up in one and other in the other",
    ),
    (
        "other flags",
        |parts| {
            let text = &mut parts[1].result.scenario_toml;
            *text = text.replace("poisson = 100", "poisson = 200");
        },
        "poisson = 200",
    ),
    (
        "another seed",
        |parts| parts[1].result.report.data_sets[0].seed = Some(2),
        "the seed is 1 in one and 2 in the other",
    ),
    (
        "other objects",
        |parts| parts[1].result.report.data_sets[0].fingerprint = None,
        "the fingerprint is xxh3:0000000000000001/300 in one and none in the other",
    ),
    (
        "another target",
        |parts| parts[1].result.report.cases[0].target = "http://f:1".to_owned(),
        "the target is http://e:2379 in one and http://f:1 in the other",
    ),
    (
        "another version",
        |parts| parts[1].result.report.environment.version = "9".to_owned(),
        "the version of loadgen is",
    ),
    (
        "an interrupted one",
        |parts| parts[1].result.report.interrupted = true,
        "shard-1 holds no whole share of the load: it was interrupted",
    ),
    (
        "one that never began",
        |parts| {
            parts[1].result.report.cases[0].outcome = Outcome::NotApplicable {
                reason: "not begun".to_owned(),
            };
        },
        "shard-1 holds no whole share of the load: not begun",
    ),
    (
        "two cases",
        |parts| {
            let cases = &mut parts[1].result.report.cases;
            cases.push(cases[0].clone());
        },
        "it has 2 cases, not one",
    ),
    (
        "a log that was cut off",
        |parts| drop(parts[1].result.histograms.pop()),
        "shard-1: histograms.hlog has 0 times of `lists.latency` and report.json 1",
    ),
    (
        "a log of another run",
        |parts| {
            parts[1].result.histograms[0].histogram = of_us(&[1, 2, 3]);
        },
        "shard-1: histograms.hlog has 3 times of `latency` and report.json 201",
    ),
];

fn shard(parts: &mut [GeneratorResult]) -> &mut RunShard {
    parts[1].result.report.shard.as_mut().expect("one")
}

#[test]
fn what_does_not_belong_together_is_refused_by_name() {
    for (name, spoil, says) in BAD {
        let (mut parts, _) = parts(3);
        spoil(&mut parts);
        let refused = merge(parts, Vec::new()).expect_err(name).to_string();
        assert!(refused.contains(says), "{name}: {refused}");
        assert_eq!(refused.lines().count(), 1, "{name}: {refused}");
    }
}

proptest! {
    #[test]
    fn merged_times_are_those_of_all_requests_together(
        values in prop::collection::vec(1..10_000_000_u64, 1..2_000),
        count in 1..9_u32,
    ) {
        let own = |index: u32| -> Vec<u64> {
            let own = values.iter().skip(index as usize).step_by(count as usize);
            own.copied().collect()
        };
        let parts: Vec<GeneratorResult> = (0..count).map(|index| part(index, count, &own(index))).collect();
        let merged = merge(parts, Vec::new());
        let merged = merged.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&merged.report.cases[0].latency_ms, &quantiles(&values));
        let whole = of_us(&values);
        let log = &merged.histograms;
        let added = log.iter().find(|one| one.measure == "latency");
        let added = added.map(|one| one.histogram.histogram_ns());
        prop_assert_eq!(added, Some(whole.histogram_ns()));
    }
}
