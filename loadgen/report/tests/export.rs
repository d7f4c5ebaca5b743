//! Saved results in the formats of other programs: every value that there is, and none that is not.

#[path = "support/synthetic.rs"]
mod synthetic;

use std::collections::BTreeMap;

use report::export::csv::{TITLES, csv};
use report::export::go_benchmark::go_benchmark;
use report::result::{SavedResult, ServerStart};

/// A result of which one case was measured on three starts.
fn result() -> SavedResult {
    let mut result = synthetic::result(1.0);
    let case = &mut result.report.cases[2];
    case.starts = vec![ServerStart::of(case); 3];
    // A clock that did not move, and a figure that nobody took.
    case.starts[1].server_cpu_s_per_request = Some(0.0);
    case.starts[2].peak_above_idle = None;
    result
}

fn counted(result: &SavedResult) -> usize {
    let cases = result.report.cases.iter().filter(|case| case.counts());
    cases.map(|case| case.server_starts().len()).sum()
}

#[test]
fn go_benchmark_text_has_a_line_for_each_start_of_what_counts() {
    let result = result();
    let text = go_benchmark(std::slice::from_ref(&result));
    let (mut lines, mut keys, mut units) = (Vec::new(), BTreeMap::new(), 0);
    for line in text.lines() {
        if line.starts_with("Benchmark") {
            lines.push(line);
        } else if let Some(unit) = line.strip_prefix("Unit ") {
            assert!(unit.contains(" better="), "{line}");
            units += 1;
        } else {
            let (key, value) = line.split_once(": ").expect("a key of the file");
            assert!(key.chars().all(|c| c.is_ascii_lowercase()), "{line}");
            keys.insert(key, value);
        }
    }
    assert_eq!(lines.len(), counted(&result));
    assert_eq!(keys["scenario"], "synthetic");
    // A commit or a time among them, and benchstat compares nothing.
    assert_eq!(keys.into_keys().collect::<Vec<_>>(), ["cpu", "scenario"]);
    assert_eq!(units, 11);
    for line in &lines {
        let mut words = line.split(' ').skip(1);
        let n: u64 = words.next().expect("a number").parse().expect("a number");
        assert!(n > 0, "{line}");
        let words: Vec<_> = words.collect();
        assert_eq!(words.len() % 2, 0, "values and units: {line}");
        for pair in words.chunks(2) {
            let value: f64 = pair[0].parse().expect("a number");
            let is_size = pair[1].ends_with("-B");
            assert!(value > 0.0 || is_size && value == 0.0, "{line}");
        }
    }
    let name = "BenchmarkList/data=pods-150k/tier=etcd/target=bench/strategy=stream ";
    let starts: Vec<_> = lines.iter().filter(|line| line.starts_with(name)).collect();
    assert_eq!(starts.len(), 3);
    assert!(starts[0].contains("server-cpu-ns/op") && starts[0].contains("above-idle-B"));
    assert!(!starts[1].contains("server-cpu"), "{}", starts[1]);
    assert!(!starts[2].contains("above-idle"), "{}", starts[2]);
    assert!(starts[0].contains(" 1515000000 wire-B"), "{}", starts[0]);
}

#[test]
fn csv_has_one_value_a_line_and_reasons_where_there_is_none() {
    let result = result();
    let text = csv(&[("run-1".to_owned(), result.clone())]).expect("it can be written");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().expect("titles"), &TITLES[..]);
    let lines: Vec<BTreeMap<String, String>> = reader
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("lines");
    for line in &lines {
        assert_eq!(line["run"], "run-1");
        assert_eq!(line["fingerprint"], "00c0ffee00c0ffee");
        match line["valid"].as_str() {
            "true" => {
                let value: f64 = line["value"].parse().expect("a number");
                let is_size = line["unit"] == "bytes";
                assert!(value > 0.0 || is_size && value == 0.0, "{line:?}");
                assert!(line["reason"].is_empty());
            }
            _ => assert!(
                line["value"].is_empty() && !line["reason"].is_empty(),
                "{line:?}"
            ),
        }
    }
    let of = |metric: &str, statistic: &str| {
        let lines = lines.iter().filter(|line| {
            line["target"] == "bench"
                && line["case"] == "etcd/stream"
                && line["metric"] == metric
                && line["statistic"] == statistic
        });
        lines.map(|line| line["start"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("latency", "p50"), ["0", "1", "2"]);
    assert_eq!(of("server_cpu", "mean"), ["0", "2"]);
    assert_eq!(of("peak_memory", "max"), ["0", "1"]);
    let not_measured = lines.iter().filter(|line| line["valid"] == "false").count();
    let cases = result.report.cases.iter();
    assert_eq!(not_measured, cases.filter(|case| !case.counts()).count());
}
