//! `loadgen compare` on made-up results that are saved and read back.

#[path = "../report/tests/support/synthetic.rs"]
mod synthetic;

use std::path::{Path, PathBuf};

use loadgen::cli::{CompareArgs, Percent};
use loadgen::exit::Exit;
use report::compare::{self, Metric, Verdict};
use report::result::{Outcome, ResultFolder, SavedResult};

fn save(parent: &Path, name: &str, result: &SavedResult) -> PathBuf {
    let folder = ResultFolder::create(parent, name).expect("a fresh name");
    folder.write(result).expect("a writable folder");
    folder.finish().expect("a free name")
}

fn compared(
    base: &SavedResult,
    new: &SavedResult,
    fail_above: Option<f64>,
) -> Result<(String, Exit), String> {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let args = CompareArgs {
        base: save(parent.path(), "base", base),
        new: save(parent.path(), "new", new),
        fail_above: fail_above.map(Percent),
        metrics: Vec::new(),
    };
    loadgen::compare::run(&args).map_err(|failure| {
        assert_eq!(failure.exit, Exit::Usage, "{failure}");
        failure.to_string()
    })
}

#[test]
fn the_same_result_twice_is_no_difference() {
    let result = synthetic::result(1.0);
    let (text, exit) = compared(&result, &result, Some(0.0)).expect("the same work");
    assert_eq!(exit, Exit::Done, "{text}");
    assert!(
        !text.contains("WORSE") && !text.contains("better"),
        "{text}"
    );
}

#[test]
fn half_as_fast_is_lost_and_twice_as_fast_is_not() {
    let (base, slower) = (synthetic::result(1.0), synthetic::result(2.0));
    let (text, exit) = compared(&base, &slower, Some(0.1)).expect("the same work");
    assert_eq!(exit, Exit::TargetFailed, "{text}");
    assert!(
        text.contains("+100.0 %") && text.contains("WORSE") && text.contains("LOST"),
        "{text}"
    );
    let (text, exit) = compared(&slower, &base, Some(0.1)).expect("the same work");
    assert_eq!(exit, Exit::Done, "{text}");
    assert!(text.contains("better"), "{text}");
    assert_eq!(
        compared(&base, &slower, None).expect("the same work").1,
        Exit::Done,
        "without a threshold nothing is lost"
    );
}

#[test]
fn a_row_that_was_not_measured_again_is_lost() {
    let base = synthetic::result(1.0);
    let mut fewer = base.clone();
    let gone = fewer.report.cases.remove(0);
    let (text, exit) = compared(&base, &fewer, Some(0.1)).expect("the same work");
    assert_eq!(exit, Exit::TargetFailed, "{text}");
    let line = format!("GONE: {}: not measured", gone.id());
    assert!(text.contains(&line), "{text}");
}

#[test]
fn a_difference_within_the_threshold_is_not_lost_however_sure() {
    let (base, slower) = (synthetic::result(1.0), synthetic::result(1.5));
    assert_eq!(
        compared(&base, &slower, Some(0.6))
            .expect("the same work")
            .1,
        Exit::Done
    );
    assert_eq!(
        compared(&base, &slower, Some(0.4))
            .expect("the same work")
            .1,
        Exit::TargetFailed
    );
}

#[test]
fn a_large_difference_between_small_samples_is_not_sure() {
    let (mut base, slower) = (synthetic::result(1.0), synthetic::result(2.0));
    for case in &mut base.report.cases {
        if let Some(server) = &mut case.server {
            server.peaks_above_idle.truncate(4);
        }
    }
    let comparison =
        compare::compare(&base, &slower, &[Metric::PeakMemory], 0.1).expect("the same work");
    assert!(!comparison.lines.is_empty());
    assert!(
        comparison
            .lines
            .iter()
            .all(|line| line.verdict == Verdict::Same),
        "{comparison:?}"
    );
    assert!(
        comparison.text().contains("too few values: 4 and 5"),
        "{}",
        comparison.text()
    );
}

#[test]
fn a_row_that_no_longer_works_is_lost() {
    let (base, mut broken) = (synthetic::result(1.0), synthetic::result(1.0));
    broken.report.cases[0].outcome = Outcome::Failed {
        reason: "the server died".into(),
    };
    let (text, exit) = compared(&base, &broken, Some(0.1)).expect("the same work");
    assert_eq!(exit, Exit::TargetFailed, "{text}");
    assert!(
        text.contains("GONE: pods-150k/bench/etcd/unary: FAILED: the server died"),
        "{text}"
    );
}

#[test]
fn different_work_is_refused_with_what_differs() {
    let base = synthetic::result(1.0);
    let refused = |change: fn(&mut SavedResult)| {
        let mut other = synthetic::result(1.0);
        change(&mut other);
        compared(&base, &other, None).expect_err("not the same work")
    };
    let scenario = refused(|other| other.report.scenario = "another".into());
    assert!(
        scenario.contains("the scenario is synthetic in the first and another in the second"),
        "{scenario}"
    );
    let objects = refused(|other| other.report.data_sets[0].objects = 10_000);
    assert!(
        objects.contains("objects of pods-150k is 150,000 in the first and 10,000"),
        "{objects}"
    );
    let encoding = refused(|other| other.report.cases[1].encoding = Some("buffered".into()));
    assert!(
        encoding.contains("the encoding of pods-150k/bench/etcd/unary-incremental"),
        "{encoding}"
    );
    let nothing = refused(|other| other.report.cases.clear());
    assert!(nothing.contains("no row in common"), "{nothing}");
}

#[test]
fn what_differs_in_machine_and_servers_is_said_and_what_is_not_told_is_not() {
    let (mut base, mut new) = (synthetic::result(1.0), synthetic::result(1.0));
    let notes = |base: &SavedResult, new: &SavedResult| {
        let comparison = compare::compare(base, new, &[Metric::PeakMemory], 0.1);
        comparison.expect("the same work").warnings
    };
    let flags = |port: u16, more: &str| {
        let url = format!("http://127.0.0.1:{port}");
        vec!["--listen-client-urls".into(), url, more.to_owned()]
    };
    base.report.environment.servers[1].flags = flags(1, "--snapshot-count=1");
    new.report.environment.servers[1].flags = flags(2, "--snapshot-count=1");
    // A result from before these were told.
    new.report.environment.congestion_control = Some("bbr".into());
    new.report.environment.free_page_lists = Some(8);
    new.report.environment.free_page_reporting = Some(true);
    new.report.environment.memory_bytes -= 4 << 20;
    // And one with a scenario that cannot be read any more.
    assert_eq!(notes(&base, &new), Vec::<String>::new());

    base.report.environment.congestion_control = Some("cubic".into());
    base.report.environment.free_page_lists = Some(0);
    base.report.environment.free_page_reporting = Some(false);
    new.report.environment.cores = 64;
    let scenario = |warmup: u32| {
        format!(
            r#"
name = "synthetic"
summary = "to compare"
repeats = 3
warmup = {warmup}
[rows]
etcd = ["stream"]
[[data_set]]
name = "pods-150k"
kind = "raw"
objects = 10
object_size = 100
seed = 1
"#
        )
    };
    base.scenario_toml = scenario(1);
    new.scenario_toml = scenario(12);
    new.report.environment.memory_bytes = 96 << 30;
    new.report.environment.servers[1].program = "etcd 3.8.0".into();
    new.report.environment.servers[1].flags = flags(2, "--snapshot-count=9");
    let notes = notes(&base, &new);
    let begins = [
        "different number of cores: 2 and 64;",
        "different memory: 24.0 GiB and 96.0 GiB;",
        "different TCP congestion control: cubic and bbr;",
        "different vm.percpu_pagelist_high_fraction (lists of free pages): 0 and 8;",
        "different handling of free pages by the machine's host: leaves them and takes them back;",
        "different warm-up: 1 and 12 rounds;",
        "different program of etcd: etcd 3.7.1 and etcd 3.8.0",
        "different flags of etcd: only in the first --snapshot-count=1; only in the second --snapshot-count=9",
    ];
    assert_eq!(notes.len(), begins.len(), "{notes:?}");
    for (note, begin) in notes.iter().zip(begins) {
        assert!(note.starts_with(begin), "{note}");
    }
}

#[test]
fn what_is_no_result_is_named() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let args = |base: PathBuf| CompareArgs {
        base,
        new: parent.path().join("new"),
        fail_above: None,
        metrics: Vec::new(),
    };
    let failure =
        loadgen::compare::run(&args(parent.path().join("missing"))).expect_err("no such folder");
    assert!(
        failure
            .to_string()
            .contains("missing is not a result: it holds no report.json"),
        "{failure}"
    );
}
