//! `loadgen compare` on made-up results: verdicts, what is refused, and how the program ends.

#[path = "../report/tests/support/synthetic.rs"]
mod synthetic;

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use report::compare::json::Document;
use report::compare::{
    CompareError, Comparison, Condition, End, Line, Metric, Options, Reason, Sides, Unjudged,
    Verdict, chart, compare, markdown, text,
};
use report::result::{Case, Outcome, Quantiles, ResultFolder, SavedResult, ServerStart};
use tempfile::TempDir;
use workloads::strategy::Tier;

/// What runs of one machine do among themselves: 2 % either way.
const MOODS: [f64; 6] = [1.0, 0.99, 1.02, 0.98, 1.01, 1.0];

/// What is made of a result so that it differs.
type Change = fn(&mut SavedResult);

/// Returns a run of its own time. `speed` stretches times and sizes of the target `bench`.
fn run(nth: usize, speed: f64) -> SavedResult {
    let mut result = synthetic::result(speed);
    result.report.started = format!("2026-01-02T03:{nth:02}:00Z");
    result
}

/// Runs of one side, every second minute from `first` on.
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

/// Both sides on disk, as `base` and `new`.
fn saved(base: &[SavedResult], new: &[SavedResult]) -> TempDir {
    let parent = tempfile::tempdir().expect("a temporary folder");
    save(&parent.path().join("base"), base);
    save(&parent.path().join("new"), new);
    parent
}

/// Runs `loadgen compare` in a folder: exit code, standard output, standard error.
fn loadgen(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::cargo_bin("loadgen").expect("it is built for its tests");
    let output = command
        .current_dir(folder)
        .arg("compare")
        .args(args)
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Asserts exit code 2 and one line that says all of `words`.
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
    let reason = "[1] one start a side, 4 are the least: 3 more would do at best";
    assert!(out.contains(reason) && !out.contains("WORSE"), "{out}");
    assert!(
        out.contains("CANNOT TELL: ") && out.contains("about 3 more starts a side"),
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
    // The machine becomes slower by a tenth from run to run, for both alike.
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
    assert_eq!(
        reason,
        "5 pairs of starts, 6 are the least: 1 more would do at best"
    );
}

#[test]
fn cases_are_matched_by_what_they_do_whatever_target_and_data_set_are_called() {
    let renamed = |name: &'static str| {
        move |result: &mut SavedResult| {
            result.report.cases.retain(|case| case.target == "bench");
            for case in &mut result.report.cases {
                case.target = format!("bench-{name}");
                case.data_set = name.to_owned();
            }
            result.report.data_sets[0].name = name.to_owned();
            // What runs first in the one runs last in the other.
            if name == "new" {
                result.report.cases.reverse();
            }
        }
    };
    let base = changed(side(0, 1.0, 4), renamed("base"));
    let new = changed(side(1, 1.0, 4), renamed("new"));
    let comparison = compared(&base, &new, &Options::default());
    assert_eq!(comparison.end(), End::Within, "{comparison:#?}");
    assert_eq!(comparison.gone, []);
    assert_eq!(comparison.new.targets, ["bench-new"]);
    assert!(
        comparison
            .lines
            .iter()
            .any(|line| line.case == "base/etcd/stream")
    );
}

#[test]
fn a_renamed_strategy_has_no_verdict() {
    let new = changed(side(1, 1.0, 4), |result| {
        stream(result).strategy = "flow".to_owned();
    });
    let comparison = compared(&side(0, 1.0, 4), &new, &Options::default());
    assert_eq!(comparison.end(), End::CannotTell);
    assert_eq!(comparison.gone, []);
    assert_eq!(comparison.not_comparable.len(), 1);
    assert_eq!(comparison.not_comparable[0].case, STREAM);
    let note = "pods-150k/etcd/flow is only in the new result".to_owned();
    assert!(comparison.notes.contains(&note), "{:?}", comparison.notes);
    assert!(
        comparison
            .lines
            .iter()
            .all(|line| !line.case.contains("flow"))
    );
}

#[test]
fn a_case_that_no_longer_works_is_gone_even_where_other_starts_worked() {
    let failed = |result: &mut SavedResult| {
        stream(result).outcome = Outcome::Failed {
            reason: "the server died".into(),
        };
    };
    let mut new = side(1, 1.0, 5);
    failed(&mut new[3]);
    let comparison = compared(&side(0, 1.0, 4), &new, &Options::default());
    assert_eq!(comparison.end(), End::Worse);
    assert_eq!(comparison.gone.len(), 1, "{:?}", comparison.gone);
    assert_eq!(comparison.gone[0].reason, "FAILED: the server died");
    // A base that fails is no measure.
    let comparison = compared(&new, &side(0, 1.0, 4), &Options::default());
    assert_eq!(comparison.end(), End::CannotTell);
    assert_eq!(
        comparison.not_comparable[0].reason,
        "in the base: FAILED: the server died"
    );
}

#[test]
fn a_case_without_a_success_is_not_the_fastest() {
    let refusing = |result: &mut SavedResult| {
        let case = stream(result);
        (case.errors, case.latency_ms) = (case.requests, Some(Quantiles::default()));
    };
    let mut new = side(1, 1.0, 6);
    let ended = |base: &[SavedResult], new: &[SavedResult]| {
        let comparison = compared(base, new, &only(Metric::ServerCpu));
        assert_eq!(comparison.end(), End::CannotTell);
        comparison.not_comparable[0].reason.clone()
    };
    // One run of six: those that are left are no fair sample.
    refusing(&mut new[2]);
    let reason = ended(&side(0, 1.0, 4), &new);
    assert_eq!(reason, "in the new result: no request succeeded");
    assert_eq!(
        ended(&new, &side(0, 1.0, 4)),
        "in the base: no request succeeded"
    );
    new.iter_mut().for_each(refusing);
    let reason = ended(&side(0, 1.0, 4), &new);
    assert_eq!(reason, "no request succeeded");
}

#[test]
fn runs_that_say_nothing_of_the_target_are_left_out_and_counted() {
    let mut new = side(1, 1.0, 5);
    stream(&mut new[1]).outcome = Outcome::Invalid {
        reason: "the generator was late".into(),
    };
    let comparison = compared(&side(0, 1.0, 4), &new, &only(Metric::P50));
    assert_eq!(line(&comparison, STREAM, Metric::P50).new.len(), 4);
    let note = "pods-150k/etcd/stream: 1 of 5 runs of the new result left out: invalid: the \
                generator was late";
    assert!(
        comparison.notes.iter().any(|it| it == note),
        "{:?}",
        comparison.notes
    );
    assert_eq!(comparison.end(), End::Within);
}

#[test]
fn a_missing_value_is_never_the_best() {
    let new = changed(side(1, 1.0, 4), |result| {
        let server = stream(result).server.as_mut().expect("it has one");
        server.cpu_s_per_request = None;
    });
    let comparison = compared(&side(0, 1.0, 4), &new, &only(Metric::ServerCpu));
    let found = line(&comparison, STREAM, Metric::ServerCpu);
    assert_eq!(found.verdict, Verdict::CannotTell(Reason::MissingInNew));
    assert_eq!(comparison.end(), End::CannotTell);
    let back = compared(&new, &side(0, 1.0, 4), &only(Metric::ServerCpu));
    let found = line(&back, STREAM, Metric::ServerCpu);
    assert_eq!(found.verdict, Verdict::CannotTell(Reason::MissingInBase));

    let mut some = side(1, 1.0, 5);
    let server = stream(&mut some[0]).server.as_mut().expect("it has one");
    // A clock that did not move.
    server.cpu_s_per_request = Some(0.0);
    let comparison = compared(&side(0, 1.0, 4), &some, &only(Metric::ServerCpu));
    assert_eq!(line(&comparison, STREAM, Metric::ServerCpu).new.len(), 4);
    let note = "pods-150k/etcd/stream: no server_cpu in 1 of 5 starts of the new result";
    assert!(
        comparison.notes.iter().any(|it| it == note),
        "{:?}",
        comparison.notes
    );
}

#[test]
fn a_metric_that_nobody_has_decides_nothing() {
    let comparison = compared(&side(0, 1.0, 4), &side(1, 1.0, 4), &only(Metric::Rate));
    assert_eq!(comparison.absent, [Metric::Rate]);
    assert_eq!(comparison.end(), End::CannotTell);
    let shown = text::text(&comparison, None);
    assert!(shown.contains("CANNOT TELL: no rate in both"), "{shown}");
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
    // The length of a revision number.
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

#[test]
fn another_encoding_takes_its_case_out_and_two_servers_may_buffer_or_not() {
    let other = changed(side(1, 1.0, 4), |result| {
        stream(result).encoding = Some("buffered".into());
    });
    let comparison = compared(&side(0, 1.0, 4), &other, &Options::default());
    assert_eq!(comparison.end(), End::CannotTell);
    assert_eq!(comparison.not_comparable.len(), 1);
    let unjudged = &comparison.not_comparable[0];
    assert_eq!(unjudged.case, STREAM);
    assert_eq!(
        unjudged.reason,
        "the encoding is stream in the base and buffered in the new result"
    );
    assert!(
        comparison
            .lines
            .iter()
            .all(|line| line.new_target != "bench" || line.case != STREAM)
    );
    let allowed = Options {
        allow: vec![Condition::Encoding],
        ..Options::default()
    };
    let comparison = compared(&side(0, 1.0, 4), &other, &allowed);
    assert_eq!(comparison.end(), End::Within);
    let note = "allowed: the encoding is stream in the base and buffered in the new result";
    assert!(
        comparison.notes.iter().any(|it| it == note),
        "{:?}",
        comparison.notes
    );

    let mut mixed = side(1, 1.0, 4);
    stream(&mut mixed[2]).encoding = Some("buffered".into());
    let comparison = compared(&side(0, 1.0, 4), &mixed, &Options::default());
    let reason = "the encoding is stream in one run of the new result, buffered in another";
    assert_eq!(comparison.not_comparable[0].reason, reason);

    // etcd buffers a page, ours sends it as it goes: that is how they differ.
    let results = side(0, 1.0, 6);
    let sides = Sides::of_targets(&results, "etcd", "bench");
    let comparison = compare(&sides, &only(Metric::P50)).expect("two targets");
    assert_eq!(comparison.not_comparable, []);
    line(&comparison, "pods-150k/etcd/paged:10000", Metric::P50);
}

#[test]
fn different_work_is_refused_with_what_differs() {
    let refused = |change: fn(&mut SavedResult)| {
        let new = changed(side(1, 1.0, 1), change);
        let base = side(0, 1.0, 1);
        let error = compare(&Sides::of_runs(&base, &new, None), &Options::default());
        error.expect_err("not the same work").to_string()
    };
    let scenario = refused(|other| other.report.scenario = "another".into());
    assert!(
        scenario.contains("the scenario is synthetic in the base and another in the new result"),
        "{scenario}"
    );
    let objects = refused(|other| other.report.data_sets[0].objects = 10_000);
    assert!(
        objects.contains("the number of objects is 150,000 in the base and 10,000"),
        "{objects}"
    );
    let fingerprint = refused(|other| other.report.data_sets[0].fingerprint = Some("0".into()));
    assert!(
        fingerprint.contains("the objects' fingerprint is 00c0ffee00c0ffee"),
        "{fingerprint}"
    );
    let nothing = refused(|other| {
        for case in &mut other.report.cases {
            case.strategy.push('2');
        }
    });
    assert!(nothing.contains("no case is in both"), "{nothing}");
    let targets = refused(|other| {
        for case in &mut other.report.cases {
            case.target.push('2');
        }
    });
    assert!(
        targets.contains("no target is in both: bench, etcd in the base"),
        "{targets}"
    );
}

#[test]
fn other_machines_networks_and_builds_are_refused_unless_allowed() {
    let conditions: [(Change, Condition, &str); 5] = [
        (
            |it| it.report.environment.cores = 64,
            Condition::Machine,
            "the number of cores is 2 in the base and 64 in the new result (--allow machine \
             compares all the same)",
        ),
        (
            |it| it.report.environment.memory_bytes = 96 << 30,
            Condition::Machine,
            "the machine's memory is 24.0 GiB in the base and 96.0 GiB",
        ),
        (
            |it| it.report.environment.host = "elsewhere".into(),
            Condition::Machine,
            "the host is nowhere in the base and elsewhere",
        ),
        (
            |it| it.report.environment.congestion_control = Some("bbr".into()),
            Condition::CongestionControl,
            "TCP's congestion control is reno in the base and bbr",
        ),
        (
            |it| it.report.environment.profile = "debug".into(),
            Condition::Build,
            "the generator's build is release in the base and debug",
        ),
    ];
    for (change, condition, said) in conditions {
        let told = |result: &mut SavedResult| {
            result.report.environment.congestion_control = Some("reno".into());
            result.report.environment.profile = "release".into();
        };
        let base = changed(side(0, 1.0, 4), told);
        let new = changed(changed(side(1, 1.0, 4), told), change);
        let sides = Sides::of_runs(&base, &new, None);
        let error = compare(&sides, &Options::default()).expect_err(said);
        assert!(matches!(error, CompareError::Different(_)), "{error}");
        assert!(error.to_string().contains(said), "{error}");
        let allowed = Options {
            allow: vec![condition],
            ..Options::default()
        };
        let comparison = compare(&sides, &allowed).expect("it is allowed");
        assert!(
            comparison
                .notes
                .iter()
                .any(|note| note.starts_with("allowed: "))
        );

        let mixed = [base, new].concat();
        let error = compare(&Sides::of_runs(&mixed, &mixed, None), &Options::default());
        let error = error.expect_err("two machines on one side");
        assert!(matches!(error, CompareError::Mixed(_)), "{error}");
    }
}

#[test]
fn what_differs_in_machine_and_servers_is_said_and_what_is_not_told_is_not() {
    let (mut base, mut new) = (side(0, 1.0, 1), side(1, 1.0, 1));
    let notes = |base: &[SavedResult], new: &[SavedResult]| {
        compared(base, new, &only(Metric::PeakMemory)).notes
    };
    let before = notes(&base, &new);
    let flags = |port: u16, more: &str| {
        let url = format!("http://127.0.0.1:{port}");
        vec!["--listen-client-urls".into(), url, more.to_owned()]
    };
    let (old, fresh) = (
        &mut base[0].report.environment,
        &mut new[0].report.environment,
    );
    old.servers[1].flags = flags(1, "--snapshot-count=1");
    fresh.servers[1].flags = flags(2, "--snapshot-count=1");
    // A result from before these were told.
    fresh.congestion_control = Some("bbr".into());
    fresh.free_page_lists = Some(8);
    fresh.free_page_reporting = Some(true);
    fresh.memory_bytes -= 4 << 20;
    // And one with a scenario that cannot be read any more.
    assert_eq!(notes(&base, &new), before);

    let (old, fresh) = (
        &mut base[0].report.environment,
        &mut new[0].report.environment,
    );
    old.congestion_control = Some("bbr".into());
    old.free_page_lists = Some(0);
    old.free_page_reporting = Some(false);
    (old.kernel, fresh.kernel) = ("6.1".into(), "6.12".into());
    (old.commit, fresh.commit) = (Some("abc".into()), Some("def".into()));
    fresh.servers[1].program = "etcd 3.8.0".into();
    fresh.servers[1].flags = flags(2, "--snapshot-count=9");
    let scenario = |warmup: u32| {
        format!(
            r#"
name = "synthetic"
summary = "to compare"
repeats = 3
warmup = {warmup}
[cases]
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
    base[0].scenario_toml = scenario(1);
    new[0].scenario_toml = scenario(12);
    let notes = notes(&base, &new);
    let begins = [
        "different kernel: 6.1 and 6.12;",
        "different vm.percpu_pagelist_high_fraction (lists of free pages): 0 and 8;",
        "different handling of free pages by the machine's host: leaves them and takes them back;",
        "different warm-up: 1 and 12 rounds;",
        "different generator: abc and def;",
        "different program of etcd: etcd 3.7.1 and etcd 3.8.0",
        "different flags of etcd: only in the first --snapshot-count=1; only in the second \
         --snapshot-count=9",
    ];
    for (note, begin) in notes.iter().zip(begins) {
        assert!(note.starts_with(begin), "{note}");
    }
    assert_eq!(notes.len(), begins.len() + before.len(), "{notes:?}");
}

#[test]
fn one_side_after_the_other_is_said() {
    let notes = |first, other| {
        compared(
            &side(first, 1.0, 4),
            &side(other, 1.0, 4),
            &only(Metric::P50),
        )
        .notes
    };
    let is_said = |notes: Vec<String>| notes.iter().any(|note| note.contains("drift"));
    assert!(is_said(notes(0, 20)));
    assert!(is_said(notes(20, 0)));
    assert!(!is_said(notes(0, 1)), "every second minute");
}

#[test]
fn a_run_that_is_there_twice_counts_once() {
    let mut base = side(0, 1.0, 3);
    base.push(base[1].clone());
    let folder = saved(&base, &side(1, 1.0, 4));
    assert_refused(
        folder.path(),
        &["base", "new"],
        &["the run of 2026-01-02T03:02:00Z on nowhere is there twice"],
    );
}

#[test]
fn what_is_no_result_or_damaged_is_named() {
    let folder = saved(&side(0, 1.0, 2), &side(1, 1.0, 2));
    let path = folder.path();
    assert_refused(
        path,
        &["missing", "new"],
        &["missing is not a result: it holds no report.json"],
    );
    fs::create_dir(path.join("empty")).expect("a folder");
    assert_refused(path, &["base", "empty"], &["empty is not a result"]);
    let (code, _, log) = loadgen(path, &["base"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("<NEW>"), "{log}");

    let report = path.join("new/run-1/report.json");
    let whole = fs::read_to_string(&report).expect("it was written");
    fs::write(&report, &whole[..whole.len() / 2]).expect("it can be written");
    assert_refused(
        path,
        &["base", "new"],
        &["run-1/report.json", "EOF while parsing"],
    );
    fs::write(&report, "").expect("it can be written");
    assert_refused(
        path,
        &["base", "new"],
        &["run-1/report.json", "EOF while parsing"],
    );
    let newer = whole.replacen("\"schema_version\": 2", "\"schema_version\": 99", 1);
    fs::write(&report, newer).expect("it can be written");
    let words = ["run-1/report.json", "schema version 99"];
    assert_refused(path, &["base", "new"], &words);
}

#[test]
fn a_chart_that_cannot_be_written_and_a_metric_that_is_none_are_refused() {
    let folder = saved(&side(0, 1.0, 1), &side(1, 1.0, 1));
    let args = ["base", "new", "--chart", "missing/ratios.svg"];
    assert_refused(folder.path(), &args, &["cannot write missing/ratios.svg"]);
    let (code, _, log) = loadgen(folder.path(), &["base", "new", "--metric", "p51"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("peak_memory"), "{log}");
    let (code, _, log) = loadgen(folder.path(), &["base", "--base", "etcd"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("--new"), "{log}");
}

#[test]
fn two_targets_of_one_folder_and_a_chart_of_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    save(&folder.path().join("runs"), &side(0, 1.0, 6));
    let args = [
        "runs",
        "--base",
        "etcd",
        "--new",
        "be",
        "--metric",
        "p50,peak_memory",
        "--chart",
        "ratios.svg",
    ];
    let (code, out, log) = loadgen(folder.path(), &args);
    assert_eq!(code, Some(0), "{out}{log}");
    assert!(out.contains("base: etcd; etcd 3.7.1; 6 runs"), "{out}");
    assert!(
        out.contains("OK: none of 6 deciding metrics is worse; 6 better."),
        "{out}"
    );
    let svg = fs::read_to_string(folder.path().join("ratios.svg")).expect("it was drawn");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("role=\"img\"") && svg.contains("prefers-color-scheme: dark"));
    assert!(svg.len() < 40_000, "{} bytes", svg.len());
}

#[test]
fn json_is_what_its_schema_says() {
    let mut new = side(1, 1.3, 4);
    for result in &mut new {
        stream(result).encoding = Some("other".into());
        for case in &mut result.report.cases {
            if case.tier == Tier::Kube && case.strategy == "cached" {
                let reason = "no watch cache".to_owned();
                case.outcome = Outcome::NotApplicable { reason };
            }
        }
    }
    let folder = saved(&side(0, 1.0, 4), &new);
    let (code, out, log) = loadgen(folder.path(), &["base", "new", "--format", "json"]);
    assert_eq!(code, Some(1), "{log}");
    let document: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let schema = include_str!("../report/schema/compare.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).expect("JSON");
    jsonschema::validate(&schema, &document).expect("as published");
    assert_eq!(document["end"], "worse");
    assert_eq!(document["gone"][0]["case"], "pods-150k/kube/cached");
    assert_eq!(document["not_comparable"][0]["case"], STREAM);
    let line = &document["lines"][0];
    assert_eq!(line["metric"], "p50");
    assert_eq!(line["verdict"], "worse");
    assert_eq!(line["base"]["n"], 4);
    assert_eq!(line["method"], "unpaired");
    let one = compared(&side(0, 1.0, 1), &side(1, 1.0, 1), &Options::default());
    let document = serde_json::to_value(Document::from(&one)).expect("plain data");
    jsonschema::validate(&schema, &document).expect("as published");
    assert_eq!(document["lines"][0]["lower"], serde_json::Value::Null);
    assert_eq!(document["lines"][0]["more_starts"], 3);
}

#[test]
fn markdown_says_the_answer_first_and_stays_within_a_comment() {
    let comparison = compared(&side(0, 1.0, 4), &side(1, 1.3, 4), &Options::default());
    let shown = markdown::markdown(&comparison, "loadgen compare base new");
    let first = shown.lines().next().expect("a line");
    assert!(first.starts_with("**WORSE: 2"), "{first}");
    assert!(shown.contains("| ▲ **worse** |"), "{shown}");
    assert!(shown.contains("<details><summary>"), "{shown}");
    assert!(
        shown.contains("Made by `loadgen compare base new`."),
        "{shown}"
    );

    let table = shown.find("| case |").expect("a table");
    let folded = shown.find("<details>").expect("it is folded");
    let machine = shown.find("Machine: nowhere, 2 cores").expect("a machine");
    assert!(table < folded && folded < machine, "{shown}");

    let mut many = comparison;
    let lines = many.lines.clone();
    for n in 0..200 {
        many.lines.extend(lines.iter().cloned().map(|line| Line {
            case: format!("{}/{n}", line.case),
            // Each for a reason of its own, which stands below the rows.
            verdict: Verdict::CannotTell(Reason::TooFewStarts {
                base: n,
                new: n + 1,
                least: n + 2,
                is_paired: false,
            }),
            ..line
        }));
        let long = "*_`".repeat(n * 10);
        many.notes.push(long.clone());
        many.gone.push(Unjudged {
            case: long.clone(),
            reason: long.clone(),
        });
        many.not_comparable.push(many.gone[n].clone());
        many.new.commits.push(long.clone());
        many.base.machines.push(long);
    }
    let shown = markdown::markdown(&many, &"long ".repeat(10_000));
    assert!(shown.len() < 60_000, "{} bytes", shown.len());
    assert!(
        shown.contains(" rows left out; ") && shown.contains("- and 188 more\n"),
        "what is cut is said"
    );
    let opened = |tag: &str| shown.matches(tag).count();
    assert_eq!(opened("<details>"), opened("</details>"));
    let drawn = chart::svg(&many);
    assert!(drawn.len() < 120_000, "{} bytes", drawn.len());
}

#[test]
fn the_worst_three_are_annotations() {
    let folder = saved(&side(0, 1.0, 4), &side(1, 1.5, 4));
    let (code, _, log) = loadgen(folder.path(), &["base", "new", "--annotate"]);
    assert_eq!(code, Some(1), "{log}");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    for line in lines {
        assert!(line.starts_with("::error title="), "{line}");
        assert!(
            line.contains(" is worse::base ") && line.contains("new/base 1.5"),
            "{line}"
        );
    }
    let (code, _, log) = loadgen(folder.path(), &["new", "base", "--annotate"]);
    assert_eq!((code, log.as_str()), (Some(0), ""), "nothing is worse");
}

#[test]
fn junit_is_printed_with_the_same_exit_code() {
    let folder = saved(&side(0, 1.0, 4), &side(1, 1.5, 4));
    let (code, out, log) = loadgen(folder.path(), &["base", "new", "--format", "junit"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(
        out.starts_with("<?xml ") && out.contains("<failure message=\"worse by 5 % or more: "),
        "{out}"
    );
}
