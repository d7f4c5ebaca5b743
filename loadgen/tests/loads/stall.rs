//! A server that stalls, over real sockets: how many requests each of both times says it hit. The
//! times themselves are proven on a clock that jumps, in `load`'s own tests.

use super::*;

/// Runs `case` of these cases on a server that stalls once `load` is measured.
fn stalled(cases: &str, case: &str, load: &str) -> (SavedResult, Vec<String>) {
    let server = Served::etcd();
    let (folder, mut run, said, log) = started(cases, case, &["--etcd", &server.url, SERVED, "0"]);
    until_counted(&said, load);
    server.stall(GAP);
    let log: Vec<String> = log.collect();
    run.wait().expect("it ends");
    (result_in(folder.path()), log)
}

#[test]
fn a_stall_hits_every_list_that_was_due_and_only_the_one_that_was_sent() {
    let cases = r#"
[[case]]
name = "stalled"
duration = "3s"
load = [{ name = "lists", operation = { list = "stream" }, arrivals = { constant = 100 }, clients = 1 }]
"#;
    let (result, log) = stalled(cases, "stalled", "lists");
    let lists = &result.report.cases[0].loads[0];
    assert_eq!((lists.requests, lists.errors), (300, 0), "{log:?}");
    // Those that were due in its first half waited for the second, whatever the machine did.
    let (corrected, uncorrected) = (
        hit(&result, "lists", "latency"),
        hit(&result, "lists", "service"),
    );
    assert!(corrected >= 24, "{corrected} of 300");
    // One client has one list. A machine that stalls by itself adds one, and as many to the other.
    assert!(
        (1..=corrected / 10).contains(&uncorrected),
        "{uncorrected} of 300 by the time from the send, {corrected} by that from the intended start"
    );
}

#[test]
fn a_stall_hits_every_request_of_a_schedule_and_only_one_of_who_waits() {
    let cases = r#"
[[case]]
name = "stalled"
duration = "4s"
load = [
    { name = "open", operation = "get", arrivals = { constant = 500 } },
    { name = "closed", operation = "get" },
]
"#;
    let (result, log) = stalled(cases, "stalled", "open");
    let loads = &result.report.cases[0].loads;
    assert_eq!((loads[0].requests, loads[0].errors), (2_000, 0), "{log:?}");
    // Of 250 that were due meanwhile, those of its first half waited for the second.
    let open = hit(&result, "open", "latency");
    assert!(open >= 120, "{open} of 2000");
    // One client waits once. A machine that stalls by itself adds one, and many to the other.
    let closed = hit(&result, "closed", "latency");
    assert!(
        (1..=open / 10).contains(&closed),
        "{closed} requests of who waits, {open} of the schedule"
    );
}
