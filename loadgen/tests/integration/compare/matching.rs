//! The matching of cases, and the messages about cases without a counterpart or a metric.

use super::*;

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
            // The cases of the new side are in reverse order.
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
    // A failed base cannot be compared with.
    let comparison = compared(&new, &side(0, 1.0, 4), &Options::default());
    assert_eq!(comparison.end(), End::CannotTell);
    assert_eq!(
        comparison.not_comparable[0].reason,
        "in the base: FAILED: the server died"
    );
}

#[test]
fn a_case_that_failed_in_the_base_and_was_not_tried_again_is_not_passed_over() {
    let mut base = side(0, 1.0, 4);
    for result in &mut base {
        stream(result).outcome = Outcome::Failed {
            reason: "the server died".into(),
        };
    }
    let new = changed(side(1, 1.0, 4), |result| {
        result.report.cases.retain(|case| case.strategy != "stream");
    });
    let comparison = compared(&base, &new, &Options::default());
    assert_eq!(comparison.end(), End::CannotTell, "{comparison:#?}");
    assert_eq!(comparison.not_comparable[0].case, STREAM);
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
    // One of six runs fails: the remaining runs would be a biased sample.
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
    // A CPU clock that did not advance.
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
