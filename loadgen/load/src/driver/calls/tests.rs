//! Runs against a peer that takes every request and answers none.

use etcd_api::client::pipelined::Framing;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use workloads::{DataSet, DataSetSpec, Kind, Profile, SmallRequest};

use super::*;
use crate::operation::requests::About;

/// A connection to such a peer, which lives as long as the test's runtime.
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

fn gets() -> Arc<Calls> {
    let data = DataSet::new(&DataSetSpec {
        name: "few".to_owned(),
        kind: Kind::Raw,
        objects: 10_u64.try_into().expect("some objects"),
        object_size: 100_u64.try_into().ok(),
        namespaces: None,
        nodes: None,
        seed: 1,
    });
    Calls::new(SmallRequest::Get, About::new(&data, "/")).into()
}

/// A run of ten years that is stopped after an hour; what it came to and when it ended, on a clock
/// that jumps.
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
    let lanes = Lanes {
        shard: GeneratorShard::WHOLE,
        of_load: 1,
    };
    let sent = all_lanes(&mut connections, lanes.places(0), &*calls, &run);
    let (tally, ()) = tokio::join!(sent, stop);
    (tally, begun.elapsed())
}

#[tokio::test]
async fn a_stopped_run_waits_for_a_hanging_target_no_longer_than_it_says() {
    let (tally, took) = stopped_after_an_hour(Pace::Closed { clients: 3 }).await;
    assert_eq!((tally.requests, tally.errors), (3, 3));
    assert_eq!(tally.error_counts["no answer within 10 s"], 3);
    assert_eq!(took.as_secs(), 3_610);
}

#[tokio::test]
async fn a_stopped_schedule_with_nothing_outstanding_ends_at_once() {
    // One a year.
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
    let (calls, given_up, lane) = (gets(), Cell::new(false), Lane::default());
    let place = Place {
        number: 0,
        lanes: 1,
        part: 0,
    };
    let _driver = Driver::new(&*calls, &run, place, Instant::now(), &given_up, &lane);
    assert!(lane.due().is_some_and(|due| due < run.duration));
}
