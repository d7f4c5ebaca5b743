//! Watch progress: by interval, on request, and never ahead of events.

use std::time::Duration;

use etcd_api::proto::etcdserverpb::WatchCreateRequest;

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::watch_stream::{WatchStream, create};

const SHORT: [&str; 1] = ["--watch-progress-notify-interval=200ms"];
/// Time to wait when the absence of a response is checked: a few intervals.
const A_WHILE: Duration = Duration::from_millis(900);

cases![on ONE_ENCODING;
    notified_when_idle with SHORT, notified_only_when_asked_for with SHORT,
    answers_for_the_whole_stream, answers_each_request, dropped_without_watchers, dropped_before_a_future_start,
    dropped_before_the_next_revision with SHORT,
    dropped_while_a_cancelled_watcher_stays, waits_for_catching_up, never_overtakes_events,
];

fn all() -> WatchCreateRequest {
    create("\0", "\0")
}

fn is_progress(response: &etcd_api::proto::etcdserverpb::WatchResponse) -> bool {
    response.events.is_empty() && !response.created && !response.canceled
}

async fn notified_when_idle(t: Target) {
    let revision = t.set("k", "v").await;
    let mut watch = WatchStream::open(
        &t,
        WatchCreateRequest {
            progress_notify: true,
            ..create("other", "")
        },
    )
    .await;
    let id = watch.created().await;
    for _ in 0..2 {
        let response = watch.next().await;
        assert!(is_progress(&response), "{response:?}");
        assert_eq!(
            (response.watch_id, response.header.expect("header").revision),
            (id, revision)
        );
    }
    // A write to another key is reported as progress.
    let revision = t.set("k", "v").await;
    loop {
        let response = watch.next().await;
        assert!(is_progress(&response), "{response:?}");
        if response.header.expect("header").revision == revision {
            break;
        }
    }
}

async fn notified_only_when_asked_for(t: Target) {
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    let unexpected = watch.next_within(A_WHILE).await;
    assert_eq!(unexpected, None);
    t.set("k", "v").await;
    assert_eq!(watch.next().await.events.len(), 1);
}

async fn answers_for_the_whole_stream(t: Target) {
    let revision = t.set("k", "v").await;
    let mut watch = WatchStream::open(&t, create("a", "")).await;
    watch.create(create("b", "")).await;
    watch.created().await;
    watch.created().await;
    watch.ask_progress().await;
    let response = watch.next().await;
    assert!(is_progress(&response), "{response:?}");
    assert_eq!(
        (response.watch_id, response.header.expect("header").revision),
        (-1, revision)
    );
    let revision = t.set("k", "v").await;
    watch.ask_progress().await;
    assert_eq!(
        watch.next().await.header.expect("header").revision,
        revision,
        "without an event of its own"
    );
}

async fn answers_each_request(t: Target) {
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    for _ in 0..5 {
        watch.ask_progress().await;
    }
    for _ in 0..5 {
        let response = watch.next().await;
        assert!(is_progress(&response), "{response:?}");
    }
    assert_eq!(watch.next_within(A_WHILE).await, None);
}

async fn dropped_without_watchers(t: Target) {
    let mut watch = WatchStream::open(&t, all()).await;
    let id = watch.created().await;
    watch.cancel(id).await;
    assert!(watch.next().await.canceled);
    watch.ask_progress().await;
    assert_eq!(watch.next_within(A_WHILE).await, None, "nobody to speak of");
    watch.create(all()).await;
    watch.created().await;
    assert_eq!(
        watch.next_within(A_WHILE).await,
        None,
        "dropped, not put off"
    );
}

async fn dropped_before_a_future_start(t: Target) {
    let mut watch = WatchStream::open(&t, all()).await;
    watch
        .create(WatchCreateRequest {
            start_revision: 4,
            ..create("x", "")
        })
        .await;
    watch.created().await;
    watch.created().await;
    watch.ask_progress().await;
    assert_eq!(watch.next_within(A_WHILE).await, None);
    for _ in 2..=4 {
        t.set("k", "v").await;
        assert_eq!(watch.next().await.events.len(), 1);
    }
    // The watch's start revision is reached; the server may notice it with a delay.
    let response = progress(&mut watch).await;
    assert_eq!(
        (response.watch_id, response.header.expect("header").revision),
        (-1, 4)
    );
}

/// A cache watches from the revision after its list. There is no progress to report until something
/// is written.
async fn dropped_before_the_next_revision(t: Target) {
    let revision = t.set("k", "v").await;
    let next = WatchCreateRequest {
        start_revision: revision + 1,
        progress_notify: true,
        ..create("other", "")
    };
    let mut watch = WatchStream::open(&t, next).await;
    watch.created().await;
    watch.ask_progress().await;
    assert_eq!(
        watch.next_within(A_WHILE).await,
        None,
        "neither on request nor by time"
    );
    t.set("k", "v").await;
    let response = progress(&mut watch).await;
    assert_eq!(response.header.expect("header").revision, revision + 1);
}

/// Requests progress until a response arrives, as clients do.
async fn progress(watch: &mut WatchStream) -> etcd_api::proto::etcdserverpb::WatchResponse {
    for _ in 0..50 {
        watch.ask_progress().await;
        if let Some(response) = watch.next_within(Duration::from_millis(200)).await {
            assert!(is_progress(&response), "{response:?}");
            return response;
        }
    }
    panic!("no progress after 50 requests");
}

async fn dropped_while_a_cancelled_watcher_stays(t: Target) {
    for value in ["1", "2", "3"] {
        t.set("k", value).await;
    }
    t.compact(4, false).await.expect("compact");
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    watch
        .create(WatchCreateRequest {
            start_revision: 2,
            ..all()
        })
        .await;
    let id = watch.created().await;
    assert_eq!(watch.next().await.compact_revision, 4);
    watch.ask_progress().await;
    assert_eq!(
        watch.next_within(A_WHILE).await,
        None,
        "it is still registered"
    );
    watch.cancel(id).await;
    assert!(watch.next().await.canceled);
    assert_eq!(
        progress(&mut watch).await.header.expect("header").revision,
        4
    );
}

async fn waits_for_catching_up(t: Target) {
    for _ in 0..300 {
        futures::future::join_all((0..10).map(|i| t.set(format!("k{i}"), "x".repeat(500)))).await;
    }
    let last = t.revision().await;
    let mut watch = WatchStream::open(
        &t,
        WatchCreateRequest {
            start_revision: 2,
            ..all()
        },
    )
    .await;
    watch.created().await;
    let mut seen = 1;
    loop {
        watch.ask_progress().await;
        let Some(response) = watch.next_within(Duration::from_millis(200)).await else {
            continue;
        };
        if is_progress(&response) {
            assert_eq!(
                (response.watch_id, seen),
                (-1, last),
                "progress comes after all that is past"
            );
            break;
        }
        seen = response
            .events
            .last()
            .and_then(|e| e.kv.as_ref())
            .map_or(seen, |kv| kv.mod_revision);
    }
}

/// Until 3.5.8, etcd's progress could overtake events (issue 15220).
async fn never_overtakes_events(t: Target) {
    const WRITES: i64 = 500;
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    let writing = async {
        for i in 0..WRITES {
            t.set(format!("k{}", i % 5), "v").await;
        }
    };
    let watching = async {
        let (mut seen, mut answers) = (1, 0);
        while seen < WRITES + 1 || answers == 0 {
            watch.ask_progress().await;
            let response = watch.next().await;
            let told = response.header.as_ref().expect("header").revision;
            if is_progress(&response) {
                assert_eq!(response.watch_id, -1);
                assert!(
                    told <= seen,
                    "progress to {told} while only {seen} was delivered"
                );
                answers += 1;
            }
            for event in &response.events {
                let revision = event.kv.as_ref().expect("a key").mod_revision;
                assert_eq!(revision, seen + 1);
                seen = revision;
            }
        }
    };
    futures::future::join(writing, watching).await;
}
