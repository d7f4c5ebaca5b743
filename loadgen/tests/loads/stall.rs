//! A server that stalls, over real sockets: how many lists each of both times says it hit. The
//! times themselves are proven on a clock that jumps, in `load`'s own tests.

use report::result::SavedResult;

use super::*;

/// How long the server does nothing.
const STALL: Duration = Duration::from_millis(500);
/// What counts as hit by it: half of it.
const HIT: Duration = Duration::from_millis(250);

/// Returns how many lists took longer than [`HIT`], by one of the times of load `lists`.
fn hit(result: &SavedResult, measure: &str) -> u64 {
    let measure = format!("lists.{measure}");
    let mut all = result.histograms.iter();
    let times = all.find(|times| times.measure == measure);
    let times = &times.expect("it was timed").histogram;
    times
        .histogram_ns()
        .count_between(HIT.as_nanos() as u64, u64::MAX)
}

#[test]
fn a_stall_hits_every_list_that_was_due_and_only_the_one_that_was_sent() {
    let server = Served::etcd();
    let cases = r#"
[[case]]
name = "stalled"
duration = "3s"
load = [{ name = "lists", operation = { list = "stream" }, arrivals = { constant = 100 }, clients = 1 }]
"#;
    let (folder, mut run, _, log) = started(cases, "stalled", &["--etcd", &server.url]);
    thread::sleep(Duration::from_millis(500));
    server.stall(STALL);
    let log: Vec<String> = log.collect();
    run.wait().expect("it ends");
    let results = fs::read_dir(folder.path().join("out")).expect("a result");
    let result = results.flatten().next().expect("one").path();
    let result = SavedResult::load(&result).expect("it can be read");
    let lists = &result.report.cases[0].loads[0];
    assert_eq!((lists.requests, lists.errors), (300, 0), "{log:?}");
    // Those that were due in its first half waited for the second, whatever the machine did.
    let (corrected, uncorrected) = (hit(&result, "latency"), hit(&result, "service"));
    assert!(corrected >= 24, "{corrected} of 300");
    // One client has one list. A machine that stalls by itself adds one, and as many to the other.
    assert!(
        (1..=corrected / 10).contains(&uncorrected),
        "{uncorrected} of 300 by the time from the send, {corrected} by that from the intended start"
    );
}
