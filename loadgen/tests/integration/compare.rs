//! `loadgen compare` on synthetic results: verdicts, refused results, and exit codes.

mod comparable;
mod forms;
mod matching;

use std::fs;
use std::path::{Path, PathBuf};

use report::compare::json::Document;
use report::compare::{
    CompareError, Comparison, Condition, End, Line, Metric, Options, Reason, Sides, Unjudged,
    Verdict, chart, compare, markdown, text,
};
use report::result::{Case, Outcome, Quantiles, ResultFolder, SavedResult, ServerStart};
use tempfile::TempDir;
use workloads::strategy::Tier;

use crate::support::{program, synthetic};

/// Factors of the runs of one machine, which vary by up to 2 % in either direction.
const MOODS: [f64; 6] = [1.0, 0.99, 1.02, 0.98, 1.01, 1.0];

/// A change that is made to a result.
type Change = fn(&mut SavedResult);

/// Returns a run with its own start time. `speed` scales the times and sizes of the target `bench`.
fn run(nth: usize, speed: f64) -> SavedResult {
    let mut result = synthetic::result(speed);
    result.report.started = format!("2026-01-02T03:{nth:02}:00Z");
    result
}

/// Returns the runs of one side, one every second minute from `first` on.
fn side(first: usize, speed: f64, runs: usize) -> Vec<SavedResult> {
    let moods = MOODS.iter().cycle().take(runs).enumerate();
    moods
        .map(|(n, mood)| run(first + 2 * n, speed * mood))
        .collect()
}

fn changed(mut side: Vec<SavedResult>, change: impl Fn(&mut SavedResult)) -> Vec<SavedResult> {
    side.iter_mut().for_each(change);
    side
}

fn compared(base: &[SavedResult], new: &[SavedResult], options: &Options) -> Comparison {
    compare(&Sides::of_runs(base, new, None), options).expect("the same work")
}

fn only(metric: Metric) -> Options {
    Options {
        metrics: vec![metric],
        ..Options::default()
    }
}

/// Returns the line of a case of `bench`.
#[track_caller]
fn line(comparison: &Comparison, case: &str, metric: Metric) -> Line {
    let mut lines = comparison.lines.iter();
    lines
        .find(|line| line.case == case && line.metric == metric && line.new_target == "bench")
        .unwrap_or_else(|| panic!("no {metric} of {case}: {:#?}", comparison.lines))
        .clone()
}

const STREAM: &str = "pods-150k/etcd/stream";

/// Returns the case `etcd/stream` of `bench`.
fn stream(result: &mut SavedResult) -> &mut Case {
    let mut cases = result.report.cases.iter_mut();
    cases
        .find(|case| (case.target.as_str(), case.strategy.as_str()) == ("bench", "stream"))
        .expect("it is there")
}

fn save(parent: &Path, results: &[SavedResult]) -> PathBuf {
    for (result, n) in results.iter().zip(0..) {
        let folder = ResultFolder::create(parent, &format!("run-{n}")).expect("a fresh name");
        folder.write(result).expect("a writable folder");
        folder.finish().expect("a free name");
    }
    parent.to_owned()
}

/// Saves both sides as `base` and `new`; returns their folder.
fn saved(base: &[SavedResult], new: &[SavedResult]) -> TempDir {
    let parent = tempfile::tempdir().expect("a temporary folder");
    save(&parent.path().join("base"), base);
    save(&parent.path().join("new"), new);
    parent
}

/// Runs `loadgen compare` in a folder; returns exit code, standard output and standard error.
fn loadgen(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = program::loadgen(folder);
    let output = command.arg("compare").args(args).output();
    program::ended(&output.expect("it runs"))
}

/// Asserts exit code 2 and an error of one line that contains all of `words`.
#[track_caller]
fn assert_refused(folder: &Path, args: &[&str], words: &[&str]) {
    let (code, out, log) = loadgen(folder, args);
    assert_eq!(code, Some(2), "{out}{log}");
    assert_eq!(log.lines().count(), 1, "one line: {log}");
    assert!(out.is_empty(), "{out}");
    for word in words {
        assert!(log.contains(word), "`{word}` is missing: {log}");
    }
}

#[test]
fn one_start_a_side_cannot_tell_however_large_the_difference() {
    let folder = saved(&side(0, 1.0, 1), &side(1, 3.0, 1));
    let (code, out, log) = loadgen(folder.path(), &["base", "new"]);
    assert_eq!(code, Some(3), "{out}{log}");
    let reason = "[1] one start per side, at least 4 are needed (3 more)";
    assert!(out.contains(reason) && !out.contains("WORSE"), "{out}");
    assert!(
        out.contains("CANNOT TELL: ") && out.contains("about 3 more starts per side"),
        "{out}"
    );
}

#[test]
fn twice_as_slow_is_worse_and_twice_as_fast_is_not() {
    let folder = saved(&side(0, 1.0, 4), &side(1, 2.0, 4));
    let (code, out, log) = loadgen(folder.path(), &["base", "new", "--fail-above", "10%"]);
    assert_eq!(code, Some(1), "{out}{log}");
    assert!(
        out.contains("2.00 [1.9") && out.contains("WORSE: "),
        "{out}"
    );
    assert!(
        out.contains("deciding metrics worse by 10 % or more"),
        "{out}"
    );
    let (code, out, log) = loadgen(folder.path(), &["new", "base", "--fail-above", "10%"]);
    assert_eq!(code, Some(0), "{out}{log}");
    assert!(
        out.contains("OK: none of ") && out.contains(" better"),
        "{out}"
    );
    let (code, out, _) = loadgen(folder.path(), &["base", "new"]);
    assert_eq!(code, Some(1), "without a limit margins hold: {out}");
}

#[test]
fn runs_of_one_server_are_no_difference() {
    let comparison = compared(&side(0, 1.0, 6), &side(1, 1.0, 6), &Options::default());
    assert_eq!(comparison.end(), End::Within);
    let verdict = |line: &&Line| line.verdict != Verdict::NoDifference;
    let others: Vec<_> = comparison.lines.iter().filter(verdict).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(comparison.lines.len() > 50, "{}", comparison.lines.len());
}

#[test]
fn a_planted_tenth_is_worse_and_too_much_for_a_limit_of_5_percent() {
    let (base, new) = (side(0, 1.0, 6), side(1, 1.1, 6));
    let comparison = compared(&base, &new, &only(Metric::P50));
    let found = line(&comparison, STREAM, Metric::P50);
    assert_eq!(found.verdict, Verdict::Worse, "{found:?}");
    assert_eq!(comparison.end(), End::Worse);
    let limit = |fail_above| Options {
        fail_above: Some(fail_above),
        ..only(Metric::P50)
    };
    assert_eq!(compared(&base, &new, &limit(0.05)).end(), End::Worse);
    assert_eq!(compared(&base, &new, &limit(0.11)).end(), End::CannotTell);
    assert_eq!(compared(&base, &new, &limit(0.2)).end(), End::Within);
}

#[test]
fn a_margin_says_what_counts_as_a_change() {
    let (base, new) = (side(0, 1.0, 6), side(1, 1.1, 6));
    let verdict = |margin| {
        let options = Options {
            margin: Some(margin),
            ..only(Metric::P50)
        };
        line(&compared(&base, &new, &options), STREAM, Metric::P50).verdict
    };
    assert_eq!(verdict(0.05), Verdict::Worse);
    assert_eq!(verdict(0.2), Verdict::NoDifference);
    let Verdict::CannotTell(reason) = verdict(0.105) else {
        panic!("it is more than nothing and may be less than 10.5 %");
    };
    assert!(
        matches!(reason, Reason::NearMargin { is_worse: true, .. }),
        "{reason}"
    );
}

#[test]
fn starts_that_one_run_holds_count_one_by_one() {
    let in_one = |started: usize, speed: f64| {
        let mut results = side(started, speed, 6);
        let starts: Vec<ServerStart> = results
            .iter_mut()
            .map(|result| ServerStart::of(stream(result)))
            .collect();
        results.truncate(1);
        stream(&mut results[0]).starts = starts;
        results
    };
    let comparison = compared(&in_one(0, 1.0), &in_one(1, 1.1), &only(Metric::P50));
    let found = line(&comparison, STREAM, Metric::P50);
    assert_eq!((found.base.len(), found.new.len()), (6, 6));
    assert_eq!(found.verdict, Verdict::Worse, "{found:?}");
    let other = line(&comparison, "pods-150k/etcd/unary", Metric::P50);
    assert_eq!(
        other.base.len(),
        1,
        "the case's own figures are of one start"
    );
}

#[test]
fn targets_of_the_same_runs_are_compared_in_pairs() {
    // The machine becomes slower by a tenth from run to run, for both sides alike.
    let drifting = |factor: f64| {
        let results = side(0, factor, 6).into_iter().zip(0..);
        let results = results.map(|(mut result, n)| {
            for case in &mut result.report.cases {
                let latency = case.latency_ms.as_mut();
                if let Some(p50) = latency.and_then(|latency| latency.p50.as_mut()) {
                    *p50 *= 1.1_f64.powi(n);
                }
            }
            result
        });
        results.collect::<Vec<_>>()
    };
    let results = drifting(1.0);
    let sides = Sides::of_targets(&results, "etcd", "bench");
    let comparison = compare(&sides, &only(Metric::P50)).expect("two targets");
    let found = line(&comparison, STREAM, Metric::P50);
    assert_eq!(found.verdict, Verdict::Better, "{found:?}");
    let interval = found.estimate.and_then(|estimate| estimate.interval);
    let interval = interval.expect("six pairs");
    assert!(
        interval.upper / interval.lower < 1.1,
        "no drift in it: {interval:?}"
    );
    let refused = |base, new| {
        let sides = Sides::of_targets(&results, base, new);
        compare(&sides, &Options::default()).expect_err("no two targets")
    };
    assert!(matches!(
        refused("bench", "bench"),
        CompareError::SameTarget(_)
    ));
    let error = refused("etcd", "nobody").to_string();
    assert_eq!(error, "no single target `nobody`: there are bench, etcd");
}

#[test]
fn five_pairs_are_too_few_and_their_partners_are_found_by_run() {
    let mut results = side(0, 1.0, 6);
    let etcd_stream = |result: &mut SavedResult| {
        result
            .report
            .cases
            .retain(|case| (case.target.as_str(), case.strategy.as_str()) != ("etcd", "stream"));
    };
    etcd_stream(&mut results[2]);
    let sides = Sides::of_targets(&results, "etcd", "bench");
    let comparison = compare(&sides, &only(Metric::P50)).expect("two targets");
    let found = line(&comparison, STREAM, Metric::P50);
    let reason = found.verdict.reason().expect("five").to_string();
    assert_eq!(reason, "5 pairs of starts, at least 6 are needed (1 more)");
}

#[test]
fn a_lower_rate_is_worse() {
    let at = |rate: f64| move |result: &mut SavedResult| stream(result).requests_per_s = Some(rate);
    let base = changed(side(0, 1.0, 4), at(5_000.0));
    let slower = changed(side(1, 1.0, 4), at(4_000.0));
    let comparison = compared(&base, &slower, &only(Metric::Rate));
    assert_eq!(
        line(&comparison, STREAM, Metric::Rate).verdict,
        Verdict::Worse
    );
    let comparison = compared(&slower, &base, &only(Metric::Rate));
    assert_eq!(
        line(&comparison, STREAM, Metric::Rate).verdict,
        Verdict::Better
    );
    assert_eq!(comparison.end(), End::Within);
}

#[test]
fn bytes_are_the_same_in_every_start_so_one_decides() {
    let larger = changed(side(1, 1.0, 1), |result| stream(result).bytes += 31_000_000);
    let comparison = compared(&side(0, 1.0, 1), &larger, &only(Metric::Bytes));
    let found = line(&comparison, STREAM, Metric::Bytes);
    assert_eq!(found.verdict, Verdict::Worse, "{found:?}");
    // One byte more may be due to the length of a revision number.
    let longer = changed(side(1, 1.0, 1), |result| stream(result).bytes += 1);
    let comparison = compared(&side(0, 1.0, 1), &longer, &only(Metric::Bytes));
    let found = line(&comparison, STREAM, Metric::Bytes);
    assert_eq!(found.verdict, Verdict::NoDifference, "{found:?}");
    assert_eq!(comparison.end(), End::Within);
}

#[test]
fn peaks_below_a_mebibyte_are_no_difference() {
    let peak = |bytes: u64| {
        move |result: &mut SavedResult| {
            let server = stream(result).server.as_mut().expect("it has one");
            server.peak_above_idle = bytes;
        }
    };
    let base = changed(side(0, 1.0, 4), peak(0));
    let new = changed(side(1, 1.0, 4), peak(80_000));
    let comparison = compared(&base, &new, &only(Metric::PeakMemory));
    let found = line(&comparison, STREAM, Metric::PeakMemory);
    assert_eq!(found.verdict, Verdict::NoDifference, "{found:?}");
    let more = changed(side(1, 1.0, 4), peak(8 << 20));
    let comparison = compared(&base, &more, &only(Metric::PeakMemory));
    let found = line(&comparison, STREAM, Metric::PeakMemory);
    assert_eq!(found.verdict, Verdict::Worse, "{found:?}");
    assert!((found.estimate.expect("values").ratio - 9.0).abs() < 1e-9);
}

#[test]
fn times_of_two_queues_that_grow_say_nothing() {
    let saturated = |result: &mut SavedResult| stream(result).saturated = true;
    let base = changed(side(0, 1.0, 4), saturated);
    let new = changed(side(1, 2.0, 4), saturated);
    let comparison = compared(&base, &new, &only(Metric::P50));
    let found = line(&comparison, STREAM, Metric::P50);
    assert_eq!(found.verdict, Verdict::CannotTell(Reason::Saturated));
    assert_eq!(found.is_within, None);
    let comparison = compared(&side(0, 1.0, 4), &new, &only(Metric::P50));
    let found = line(&comparison, STREAM, Metric::P50);
    assert_eq!(found.verdict, Verdict::Worse, "only one cannot keep up");
}
