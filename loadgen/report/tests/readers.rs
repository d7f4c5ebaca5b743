//! Tests exported formats with the parsers of other programs: benchstat, prometheus-client, the
//! schema of github-action-benchmark, junitparser.

#[path = "support/synthetic.rs"]
mod synthetic;

use std::path::Path;
use std::process::Command;

use report::compare::{Options, Sides, compare, junit};
use report::export::github_action_benchmark::github_action_benchmark;
use report::export::go_benchmark::go_benchmark;
use report::export::openmetrics::openmetrics;
use report::result::{Case, Outcome, SavedResult};
use serde_json::Value;
use test_support::program_or_skip;

/// The variation among runs on one machine: 2 % in either direction.
const MOODS: [f64; 6] = [1.0, 0.99, 1.02, 0.98, 1.01, 1.0];

/// Returns runs of one build, one every second minute from `first` on. `speed` stretches the times
/// of `bench`.
fn runs(first: usize, speed: f64) -> Vec<SavedResult> {
    let runs = MOODS.iter().enumerate().map(|(n, mood)| {
        let mut result = synthetic::result(speed * mood);
        result.report.started = format!("2026-01-02T03:{:02}:00.250Z", first + 2 * n);
        result
    });
    runs.collect()
}

/// Writes texts into files, lets the program read them, and returns its output.
#[track_caller]
fn read(program: &Path, arguments: &[&str], files: &[(&str, &str)]) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder.path());
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a writable folder");
        command.arg(name);
    }
    let output = command.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn benchstat_compares_two_builds() {
    let Some(benchstat) = program_or_skip("BENCHSTAT_BIN", "benchstat") else {
        return;
    };
    let (base, new) = (go_benchmark(&runs(0, 1.0)), go_benchmark(&runs(1, 1.3)));
    let files = [("base", base.as_str()), ("new", new.as_str())];
    let table = read(&benchstat, &["-format", "csv"], &files).expect("it takes both");
    let line = |of: &str, part: &str| -> Vec<String> {
        let of_unit = table.split("\n\n").find(|unit| unit.contains(of));
        let lines = of_unit.unwrap_or_else(|| panic!("no {of} in {table}"));
        let line = lines.lines().find(|line| line.starts_with(part));
        let line = line.unwrap_or_else(|| panic!("no {part} in {lines}"));
        line.split(',').map(str::to_owned).collect()
    };
    // benchstat scales nanoseconds to seconds. Both files are in one table, with all of their
    // starts.
    let stream = "List/data=pods-150k/tier=etcd/target=bench/strategy=stream";
    let time = line(",sec/op", stream);
    let is_about = |text: &str, value: f64| {
        let number: f64 = text.trim_end_matches('%').parse().expect("a number");
        assert!((number / value - 1.0).abs() < 0.01, "{text}, not {value}");
    };
    is_about(&time[1], 0.64);
    is_about(&time[5], 30.0);
    assert!(time[6].contains("n=6"), "{time:?}");
    is_about(&line(",above-idle-B", stream)[5], 30.0);
    is_about(&line(",wire-B", stream)[1], 1.515e9);
    assert!(
        !table.contains("consistent"),
        "what is invalid is not there: {table}"
    );
}

#[test]
fn openmetrics_passes_the_strict_parser() {
    let Some(readers) = program_or_skip("READERS_BIN", "readers") else {
        return;
    };
    let results = runs(0, 1.0);
    let text = openmetrics(&results).expect("they go together");
    let parsed = read(&readers, &["openmetrics"], &[("metrics", &text)]);
    let families = json(&parsed.expect("it is accepted"));
    let families = families.as_array().expect("a list");
    let mut samples = 0;
    for family in families {
        assert_eq!(family["type"], "gauge", "{family}");
        for sample in family["samples"].as_array().expect("a list") {
            let (value, unit) = (sample["value"].as_f64().expect("a number"), &family["unit"]);
            assert!(value > 0.0 || unit == "bytes" && value >= 0.0, "{sample}");
            samples += 1;
        }
    }
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(samples, lines);
    let is_stream = |sample: &&Value| {
        let labels = &sample["labels"];
        labels["case"] == "etcd/stream"
            && labels["target"] == "bench"
            && labels["quantile"] == "0.5"
    };
    let latency = families
        .iter()
        .find(|it| it["name"] == "loadgen_latency_seconds");
    let latency = latency.expect("a family")["samples"]
        .as_array()
        .expect("a list");
    let stream: Vec<&Value> = latency.iter().filter(is_stream).collect();
    assert_eq!(stream.len(), 6, "one for each run");
    assert_eq!(stream[0]["timestamp"], 1_767_322_800.25, "seconds");
    let seconds = stream[0]["value"].as_f64().expect("a number");
    assert!((seconds - 0.64).abs() < 0.01, "{seconds}");

    let cut = text.replace("# EOF\n", "");
    let refused = read(&readers, &["openmetrics"], &[("metrics", &cut)]);
    refused.expect_err("the parser tells one text from another");
}

#[test]
fn github_action_benchmark_takes_every_entry_as_it_is() {
    let Some(zod) = program_or_skip("ZOD_BIN", "zod") else {
        return;
    };
    let text = github_action_benchmark(&runs(0, 1.0)).expect("they go together");
    let parsed = read(&zod, &[], &[("benchmarks.json", &text)]).expect("it is accepted");
    let (parsed, written) = (json(&parsed), json(&text));
    let entries = |of: &Value| of.as_array().expect("a list").clone();
    assert_eq!(entries(&parsed).len(), entries(&written).len());
    // The schema coerces values to numbers and texts, so a coerced value would differ from the
    // written one.
    for (read, written) in entries(&parsed).iter().zip(&entries(&written)) {
        for text in ["name", "unit", "range", "extra"] {
            assert_eq!(read[text], written[text], "{written}");
        }
        assert_eq!(
            read["value"].as_f64(),
            written["value"].as_f64(),
            "{written}"
        );
    }
    let mut emptied = json(&text);
    emptied[0]["value"] = Value::Null;
    let text = emptied.to_string();
    let parsed = read(&zod, &[], &[("benchmarks.json", &text)]).expect("it is accepted");
    assert_eq!(
        json(&parsed)[0]["value"],
        0,
        "what a missing figure would become"
    );
}

#[test]
fn junit_has_a_test_for_each_deciding_metric() {
    let Some(readers) = program_or_skip("READERS_BIN", "readers") else {
        return;
    };
    let base = runs(0, 1.0);
    let mut new = runs(1, 1.3);
    let find =
        |result: &mut SavedResult, target: &str, strategy: &str, change: &dyn Fn(&mut Case)| {
            let mut cases = result.report.cases.iter_mut();
            let case = cases.find(|case| case.target == target && case.strategy == strategy);
            change(case.expect("it is there"));
        };
    for result in &mut new {
        find(result, "bench", "unary", &|case| {
            case.outcome = Outcome::Failed {
                reason: "the server said \"<no>\" & died".to_owned(),
            };
        });
        find(result, "bench", "stream", &|case| {
            case.encoding = Some("other".to_owned());
        });
        find(result, "bench", "paged:500", &|case| {
            let server = case.server.as_mut().expect("it has one");
            server.cpu_s_per_request = None;
        });
    }
    let sides = Sides::of_runs(&base, &new, None);
    let comparison = compare(&sides, &Options::default()).expect("the same work");
    let text = junit::junit(&comparison);
    let parsed = read(&readers, &["junit"], &[("compare.xml", &text)]);
    let suites = json(&parsed.expect("it is accepted"));
    let [suite] = &suites.as_array().expect("a list")[..] else {
        panic!("one suite: {suites}");
    };
    let cases = suite["cases"].as_array().expect("a list");
    let result_of = |class: &str, name: &str| {
        let found = cases.iter().find(|it| {
            let of = it["class"].as_str().expect("a name");
            of.ends_with(class) && of.contains("bench") && it["name"] == name
        });
        let found = found.or_else(|| {
            cases
                .iter()
                .find(|it| it["class"] == class && it["name"] == name)
        });
        found.unwrap_or_else(|| panic!("no {name} of {class}: {cases:#?}"))["results"].clone()
    };
    let kind = |class, name| result_of(class, name)[0]["kind"].clone();
    let message = |class, name| result_of(class, name)[0]["message"].to_string();
    assert_eq!(kind("pods-150k/etcd/paged:10000", "p50"), "Failure");
    assert!(message("pods-150k/etcd/paged:10000", "p50").contains("worse by 5 % or more"));
    assert_eq!(kind("pods-150k/etcd/unary", "all metrics"), "Failure");
    let part = r#"gone: FAILED: the server said \"<no>\" & died"#;
    assert!(message("pods-150k/etcd/unary", "all metrics").contains(part));
    assert_eq!(kind("pods-150k/etcd/stream", "all metrics"), "Error");
    assert_eq!(kind("pods-150k/etcd/paged:500", "server_cpu"), "Skipped");
    let part = "no such value in the new result";
    assert!(message("pods-150k/etcd/paged:500", "server_cpu").contains(part));
    let count = |kind: &str| {
        let of_kind = cases
            .iter()
            .filter(|case| case["results"][0]["kind"] == kind);
        of_kind.count()
    };
    assert_eq!(suite["tests"], cases.len());
    assert_eq!(suite["failures"], count("Failure"));
    assert_eq!(suite["errors"], count("Error"));
    assert_eq!(suite["skipped"], count("Skipped"));
    // etcd has the same values on both sides.
    let passed = cases
        .iter()
        .filter(|case| case["results"] == serde_json::json!([]));
    assert!(passed.count() >= 6, "{cases:#?}");
}
