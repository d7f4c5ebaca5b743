//! Conditions for comparisons: work, machines, builds, encodings.

use super::*;

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
    // The old result was saved before these fields existed.
    fresh.congestion_control = Some("bbr".into());
    fresh.free_page_lists = Some(8);
    fresh.free_page_reporting = Some(true);
    fresh.memory_bytes -= 4 << 20;
    // Results with a scenario that can no longer be read have the same notes.
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

    // etcd buffers a page, bench-server sends it incrementally. This is a difference between the
    // servers that is to be compared.
    let results = side(0, 1.0, 6);
    let sides = Sides::of_targets(&results, "etcd", "bench");
    let comparison = compare(&sides, &only(Metric::P50)).expect("two targets");
    assert_eq!(comparison.not_comparable, []);
    line(&comparison, "pods-150k/etcd/paged:10000", Metric::P50);
}
