//! How a stall of the server shows in the latencies of lists on a schedule.

use workloads::Profile;

use super::*;
use crate::driver::paused::{JumpingTimer, StallingServer, longer_than};

#[tokio::test(start_paused = true)]
async fn a_stall_is_in_the_p99_9_from_the_intended_start_and_not_from_the_send() {
    let lasts = Duration::from_secs(20);
    let server = StallingServer::new(Duration::from_secs(5), Duration::from_millis(500));
    let pace = Pace::Open(Profile::Constant(1_000.0));
    let starts = starts(&pace, 1, GeneratorShard::WHOLE);
    let ask = |_| server.list();
    let (stop, live) = (CancellationToken::new(), Live::default());
    let run = run_with::<JumpingTimer, _>(4, ask, starts, lasts, &stop, &live);
    let tally = run.await.expect("the clock needs nothing of the system");
    assert_eq!(
        (tally.lists, tally.errors, tally.overrun),
        (20_000, 0, false)
    );

    let p99_9 = |times: &LatencyHistogram| times.histogram_ns().value_at_quantile(0.999);
    let corrected = p99_9(&tally.latency);
    assert!(
        (480_000_000..=501_000_000).contains(&corrected),
        "{corrected} ns"
    );
    let uncorrected = p99_9(&tally.service);
    assert!(uncorrected <= 1_001_000, "{uncorrected} ns");
    // Each of the four clients met the stall once. Every list that was due waited for its end.
    assert_eq!(longer_than(&tally.service, 5), 4);
    let waited = longer_than(&tally.latency, 5);
    assert!(waited >= 495, "{waited}");
    // The lag is small: the lists waited for clients that the server kept busy, not for the
    // generator.
    assert!(p99_9(&tally.lag) <= 1_001_000);
}

/// Lists of 1 ms by two clients that think for 9 ms: one list a client each 10 ms.
#[tokio::test(start_paused = true)]
async fn a_client_that_thinks_lists_later_and_its_latency_has_no_thinking_in_it() {
    let lasts = Duration::from_secs(10);
    let server = StallingServer::new(Duration::MAX, Duration::ZERO);
    let pace = Pace::Closed {
        clients: 2,
        think: Duration::from_millis(9),
    };
    let starts = starts(&pace, 1, GeneratorShard::WHOLE);
    let ask = |_| server.list();
    let (stop, live) = (CancellationToken::new(), Live::default());
    let run = run_with::<JumpingTimer, _>(2, ask, starts, lasts, &stop, &live);
    let tally = run.await.expect("it needs no timer of the system");
    assert_eq!((tally.lists, tally.errors), (2_000, 0));
    let longest = tally.latency.histogram_ns().max();
    assert!(longest < 2_000_000, "{longest} ns");
}
