//! Tests the export to the formats of other programs: every existing value is exported, and nothing
//! else.

#[path = "support/synthetic.rs"]
mod synthetic;

use std::collections::BTreeMap;

use report::compare::Metric;
use report::export::ExportError;
use report::export::bencher::bencher;
use report::export::csv::{TITLES, csv};
use report::export::github_action_benchmark::github_action_benchmark;
use report::export::go_benchmark::go_benchmark;
use report::export::openmetrics::openmetrics;
use report::export::perfdash::perfdash;
use report::result::{SavedResult, ServerStart};
use serde_json::{Value, json};

/// Returns a result in which one case was measured on three starts.
fn result() -> SavedResult {
    let mut result = synthetic::result(1.0);
    let case = &mut result.report.cases[2];
    case.starts = vec![ServerStart::of(case); 3];
    // A clock that did not advance, and a metric that was not measured.
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
    // With a commit or a time among the keys, benchstat would compare nothing.
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
    let text = csv([("run-1".to_owned(), &result)]).expect("it can be written");
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

/// Returns two results of one build. The second has the values that the first lacks on some starts.
fn results() -> Vec<SavedResult> {
    let mut second = synthetic::result(1.1);
    second.report.started = "2026-01-02T04:04:05Z".to_owned();
    vec![result(), second]
}

/// Returns the number of values: metrics of cases that count, on both targets.
fn values(results: &[SavedResult], is_wanted: fn(Metric) -> bool) -> usize {
    let mut found: Vec<(String, Metric)> = Vec::new();
    for case in results.iter().flat_map(|result| &result.report.cases) {
        if !case.counts() {
            continue;
        }
        for start in case.server_starts() {
            for metric in <Metric as clap::ValueEnum>::value_variants() {
                let value = (case.id(), *metric);
                if is_wanted(*metric) && metric.of(&start).is_some() && !found.contains(&value) {
                    found.push(value);
                }
            }
        }
    }
    found.len()
}

/// Checks that a text contains no case that is invalid, N/A or failed.
fn assert_counts_only(text: &str) {
    assert!(!text.contains("consistent"), "invalid: {text}");
    assert!(!text.contains("etcd/unary-incremental/etcd"), "N/A: {text}");
    assert!(!text.contains("null") && !text.contains("NaN"), "{text}");
}

#[test]
fn bencher_metric_format_is_what_its_schema_says() {
    let results = results();
    let text = bencher(&results).expect("one build");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    // The schema from Bencher's reference.
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "minProperties": 1,
        "propertyNames": { "minLength": 1, "maxLength": 1024 },
        "additionalProperties": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": { "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 64 },
            "additionalProperties": {
                "type": "object",
                "required": ["value"],
                "additionalProperties": false,
                "properties": {
                    "value": { "type": "number" },
                    "lower_value": { "type": "number" },
                    "upper_value": { "type": "number" },
                },
            },
        },
    });
    jsonschema::validate(&schema, &found).expect("as published");
    let measures = found.as_object().expect("an object").values();
    let measures = measures.map(|measures| measures.as_object().expect("an object").len());
    assert_eq!(measures.sum::<usize>(), values(&results, |_| true));
    assert_counts_only(&text);
    let stream = &found["synthetic/pods-150k/etcd/stream/bench"];
    // The starts are three of 640 ms and one of 704 ms; values are in nanoseconds.
    let latency = stream["latency"]["value"].as_f64().expect("a number");
    assert!((latency / 640e6 - 1.0).abs() < 0.01, "{stream}");
    let upper = stream["latency"]["upper_value"].as_f64().expect("a number");
    assert!((upper / 704e6 - 1.0).abs() < 0.01, "{stream}");
    assert_eq!(stream["list-bytes"]["value"], 1_515_000_000.0);
    let alone = &found["synthetic/pods-150k/etcd/stream/etcd"]["latency"];
    assert!(alone["lower_value"].is_number(), "of two runs");
    let one = bencher(&results[..1]).expect("one run");
    let one: Value = serde_json::from_str(&one).expect("JSON");
    let alone = &one["synthetic/pods-150k/etcd/stream/etcd"]["latency"];
    assert!(
        alone["value"].is_number() && alone["lower_value"].is_null(),
        "of one start"
    );
}

#[test]
fn perf_data_has_one_key_and_one_unit_for_each_set_of_labels() {
    let results = results();
    let text = perfdash(&results).expect("one build");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    // The schema follows perfdash's Go types, which would allow any key in `data`.
    let schema = json!({
        "type": "object",
        "required": ["version", "dataItems"],
        "properties": {
            "version": { "const": "v1" },
            "dataItems": { "type": "array", "items": {
                "type": "object",
                "required": ["data", "unit", "labels"],
                "additionalProperties": false,
                "properties": {
                    "data": {
                        "type": "object",
                        "minProperties": 1,
                        "maxProperties": 1,
                        "additionalProperties": { "type": "number" },
                    },
                    "unit": { "type": "string", "minLength": 1 },
                    // perfdash would delete the labels `Count` and `SlowCount`.
                    "labels": {
                        "type": "object",
                        "required": ["Case", "Metric", "Target"],
                        "additionalProperties": false,
                        "properties": {
                            "Case": { "type": "string" },
                            "Metric": { "type": "string" },
                            "Target": { "enum": ["bench", "etcd"] },
                        },
                    },
                },
            }},
        },
    });
    jsonschema::validate(&schema, &found).expect("as perfdash reads it");
    let items = found["dataItems"].as_array().expect("a list");
    assert_eq!(items.len(), values(&results, |_| true));
    assert_counts_only(&text);
    let mut labels: Vec<String> = items
        .iter()
        .map(|item| item["labels"].to_string())
        .collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), items.len(), "each of its own labels");
    let mut units: BTreeMap<String, Vec<(&Value, String)>> = BTreeMap::new();
    for item in items {
        let key = item["data"].as_object().expect("an object").keys().next();
        let of_metric = units
            .entry(item["labels"]["Metric"].to_string())
            .or_default();
        of_metric.push((&item["unit"], key.expect("a key").clone()));
    }
    for (metric, units) in units {
        let is_first = |unit: &(&Value, String)| *unit == units[0];
        assert!(
            units.iter().all(is_first),
            "one unit and key for {metric}: {units:?}"
        );
    }
}

#[test]
fn github_action_benchmark_has_no_entry_of_which_more_is_better() {
    let mut results = results();
    results[0].report.cases[2].starts[0].requests_per_s = Some(7.0);
    let all = bencher(&results).expect("one build");
    assert!(all.contains("\"throughput\""), "{all}");
    let text = github_action_benchmark(&results).expect("one build");
    let entries: Value = serde_json::from_str(&text).expect("JSON");
    let entries = entries.as_array().expect("a list");
    assert_eq!(
        entries.len(),
        values(&results, |metric| metric != Metric::Rate)
    );
    assert_counts_only(&text);
    let mut names: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry["name"].as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), entries.len(), "the first of a name would win");
    let stream = entries
        .iter()
        .find(|it| it["name"] == "synthetic/pods-150k/etcd/stream/bench p50");
    let stream = stream.expect("an entry");
    assert_eq!(stream["unit"], "ms");
    let range = stream["range"].as_str().expect("a range");
    let range: f64 = range
        .strip_prefix("± ")
        .expect("a sign")
        .parse()
        .expect("a number");
    assert!((range / 64.0 - 1.0).abs() < 0.02, "{stream}");
    assert_eq!(stream["extra"], "4 starts\nbench-server 0.1.0");
}

#[test]
fn what_does_not_go_together_is_no_value() {
    type Format = fn(&[SavedResult]) -> Result<String, ExportError>;
    let formats: [Format; 4] = [bencher, perfdash, github_action_benchmark, openmetrics];
    let refused = |results: &[SavedResult], text: &str| {
        for format in formats {
            let error = format(results).expect_err(text).to_string();
            assert!(error.contains(text), "{error}");
        }
    };
    let mut twice = results();
    twice[1].report.started = twice[0].report.started.clone();
    refused(
        &twice,
        "the run of 2026-01-02T03:04:05Z on nowhere is given twice",
    );
    let mut machines = results();
    machines[1].report.environment.cores = 64;
    refused(
        &machines,
        "the number of cores is 2 in one run of synthetic and 64 in another",
    );
    let mut none = results();
    for case in none.iter_mut().flat_map(|result| &mut result.report.cases) {
        (case.requests, case.errors) = (5, 5);
        case.starts.clear();
    }
    refused(&none, "no case of these results counts");

    let mut builds = results();
    builds[1].report.environment.servers[1].program = "etcd 3.8.0".to_owned();
    for format in &formats[..3] {
        let error = format(&builds).expect_err("two builds").to_string();
        let text =
            "the build of etcd is etcd 3.7.1 in one run of synthetic and etcd 3.8.0 in another";
        assert!(error.contains(text), "{error}");
    }
    openmetrics(&builds).expect("a history has many builds");
    // Results of different scenarios have different names.
    builds[1].report.scenario = "another".to_owned();
    for format in formats {
        format(&builds).expect("apart by name");
    }
}

#[test]
fn a_name_holds_no_address() {
    let mut results = results();
    for result in &mut results {
        for case in &mut result.report.cases {
            if case.target == "etcd" {
                case.target = "https://10.1.2.3:2379".to_owned();
            }
        }
    }
    let texts = [
        bencher(&results).expect("one build"),
        perfdash(&results).expect("one build"),
        github_action_benchmark(&results).expect("one build"),
        openmetrics(&results).expect("one machine"),
        go_benchmark(&results),
        csv([("run-1".to_owned(), &results[0])]).expect("it can be written"),
    ];
    for text in texts {
        assert!(
            !text.contains("10.1.2.3") && text.contains("endpoint"),
            "{text}"
        );
    }
}
