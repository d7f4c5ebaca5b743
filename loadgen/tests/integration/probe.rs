//! `loadgen probe`: bench-server and etcd keep every rule, and each rule is reported as broken if a
//! server breaks it.

mod lying_etcd;

use assert_cmd::Command;
use test_support::program_or_skip;

use self::lying_etcd::{Lie, LyingEtcd};
use crate::support::probed::{probe, rules};
use crate::support::served::Served;

#[track_caller]
fn assert_honours_all(target: &str) {
    let (code, document, log) = probe(target, &[]);
    assert_eq!(code, Some(0), "{document:#} {log}");
    let rules_of = |verdict| rules(&document, verdict);
    assert_eq!(rules_of("broken"), Vec::<&str>::new(), "{document:#}");
    assert_eq!(rules_of("not_tried"), Vec::<&str>::new(), "{document:#}");
    assert_eq!(rules_of("lacking"), Vec::<&str>::new(), "{document:#}");
    assert_eq!(document["counts"]["honoured"], 35, "{document:#}");
}

#[test]
fn our_own_server_honours_every_rule() {
    assert_honours_all("bench");
}

#[test]
fn etcd_honours_every_rule() {
    let Some(program) = program_or_skip("ETCD_BIN", "etcd") else {
        return;
    };
    assert_honours_all(&format!("etcd:{}", program.display()));
}

#[test]
fn an_old_etcd_lacks_range_stream_and_breaks_nothing() {
    let Some(program) = program_or_skip("ETCD34_BIN", "etcd34") else {
        return;
    };
    let (_, document, log) = probe(&format!("etcd:{}", program.display()), &[]);
    assert_eq!(
        rules(&document, "broken"),
        Vec::<&str>::new(),
        "{document:#} {log}"
    );
    let lacking = rules(&document, "lacking");
    assert!(lacking.contains(&"range-stream"), "{lacking:?}");
}

#[test]
fn the_text_says_what_was_sent_for_a_broken_rule() {
    let server = Served::etcd();
    let lying = LyingEtcd::start(&server.url, Lie::CountsAll);
    let output = Command::cargo_bin("loadgen")
        .expect("it is built for its tests")
        .args(["probe", &lying.url()])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let broken = text
        .lines()
        .position(|line| line.starts_with("BROKEN  pages"));
    let broken = broken.unwrap_or_else(|| panic!("it has the rule: {text}"));
    let lines: Vec<_> = text.lines().skip(broken).take(3).collect();
    assert!(lines[0].contains("on the second page, where"), "{text}");
    assert!(
        lines[1].contains("contract: ") && lines[2].contains("sent: Range"),
        "{text}"
    );
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains("1 BROKEN"), "{last}");
}

#[test]
fn every_rule_is_found_broken_where_a_server_breaks_it() {
    for lie in Lie::ALL {
        let server = Served::etcd();
        let lying = LyingEtcd::start(&server.url, lie);
        let (code, document, log) = probe(&lying.url(), &[]);
        let broken = rules(&document, "broken");
        let rule = lie.rule();
        assert!(
            broken.contains(&rule),
            "{lie:?} breaks {rule}, found {broken:?}: {document:#} {log}"
        );
        assert_eq!(code, Some(1), "{lie:?}");
    }
}

#[test]
fn where_keys_are_nothing_is_written_unless_it_is_allowed() {
    let server = Served::etcd();
    let lying = LyingEtcd::start(&server.url, Lie::None);
    lying.put("/theirs/1");
    let (code, document, log) = probe(&lying.url(), &[]);
    assert_eq!(code, Some(0), "{document:#} {log}");
    assert_eq!(document["wrote"], false);
    assert_eq!(lying.writes(), 0, "{document:#}");
    let not_tried = rules(&document, "not_tried");
    assert!(not_tried.contains(&"txn-create") && not_tried.contains(&"lease-attach"));

    let (code, document, log) = probe(&lying.url(), &["--seed-data"]);
    assert_eq!(code, Some(0), "{document:#} {log}");
    assert_eq!(document["wrote"], true);
    assert!(lying.writes() > 0);
    assert_eq!(
        rules(&document, "not_tried"),
        ["compacted-range", "compacted-watch"]
    );
    assert_eq!(
        lying.keys(),
        ["/theirs/1"],
        "what was written is gone again"
    );
}
