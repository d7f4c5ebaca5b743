//! A list that differs in a single byte fails its run, in both representations and with every kind
//! of list of the Kubernetes API. The server violates the API in one way at a time, and a table has
//! the expected messages.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::fake_kube::{FakeKube, Fault};
use crate::support::program::loadgen;

/// Every kind of list: protobuf and JSON, whole, in pages and as the initial state of a watch.
const SCENARIO: &str = r#"
name = "faults"
summary = "every reader"
repeats = 3
warmup = 0
first_chunk_streams = 0

[cases]
kube = [
    "consistent",
    "paged:3",
    "watch-list",
    { strategy = "consistent", media = "json" },
    { strategy = "paged:3", media = "json" },
    { strategy = "watch-list", media = "json" },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 12
namespaces = 2
nodes = 2
seed = 1
"#;

/// The names of the cases.
const ROWS: [&str; 6] = [
    "consistent",
    "paged:3",
    "watch-list",
    "consistent/json",
    "paged:3/json",
    "watch-list/json",
];

/// The expected messages for whole lists, pages and watches, in protobuf and then in JSON; empty if
/// the fault does not affect that kind of list.
type Said = [&'static str; 6];

const OBJECTS: &str = "an earlier list of the same revision 100 held: 12 objects, then";
const FINGERPRINT: &str = "an earlier list of the same revision 100 held: fingerprint";
const VERSIONS: &str = "held: objects have other revisions";
const ORDER: &str = "out of order";
const COUNT: &str = "count is";
const BEHIND: &str = "behind its end";
const STALE: &str = "stale: the list is of revision 99, and revision 100";
const OLD_PAGE: &str = "a page of revision 99 after one of 100";
const MORE: &str = "more than its type and its object";
const CUT: &str = "cut short";
const NO_END: &str = "ended before its state did";

#[rustfmt::skip]
const CASES: [(Fault, Said); 15] = [
    (Fault::None, [""; 6]),
    (Fault::EmptyPage, [""; 6]),
    (Fault::Drop, [OBJECTS, COUNT, OBJECTS, OBJECTS, COUNT, OBJECTS]),
    (Fault::Duplicate, [ORDER; 6]),
    (Fault::Swap, [ORDER; 6]),
    (Fault::Flip, [FINGERPRINT; 6]),
    (Fault::Append, [OBJECTS, COUNT, OBJECTS, OBJECTS, COUNT, OBJECTS]),
    (Fault::Trailing, [BEHIND, BEHIND, MORE, BEHIND, BEHIND, "trailing characters"]),
    (Fault::Glue, ["field 3", "field 3", MORE, "`{` behind 1 items", "`{` behind 1 items", NO_END]),
    (Fault::Truncate, [CUT, CUT, NO_END, CUT, CUT, NO_END]),
    (Fault::Stale, [STALE; 6]),
    (Fault::StalePage, ["", OLD_PAGE, "", "", OLD_PAGE, ""]),
    (Fault::StaleObject, [FINGERPRINT; 6]),
    (Fault::Renumber, [VERSIONS; 6]),
    (Fault::OtherKind, ["its type is", "its type is", "an object of another type", "its kind is SecretList", "its kind is SecretList", "its text is not that of its object"]),
];

/// Runs every kind of list against a server with this fault; returns exit code, cases and standard
/// error.
fn run(fault: Fault, scenario: &str) -> (Option<i32>, Vec<Value>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("faults.toml"), scenario).expect("a writable folder");
    let server = FakeKube::start(fault);
    let output = loadgen(folder.path())
        .args(["run", "./faults.toml", "--kube", &server.url()])
        .args(["--out", "out", "--pause", "0s"])
        .output()
        .expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    let log = String::from_utf8_lossy(&said).into_owned();
    let cases = cases(&folder.path().join("out"), &log);
    (output.status.code(), cases, log)
}

fn cases(out: &Path, log: &str) -> Vec<Value> {
    let result = fs::read_dir(out).unwrap_or_else(|e| panic!("no result: {e}\n{log}"));
    let result = result.flatten().next().expect("a result").path();
    let report = fs::read(result.join("report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    report["cases"].as_array().expect("cases").clone()
}

#[test]
fn every_fault_fails_every_reader_with_what_is_wrong() {
    for (fault, said) in CASES {
        let (code, cases, log) = run(fault, SCENARIO);
        let expected = if said == [""; 6] { 0 } else { 1 };
        assert_eq!(code, Some(expected), "{fault:?}: {log}");
        assert_eq!(cases.len(), said.len(), "{fault:?}: {log}");
        for (row, says) in ROWS.into_iter().zip(said) {
            let case = cases.iter().find(|case| case["row"] == row);
            let case = case.unwrap_or_else(|| panic!("{fault:?}: no {row}: {log}"));
            if says.is_empty() {
                assert_eq!(case["outcome"]["state"], "measured", "{fault:?} {row}");
                assert_eq!(case["verified"]["objects"], 12, "{fault:?} {row}");
                continue;
            }
            assert_eq!(case["outcome"]["state"], "failed", "{fault:?} {row}");
            let reason = case["outcome"]["reason"].as_str().expect("a reason");
            assert!(reason.contains(says), "{fault:?} {row}: {reason}");
        }
    }
}

const PAGES: &str = r#"kube = ["paged:3", { strategy = "paged:3", media = "json" }]"#;

#[test]
fn a_list_whose_token_is_too_old_is_begun_again_and_counted() {
    let begin = SCENARIO.find("kube = [").expect("rows");
    let end = SCENARIO.find("[[data_set]]").expect("data");
    let pages = format!("{}{PAGES}\n{}", &SCENARIO[..begin], &SCENARIO[end..]);
    let (code, cases, log) = run(Fault::Expired, &pages);
    assert_eq!(code, Some(0), "{log}");
    for case in cases {
        assert_eq!(case["outcome"]["state"], "measured", "{log}");
        assert_eq!(case["requests"], 3);
        // Every other list is affected, including those after a restart.
        assert!(case["restarts"].as_u64() >= Some(2), "{case}");
        assert!(case["restarted_ms"].as_f64() > Some(0.0), "{case}");
        assert_eq!(case["verified"]["objects"], 12);
    }
    assert!(log.contains("begun again"), "{log}");

    let (code, cases, log) = run(Fault::AlwaysExpired, &pages);
    assert_eq!(code, Some(1), "{log}");
    for case in cases {
        let reason = case["outcome"]["reason"].as_str().expect("a reason");
        assert!(reason.contains("longer than history is kept"), "{reason}");
        assert_eq!(case["restarts"], 3, "three tries more, and no other list");
    }
}
