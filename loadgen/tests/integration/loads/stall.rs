//! A server that stalls, over real sockets: the number of affected requests by the time from the
//! intended start and by the time from the send. The tests of the crate `load` check the times
//! themselves with a simulated clock.

use super::*;

/// Runs `case` of these cases on a server that is stalled once `load` is measured.
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
    // Lists that were due in the stall's first half waited throughout its second half, on any
    // machine.
    let (corrected, uncorrected) = (
        hit(&result, "lists", "latency"),
        hit(&result, "lists", "service"),
    );
    assert!(corrected >= 24, "{corrected} of 300");
    // One client has one list in flight. If the machine itself stalls, it adds one list to
    // `uncorrected`, and many to `corrected`.
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
    // 250 requests were due during the stall; those due in its first half waited throughout its
    // second half.
    let open = hit(&result, "open", "latency");
    assert!(open >= 120, "{open} of 2000");
    // One client waits once. If the machine itself stalls, it adds one request to `closed`, and
    // many to `open`.
    let closed = hit(&result, "closed", "latency");
    assert!(
        (1..=open / 10).contains(&closed),
        "{closed} requests of who waits, {open} of the schedule"
    );
}
