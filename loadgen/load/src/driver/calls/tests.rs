//! Runs against a peer that accepts every request and responds to none.

use etcd_api::client::pipelined::Framing;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use workloads::{DataSet, DataSetSpec, Kind, Profile, SmallRequest};

use super::*;
use crate::driver::paused::{Connection, JumpingTimer, StallingServer, longer_than};
use crate::operation::requests::RequestConfig;
use crate::record::LatencyHistogram;

/// Returns a connection to such a peer, which lives as long as the test's runtime.
async fn to_a_hanging_peer() -> PipelinedConnection {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        socket.write_all(&settings).await.expect("it reads");
        let mut ignored = [0; 4096];
        while socket.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
    });
    let config = ClientConfig::new(&address.to_string()).expect("an address");
    let connection = PipelinedConnection::connect_as(Framing::Minimal, &config, None).await;
    connection.expect("it accepts")
}

fn gets() -> Arc<EtcdRequests> {
    let data = DataSet::new(&DataSetSpec {
        name: "few".to_owned(),
        kind: Kind::Raw,
        objects: 10_u64.try_into().expect("some objects"),
        object_size: 100_u64.try_into().ok(),
        object_sizes: None,
        namespaces: None,
        nodes: None,
        seed: 1,
    });
    EtcdRequests::new(SmallRequest::Get, RequestConfig::new(&data, "/")).into()
}

/// Performs a run of ten years that is stopped after an hour, on tokio's paused clock. Returns its
/// tally and when it ended.
async fn stopped_after_an_hour(pace: Pace) -> (Tally, Duration) {
    let mut connections = [to_a_hanging_peer().await];
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let run = Run {
        pace,
        waiting: Waiting::Sleep,
        duration: Duration::from_secs(10 * 365 * 24 * 3_600),
        stop: CancellationToken::new(),
        live: Arc::default(),
    };
    let stop = async {
        sleep(Duration::from_secs(3_600)).await;
        run.stop.cancel();
    };
    let calls = gets();
    let numbers = ConnectionNumbers {
        shard: GeneratorShard::WHOLE,
        of_load: 1,
    };
    let sent = all_connections::<Alarm, _>(&mut connections, numbers.slots(0), &*calls, &run);
    let (tally, ()) = tokio::join!(sent, stop);
    (tally, begun.elapsed())
}

#[tokio::test]
async fn a_stopped_run_waits_for_a_hanging_target_no_longer_than_it_says() {
    let (tally, took) = stopped_after_an_hour(Pace::closed(3)).await;
    assert_eq!((tally.requests, tally.errors), (3, 3));
    assert_eq!(tally.reasons.of("no response within 10 s"), 3);
    assert_eq!(took.as_secs(), 3_610);
}

#[tokio::test]
async fn a_stopped_schedule_with_nothing_outstanding_ends_at_once() {
    // One request a year.
    let per_second = 1.0 / (365.0 * 24.0 * 3_600.0);
    let (tally, took) = stopped_after_an_hour(Pace::Open(Profile::Poisson(per_second))).await;
    assert_eq!((tally.requests, tally.errors), (0, 0));
    assert_eq!(took.as_secs(), 3_600);
}

#[tokio::test]
async fn when_the_first_request_is_due_is_known_before_the_clock_starts() {
    let run = Run {
        pace: Pace::Open(Profile::Poisson(1_000.0)),
        waiting: Waiting::Sleep,
        duration: Duration::from_secs(1),
        stop: CancellationToken::new(),
        live: Arc::default(),
    };
    let (calls, given_up, next_due) = (gets(), Cell::new(false), NextDue::default());
    let slot = ConnectionSlot {
        connection: 0,
        connections: 1,
        run_number: 0,
    };
    let _driver = Driver::new(&*calls, &run, slot, Instant::now(), &given_up, &next_due);
    assert!(next_due.due().is_some_and(|due| due < run.duration));
}

/// Performs a run of `duration` against a server that stalls, over `count` connections.
async fn against(server: &StallingServer, pace: Pace, duration: Duration, count: u32) -> Tally {
    let mut connections: Vec<Connection> = (0..count).map(|_| Connection::default()).collect();
    let run = Run {
        pace,
        waiting: Waiting::Sleep,
        duration,
        stop: CancellationToken::new(),
        live: Arc::default(),
    };
    let numbers = ConnectionNumbers {
        shard: GeneratorShard::WHOLE,
        of_load: count,
    };
    all_connections::<JumpingTimer, _>(&mut connections, numbers.slots(0), server, &run).await
}

#[tokio::test(start_paused = true)]
async fn a_stall_of_the_server_is_in_the_p99_9_of_a_schedule_and_not_of_clients_that_wait() {
    let (lasts, stall) = (Duration::from_secs(20), Duration::from_millis(500));
    let server = StallingServer::new(Duration::from_secs(5), stall);
    let open = Pace::Open(Profile::Constant(1_000.0));
    let open = against(&server, open, lasts, 4).await;
    assert_eq!((open.requests, open.errors), (20_000, 0));
    // Of the 500 that were due meanwhile, each waited until the end of the stall.
    assert_eq!(longer_than(&open.latency, 5), 496, "all but the last four");
    let p99_9 = open.latency.histogram_ns().value_at_quantile(0.999);
    assert!((478_000_000..=485_000_000).contains(&p99_9), "{p99_9} ns");

    // The same server and as many requests. Waiting clients send none during the stall, and miss
    // it.
    let server = StallingServer::new(Duration::from_secs(5), stall);
    let closed = Pace::closed(4);
    let closed = against(&server, closed, lasts, 4).await;
    assert!(closed.requests > open.requests, "{}", closed.requests);
    assert_eq!(longer_than(&closed.latency, 5), 4, "one of each client");
    let p99_9 = closed.latency.histogram_ns().value_at_quantile(0.999);
    assert!(p99_9 <= 1_001_000, "{p99_9} ns");
}

/// Requests of 1 ms by four clients that think for 9 ms, on four connections and on one.
#[tokio::test(start_paused = true)]
async fn a_client_that_thinks_sends_later_and_its_latency_has_no_thinking_in_it() {
    let lasts = Duration::from_secs(10);
    for connections in [4, 1] {
        let server = StallingServer::new(Duration::MAX, Duration::ZERO);
        let pace = Pace::Closed {
            clients: 4,
            think: Duration::from_millis(9),
        };
        let tally = against(&server, pace, lasts, connections).await;
        assert_eq!((tally.requests, tally.errors), (4_000, 0));
        let longest = tally.latency.histogram_ns().max();
        assert!(longest < 2_000_000, "{longest} ns");
        assert_eq!(tally.elapsed.as_secs(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_goes_away_answers_what_it_has_taken() {
    let lasts = Duration::from_secs(20);
    for pace in [Pace::closed(8), Pace::Open(Profile::Constant(1_000.0))] {
        let server = StallingServer::going_away(100);
        let tally = against(&server, pace, lasts, 4).await;
        // More than forty connections, one after the other, each with outstanding requests at its
        // end.
        assert!(tally.requests > 4_000, "{}", tally.requests);
        assert_eq!(tally.errors, 0, "{:?}", tally.reasons);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stall_of_the_generator_is_in_times_from_the_intended_start_alone() {
    let server = StallingServer::new(Duration::MAX, Duration::ZERO);
    let lasts = Duration::from_secs(20);
    let run = against(&server, Pace::Open(Profile::Constant(1_000.0)), lasts, 4);
    let stall = async {
        sleep(Duration::from_secs(5)).await;
        // The clock advances, but the connections are not polled.
        tokio::time::advance(Duration::from_millis(500)).await;
    };
    let (tally, ()) = tokio::join!(run, stall);
    assert_eq!((tally.requests, tally.errors), (20_000, 0));
    let p99_9 = |times: &LatencyHistogram| times.histogram_ns().value_at_quantile(0.999);
    let corrected = p99_9(&tally.latency);
    assert!(corrected >= 478_000_000, "{corrected} ns");
    let uncorrected = p99_9(&tally.service);
    assert!(uncorrected <= 1_001_000, "{uncorrected} ns");
    assert!(p99_9(&tally.lag) >= 477_000_000, "it is the generator's");
    assert!(
        tally.stall >= Duration::from_millis(495),
        "{:?}",
        tally.stall
    );
}
