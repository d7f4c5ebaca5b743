//! Invalid results, for which `loadgen` must print one clear message and exit with code 2, or
//! report "cannot tell", but never a verdict.

use std::fs;
use std::path::Path;

use report::result::{Case, Quantiles, REPORT_FILE, ResultFolder, SCHEMA_VERSION, SavedResult};

use crate::support::{program, synthetic};

const REFUSED: i32 = 2;
const CANNOT_TELL: i32 = 3;

/// Formats with one value for each name.
const MERGED: [&str; 4] = [
    "perfdash",
    "github-action-benchmark",
    "bencher",
    "openmetrics",
];
/// All formats without charts.
const ALL: [&str; 6] = [
    "perfdash",
    "github-action-benchmark",
    "bencher",
    "openmetrics",
    "go",
    "csv",
];

/// A defect of the new side, or of one of its folders.
enum Spoil {
    /// Changes each result of the new side.
    Results(fn(&mut SavedResult)),
    /// Saves only this many of its runs.
    Runs(usize),
    /// Changes the text of the second report.
    Report(fn(String) -> String),
    /// Changes a file in the folder of the second report.
    File(&'static str, fn(Vec<u8>) -> Vec<u8>),
}

/// A defect, the expected exit code of `loadgen compare`, and its expected message.
struct Bad {
    name: &'static str,
    spoil: Spoil,
    exit: i32,
    says: &'static [&'static str],
}

fn stream(result: &mut SavedResult) -> &mut Case {
    let mut cases = result.report.cases.iter_mut();
    cases
        .find(|case| (case.target.as_str(), case.strategy.as_str()) == ("bench", "stream"))
        .expect("it is there")
}

fn table() -> Vec<Bad> {
    let bad = |name, spoil, exit, says| Bad {
        name,
        spoil,
        exit,
        says,
    };
    vec![
        bad(
            "a truncated report",
            Spoil::Report(|text| text[..text.len() / 3].to_owned()),
            REFUSED,
            &["run-1/report.json", "EOF while parsing"],
        ),
        bad(
            "a report without a field",
            Spoil::Report(|text| text.replace("\"started\"", "\"begun\"")),
            REFUSED,
            &["run-1/report.json", "missing field `started`"],
        ),
        bad(
            "a report that is none",
            Spoil::Report(|_| "[]".to_owned()),
            REFUSED,
            &["run-1/report.json"],
        ),
        bad(
            "a report of a newer schema",
            Spoil::Report(|text| {
                let version = format!("\"schema_version\": {SCHEMA_VERSION}");
                assert!(text.contains(&version), "its first field");
                text.replace(&version, "\"schema_version\": 99")
            }),
            REFUSED,
            &[
                "run-1/report.json",
                "has schema version 99; this program reads version 2",
            ],
        ),
        bad(
            "truncated histograms",
            Spoil::File("histograms.hlog", |bytes| {
                bytes[..bytes.len() / 2].to_owned()
            }),
            REFUSED,
            &["run-1/histograms.hlog"],
        ),
        bad(
            "truncated series",
            Spoil::File("series.csv.gz", |bytes| bytes[..bytes.len() / 2].to_owned()),
            REFUSED,
            &["run-1/series.csv.gz"],
        ),
        bad(
            "another machine",
            Spoil::Results(|it| it.report.environment.cores = 64),
            REFUSED,
            &["the number of cores is 2 in the base and 64 in the new result"],
        ),
        bad(
            "runs of several machines",
            Spoil::Results(|it| {
                if it.report.started.contains("03:05") {
                    it.report.environment.host = "elsewhere".to_owned();
                }
            }),
            REFUSED,
            &[
                "the results of one side do not belong together",
                "the host is nowhere in one and elsewhere",
            ],
        ),
        bad(
            "one repeat",
            Spoil::Runs(1),
            CANNOT_TELL,
            &["CANNOT TELL: ", "4 and 1 starts, at least 4 are needed"],
        ),
        bad(
            "no successes in one case",
            Spoil::Results(|it| {
                let case = stream(it);
                (case.errors, case.latency_ms) = (case.requests, Some(Quantiles::default()));
            }),
            CANNOT_TELL,
            &[
                "CANNOT TELL: ",
                "NOT COMPARABLE: pods-150k/etcd/stream: no request succeeded",
            ],
        ),
        bad(
            "no successes at all",
            Spoil::Results(|it| {
                for case in &mut it.report.cases {
                    (case.requests, case.errors) = (5, 5);
                }
            }),
            REFUSED,
            &["no case can be compared: ", "no request succeeded"],
        ),
        bad(
            "a renamed strategy",
            Spoil::Results(|it| stream(it).strategy = "flow".to_owned()),
            CANNOT_TELL,
            &[
                "CANNOT TELL: ",
                "NOT COMPARABLE: pods-150k/etcd/stream: the new result of bench has no such case",
                "note: pods-150k/etcd/flow is only in the new result",
            ],
        ),
        bad(
            "all strategies renamed",
            Spoil::Results(|it| {
                it.report
                    .cases
                    .iter_mut()
                    .for_each(|case| case.strategy.push('2'))
            }),
            REFUSED,
            &["no case is in both: none did the same work on the same objects"],
        ),
        bad(
            "no latency",
            Spoil::Results(|it| stream(it).latency_ms = None),
            CANNOT_TELL,
            &["CANNOT TELL: ", "no such value in the new result"],
        ),
        bad(
            "a latency of nothing",
            Spoil::Results(|it| {
                let latency = stream(it).latency_ms.as_mut();
                latency.expect("it was measured").p50 = Some(0.0);
            }),
            CANNOT_TELL,
            &["CANNOT TELL: ", "no such value in the new result"],
        ),
        bad(
            "no memory and no CPU",
            Spoil::Results(|it| stream(it).server = None),
            CANNOT_TELL,
            &["CANNOT TELL: ", "no such value in the new result"],
        ),
        bad(
            "a CPU time below nothing",
            Spoil::Results(|it| {
                let server = stream(it).server.as_mut().expect("it has one");
                server.cpu_s_per_request = Some(-1.0);
            }),
            CANNOT_TELL,
            &["CANNOT TELL: ", "no such value in the new result"],
        ),
        bad(
            "another encoding",
            Spoil::Results(|it| stream(it).encoding = Some("gzip".to_owned())),
            CANNOT_TELL,
            &[
                "CANNOT TELL: ",
                "the encoding is stream in the base and gzip in the new result",
            ],
        ),
    ]
}

/// Saves four runs of each side as `base/run-N` and `new/run-N`, with the defect in the new side.
fn save(parent: &Path, spoil: &Spoil) {
    for (side, offset) in [("base", 0), ("new", 1)] {
        let is_new = side == "new";
        let runs = match spoil {
            Spoil::Runs(runs) if is_new => *runs,
            _ => 4,
        };
        for n in 0..runs {
            let mut result = synthetic::result(1.0);
            result.report.started = format!("2026-01-02T03:{:02}:00Z", 2 * n + offset);
            if let (true, Spoil::Results(change)) = (is_new, spoil) {
                change(&mut result);
            }
            let side = parent.join(side);
            let folder = ResultFolder::create(&side, &format!("run-{n}")).expect("a fresh name");
            folder.write(&result).expect("a writable folder");
            folder.finish().expect("a free name");
        }
    }
    let of_second = |name: &str| parent.join("new/run-1").join(name);
    match spoil {
        Spoil::Report(change) => {
            let text = fs::read_to_string(of_second(REPORT_FILE)).expect("it was written");
            fs::write(of_second(REPORT_FILE), change(text)).expect("it can be written");
        }
        Spoil::File(name, change) => {
            let bytes = fs::read(of_second(name)).expect("it was written");
            fs::write(of_second(name), change(bytes)).expect("it can be written");
        }
        Spoil::Results(_) | Spoil::Runs(_) => {}
    }
}

/// Runs `loadgen` in a folder; returns exit code, standard output and standard error.
fn loadgen(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = program::loadgen(folder).args(args).output();
    program::ended(&output.expect("it runs"))
}

#[test]
fn compare_refuses_or_cannot_tell() {
    for bad in table() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        save(folder.path(), &bad.spoil);
        let limit = ["compare", "base", "new", "--fail-above", "10%"];
        for args in [&limit[..3], &limit] {
            let (code, out, log) = loadgen(folder.path(), args);
            let name = bad.name;
            assert_eq!(code, Some(bad.exit), "{name}: {out}{log}");
            let said = match bad.exit {
                REFUSED => {
                    assert!(out.is_empty(), "{name}: {out}");
                    assert_eq!(log.lines().count(), 1, "{name}: one line: {log}");
                    &log
                }
                _ => {
                    let last = out.lines().last().expect("a line");
                    assert!(last.starts_with("CANNOT TELL: "), "{name}: {last}");
                    &out
                }
            };
            for words in bad.says {
                assert!(said.contains(words), "{name}: `{words}` is missing: {said}");
            }
            let has_verdict = [" worse", "WORSE", " better"]
                .iter()
                .any(|it| out.contains(it));
            assert!(!has_verdict, "{name}: a verdict: {out}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_in_no_format() {
    for bad in table() {
        let (Spoil::Report(_) | Spoil::File(..)) = bad.spoil else {
            continue;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        save(folder.path(), &bad.spoil);
        for format in ALL {
            let args = ["report", "new/run-0", "new/run-1", "--format", format];
            let (code, out, log) = loadgen(folder.path(), &args);
            assert_eq!(code, Some(REFUSED), "{}: {format}: {out}{log}", bad.name);
            assert!(out.is_empty(), "{}: {format}: {out}", bad.name);
            assert_eq!(log.lines().count(), 1, "{}: one line: {log}", bad.name);
            assert!(log.contains(bad.says[0]), "{}: {log}", bad.name);
        }
    }
}

#[test]
fn runs_of_two_machines_are_no_value_of_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    save(
        folder.path(),
        &Spoil::Results(|it| it.report.environment.cores = 64),
    );
    for format in MERGED {
        let args = ["report", "base/run-0", "new/run-0", "--format", format];
        let (code, out, log) = loadgen(folder.path(), &args);
        assert_eq!((code, out.as_str()), (Some(REFUSED), ""), "{format}: {log}");
        let said = "the number of cores is 2 in one run of synthetic and 64 in another";
        assert!(
            log.contains(said) && log.lines().count() == 1,
            "{format}: {log}"
        );
        let args = ["report", "base/run-0", "base/run-1", "--format", format];
        let (code, out, log) = loadgen(folder.path(), &args);
        assert_eq!(code, Some(0), "{format}: {log}");
        assert!(out.contains("etcd/stream"), "{format}: {out}");
    }
}
