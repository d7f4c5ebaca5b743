use std::path::{Path, PathBuf};

use super::*;
use crate::result::{Environment, Threshold};

fn threshold(name: &str, value: Option<f64>, met: Option<bool>) -> Threshold {
    Threshold {
        name: name.into(),
        source: None,
        data_set: "pods".into(),
        row: "etcd/stream".into(),
        metric: "latency_ms.p50".into(),
        target: "bench".into(),
        limit: 600.0,
        at_least: false,
        basis: None,
        figure: value,
        range: None,
        likely: None,
        base: None,
        value,
        resolution: None,
        met,
        others: Vec::new(),
    }
}

fn report(scenario: &str, thresholds: Vec<Threshold>) -> Report {
    Report {
        schema_version: crate::result::SCHEMA_VERSION,
        scenario: scenario.into(),
        started: "2026-11-24T10:00:00.000Z".into(),
        elapsed_s: 1.0,
        interrupted: false,
        shard: None,
        generators: Vec::new(),
        environment: Environment::default(),
        data_sets: Vec::new(),
        ab: None,
        cases: Vec::new(),
        growth: Vec::new(),
        thresholds,
        conformance: Vec::new(),
    }
}

fn suite() -> SuiteResult {
    SuiteResult {
        schema_version: SCHEMA_VERSION,
        suite: "mine".into(),
        started: "2026-11-24T10:00:00.000Z".into(),
        elapsed_s: 90.0,
        command: vec!["loadgen".into(), "suite".into(), "mine".into()],
        small: false,
        interrupted: false,
        runs: Vec::new(),
        notes: vec!["second ended with exit code 3".into()],
        thresholds: Vec::new(),
    }
}

fn judged(parent: &Path, reports: &[(&str, Report)]) -> SuiteResult {
    let mut result = suite();
    let folders: Vec<PathBuf> = reports.iter().map(|(name, _)| parent.join(name)).collect();
    for folder in &folders {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    let reports = reports.iter().map(|(_, report)| report);
    result.judge(folders.iter().map(PathBuf::as_path).zip(reports));
    result
}

#[test]
fn each_threshold_counts_once_as_the_worst_run_with_a_figure_has_it() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let first = report(
        "lists",
        vec![
            threshold("time", Some(500.0), Some(true)),
            threshold("pages", None, None),
            threshold("close", Some(599.0), None),
            threshold("kept", Some(400.0), Some(true)),
        ],
    );
    let second = report(
        "lists",
        vec![
            threshold("time", Some(700.0), Some(false)),
            threshold("pages", Some(900.0), Some(false)),
            threshold("close", Some(500.0), Some(true)),
            threshold("kept", Some(401.0), Some(true)),
        ],
    );
    let other = report("others", vec![threshold("time", None, None)]);
    let result = judged(
        parent.path(),
        &[("a-lists", first), ("b-lists", second), ("c-others", other)],
    );
    let expected = Verdict {
        met: 1,
        missed: 2,
        undecided: 1,
        unmeasured: 1,
    };
    assert_eq!(result.verdict(), expected);
    let of: Vec<_> = result
        .thresholds
        .iter()
        .map(|l| l.folder.as_str())
        .collect();
    assert_eq!(
        of,
        ["b-lists", "b-lists", "a-lists", "b-lists", "c-others"],
        "missed, missed, undecided, met by less"
    );
    // The order of the runs does not matter, and the lower of two rates is the worse one.
    let rate = |value| Threshold {
        at_least: true,
        ..threshold("rate", Some(value), Some(true))
    };
    let rates = [700.0, 650.0, 690.0].map(|value| report("rates", vec![rate(value)]));
    let [a, b, c] = rates;
    let result = judged(parent.path(), &[("a", a), ("b", b), ("c", c)]);
    assert_eq!(result.thresholds[0].folder, "b");
}

#[test]
fn drawn_again_it_is_judged_anew_and_saved() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let mut stale = suite();
    stale.thresholds = judged(
        parent.path(),
        &[("gone", report("lists", vec![threshold("old", None, None)]))],
    )
    .thresholds;
    let at = parent.path().join("suite");
    save(&stale, &at).expect("it is saved");
    let table = draw_again(&at).expect("no run is named");
    assert!(table.contains("0 thresholds"), "{table}");
    let saved = std::fs::read_to_string(at.join(SUITE_FILE)).expect("a file");
    let saved: SuiteResult = serde_json::from_str(&saved).expect("JSON");
    assert_eq!(saved.thresholds, Vec::new());
}

#[test]
fn a_run_is_looked_for_beside_the_suite_and_nowhere_else() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    for (number, name) in ["../elsewhere", "/etc", "a/b", "..", ".", ""]
        .into_iter()
        .enumerate()
    {
        let mut outside = suite();
        outside.runs.push(SuiteRun {
            scenario: "lists".into(),
            folder: Some(name.into()),
            exit: Some(0),
        });
        let at = parent.path().join(format!("suite-{number}"));
        save(&outside, &at).expect("it is saved");
        let error = draw_again(&at).expect_err(name).to_string();
        let says = format!("the folder of a run is `{name}`, which is no name beside it");
        assert!(error.contains(&says), "{error}");
    }
}

#[test]
fn the_verdict_is_one_table_with_how_often_limits_held_before() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let header = "date,commit,scenario,target,case,threshold,limit,value,met\n";
    let line = |day: u8, met: &str| {
        format!("2026-11-0{day}T00:00:00Z,c,lists,bench,pods etcd/stream,a|b,<= 600,1,{met}\n")
    };
    let history = format!("{header}{}{}", line(1, "no"), line(2, "yes"));
    std::fs::write(parent.path().join("thresholds.csv"), history).expect("it is written");
    let lists = report("lists", vec![threshold("a|b", Some(700.0), Some(false))]);
    let result = judged(parent.path(), &[("a-lists", lists)]);
    let table = text(&result, None);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (line, expected) in [
        (0, "scenario threshold case figure limit met held"),
        (
            2,
            "lists a|b pods etcd/stream 700 ms ≤ 600 ms NO in 1 of the last 2 runs",
        ),
        (
            4,
            "mine: 1 threshold: 0 met, 1 missed, 0 undecided, 0 not measured",
        ),
        (5, "- second ended with exit code 3"),
    ] {
        let found = table.lines().nth(line).map(words);
        assert_eq!(found.as_deref(), Some(expected), "{table}");
    }
    let page = markdown(&result);
    assert!(
        page.contains("| [lists](../a-lists/README.md) | a\\|b | pods etcd/stream |"),
        "{page}"
    );
}

#[test]
fn a_suite_of_another_version_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let newer = SuiteResult {
        schema_version: SCHEMA_VERSION + 1,
        ..suite()
    };
    let at = folder.path().join("newer");
    save(&newer, &at).expect("it is saved");
    assert!(is_suite(&at) && !is_suite(folder.path()));
    let error = draw_again(&at).expect_err("another version").to_string();
    assert!(
        error.contains("has schema version 2; this program reads version 1"),
        "{error}"
    );
    let error = save(&newer, &at).expect_err("there is one");
    assert!(matches!(error, SuiteError::File { .. }), "{error}");
}
