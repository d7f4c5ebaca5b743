//! Watch: the events that arrive, their order, and their fields.

use std::collections::HashMap;

use etcd_api::proto::etcdserverpb::WatchCreateRequest;
use etcd_api::proto::etcdserverpb::watch_create_request::FilterType;
use etcd_api::proto::mvccpb::event::EventType;
use etcd_api::proto::mvccpb::{Event, KeyValue};

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::request::{delete, op, put, txn};
use crate::watch_stream::{WatchStream, create};

cases![on ONE_ENCODING;
    from_an_old_revision, from_a_future_revision, at_the_compacted_revision, tombstone_at_the_compacted_revision,
    transactions_arrive_whole, range_deletes_arrive_whole, delete_events_are_bare, one_key_twice_in_a_revision,
    previous_values, previous_values_in_a_replay, filters,
    writes_while_watchers_come, long_replay_is_in_order, nothing_is_lost_to_compaction,
];

pub(crate) fn all() -> WatchCreateRequest {
    create("\0", "\0")
}

pub(crate) fn from(start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        start_revision,
        ..all()
    }
}

/// Returns the type, key and revision of each event.
pub(crate) fn brief(events: &[Event]) -> Vec<(EventType, String, i64)> {
    let of = |event: &Event| {
        let kv = event.kv.as_ref().expect("every event has a key");
        (
            event.r#type(),
            String::from_utf8_lossy(&kv.key).into_owned(),
            kv.mod_revision,
        )
    };
    events.iter().map(of).collect()
}

pub(crate) fn p(key: &str, revision: i64) -> (EventType, String, i64) {
    (EventType::Put, key.to_owned(), revision)
}

pub(crate) fn d(key: &str, revision: i64) -> (EventType, String, i64) {
    (EventType::Delete, key.to_owned(), revision)
}

async fn from_a_future_revision(t: Target) {
    let mut watch = WatchStream::open(&t, from(5)).await;
    watch.created().await;
    for i in 2..8 {
        t.set(format!("k{i}"), "v").await;
    }
    assert_eq!(
        brief(&watch.events(3).await),
        [p("k5", 5), p("k6", 6), p("k7", 7)]
    );
}

async fn from_an_old_revision(t: Target) {
    for i in 2..6 {
        t.set(format!("k{i}"), "v").await;
    }
    t.delete(delete("k3", "")).await.expect("delete");
    let mut watch = WatchStream::open(&t, from(3)).await;
    watch.created().await;
    assert_eq!(
        brief(&watch.events(4).await),
        [p("k3", 3), p("k4", 4), p("k5", 5), d("k3", 6)]
    );
    t.set("live", "v").await;
    assert_eq!(
        brief(&watch.events(1).await),
        [p("live", 7)],
        "and then what happens"
    );
    let mut current = WatchStream::open(&t, from(7)).await;
    current.created().await;
    assert_eq!(
        brief(&current.events(1).await),
        [p("live", 7)],
        "the current revision is replayed too"
    );
}

async fn transactions_arrive_whole(t: Target) {
    t.set("old", "v").await;
    let mut live = WatchStream::open(&t, all()).await;
    live.create(create("b", "d")).await;
    live.created().await;
    live.created().await;
    let ops = ["c", "a", "b", "d"]
        .map(|key| op(put(key, "v")))
        .into_iter()
        .chain([op(delete("old", ""))]);
    t.txn(txn(ops.collect())).await.expect("txn");
    let expected = [p("c", 3), p("a", 3), p("b", 3), p("d", 3), d("old", 3)];
    for _ in 0..2 {
        let response = live.next().await;
        match response.watch_id {
            0 => assert_eq!(
                brief(&response.events),
                expected,
                "in the order of the operations"
            ),
            _ => assert_eq!(
                brief(&response.events),
                [p("c", 3), p("b", 3)],
                "those of the interval"
            ),
        }
        assert_eq!(response.header.expect("header").revision, 3);
    }
    let mut replay = WatchStream::open(&t, from(3)).await;
    replay.created().await;
    assert_eq!(
        brief(&replay.next().await.events),
        expected,
        "also when it is past"
    );
}

async fn range_deletes_arrive_whole(t: Target) {
    for key in ["c", "a", "b", "z"] {
        t.set(key, "v").await;
    }
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    t.delete(delete("a", "d")).await.expect("delete");
    assert_eq!(
        brief(&watch.next().await.events),
        [d("a", 6), d("b", 6), d("c", 6)],
        "in key order"
    );
}

async fn delete_events_are_bare(t: Target) {
    t.set("k", "v").await;
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    t.delete(delete("k", "")).await.expect("delete");
    let bare = KeyValue {
        key: "k".into(),
        mod_revision: 3,
        ..Default::default()
    };
    let expected = Event {
        r#type: EventType::Delete.into(),
        kv: Some(bare),
        prev_kv: None,
    };
    assert_eq!(watch.next().await.events, std::slice::from_ref(&expected));
    let mut replay = WatchStream::open(&t, from(3)).await;
    replay.created().await;
    assert_eq!(replay.next().await.events, [expected]);
}

async fn previous_values(t: Target) {
    let mut watch = WatchStream::open(
        &t,
        WatchCreateRequest {
            prev_kv: true,
            ..all()
        },
    )
    .await;
    watch.created().await;
    t.set("k", "1").await;
    t.set("k", "2").await;
    t.delete(delete("k", "")).await.expect("delete");
    t.set("k", "3").await;
    let previous: Vec<_> = watch
        .events(4)
        .await
        .into_iter()
        .map(|e| e.prev_kv.map(|kv| (kv.value, kv.mod_revision, kv.version)))
        .collect();
    let expected = [
        None,
        Some(("1".into(), 2, 1)),
        Some(("2".into(), 3, 2)),
        None,
    ];
    assert_eq!(previous, expected, "none for what was created");
}

async fn previous_values_in_a_replay(t: Target) {
    for value in ["1", "2", "3"] {
        t.set("k", value).await;
    }
    let replay = async |start| {
        let mut watch = WatchStream::open(
            &t,
            WatchCreateRequest {
                prev_kv: true,
                ..from(start)
            },
        )
        .await;
        watch.created().await;
        let events = watch.events(5 - start as usize).await;
        events
            .into_iter()
            .map(|e| e.prev_kv.map(|kv| kv.mod_revision))
            .collect::<Vec<_>>()
    };
    assert_eq!(replay(2).await, [None, Some(2), Some(3)]);
    t.compact(3, true).await.expect("compact");
    assert_eq!(
        replay(3).await,
        [None, Some(3)],
        "what was before the compacted revision is gone"
    );
}

async fn filters(t: Target) {
    let filtered = |filters: &[FilterType]| WatchCreateRequest {
        filters: filters.iter().map(|&f| f.into()).collect(),
        ..all()
    };
    let mut watch = WatchStream::open(&t, filtered(&[FilterType::Noput])).await;
    watch.create(filtered(&[FilterType::Nodelete])).await;
    watch
        .create(filtered(&[FilterType::Noput, FilterType::Nodelete]))
        .await;
    for _ in 0..3 {
        watch.created().await;
    }
    t.set("a", "v").await;
    t.txn(txn(vec![op(delete("a", "")), op(put("b", "v"))]))
        .await
        .expect("txn");
    t.delete(delete("b", "")).await.expect("delete");
    let mut seen: [Vec<_>; 3] = Default::default();
    for _ in 0..4 {
        let response = watch.next().await;
        seen[response.watch_id as usize].extend(brief(&response.events));
    }
    assert_eq!(
        seen,
        [
            vec![d("a", 3), d("b", 4)],
            vec![p("a", 2), p("b", 3)],
            vec![]
        ]
    );
    watch.assert_quiet().await;
}

async fn at_the_compacted_revision(t: Target) {
    for value in ["1", "2", "3", "4"] {
        t.set("k", value).await;
    }
    t.compact(4, false).await.expect("compact");
    let mut watch = WatchStream::open(&t, from(4)).await;
    watch.created().await;
    assert_eq!(brief(&watch.events(2).await), [p("k", 4), p("k", 5)]);
}

/// etcd lost this delete until 3.5.16 (issue 18089) and 3.5.18 (19179).
async fn tombstone_at_the_compacted_revision(t: Target) {
    t.set("k", "v").await;
    t.delete(delete("k", "")).await.expect("delete");
    t.set("other", "v").await;
    t.compact(3, true).await.expect("compact");
    let mut watch = WatchStream::open(&t, from(3)).await;
    watch.created().await;
    assert_eq!(brief(&watch.events(2).await), [d("k", 3), p("other", 4)]);
}

/// etcd reads the revision in a creation's header after the watcher has started, so a write in
/// between is reported twice: by the header, and as an event. bench-server reports it once.
async fn writes_while_watchers_come(t: Target) {
    const WRITES: i64 = 200;
    const WATCHERS: usize = 20;
    let writing = async {
        for i in 0..WRITES {
            t.set(format!("k{i}"), "v").await;
        }
    };
    let watching = async {
        let mut watch = WatchStream::open(&t, all()).await;
        for _ in 1..WATCHERS {
            watch.create(all()).await;
        }
        // For each watcher, the revision in the creation's header, then the revisions of its
        // events.
        let mut seen: HashMap<i64, Vec<i64>> = HashMap::new();
        let at_the_end = |revisions: &Vec<i64>| revisions.last() == Some(&(WRITES + 1));
        while seen.len() < WATCHERS || !seen.values().all(at_the_end) {
            let response = watch.next().await;
            if response.created {
                let told = response.header.expect("header").revision;
                seen.insert(response.watch_id, vec![told]);
            } else {
                let revisions = brief(&response.events)
                    .into_iter()
                    .map(|(_, _, revision)| revision);
                let watcher = seen.get_mut(&response.watch_id);
                watcher
                    .expect("created before its events")
                    .extend(revisions);
            }
        }
        for revisions in seen.values() {
            let (told, sent) = (revisions[0], &revisions[1..]);
            let gapless = sent.windows(2).all(|pair| pair[1] == pair[0] + 1);
            assert!(gapless, "no gap and no repetition: {sent:?}");
            match sent.first() {
                Some(&first) if t.peer.is_bench() => assert_eq!(first, told + 1),
                Some(&first) => assert!(first <= told + 1, "{first} after a creation at {told}"),
                None => assert_eq!(told, WRITES + 1, "created after the last write"),
            }
        }
    };
    futures::future::join(writing, watching).await;
}

async fn long_replay_is_in_order(t: Target) {
    const REVISIONS: i64 = 2_500;
    for _ in 0..REVISIONS / 10 {
        futures::future::join_all((0..10).map(|i| t.set(format!("k{i}"), "v"))).await;
    }
    let last = t.set("end", "v").await;
    let mut watch = WatchStream::open(&t, from(2)).await;
    watch.created().await;
    let mut next = 2;
    while next <= last {
        let response = watch.next().await;
        assert!(
            response.events.len() <= 1_000,
            "a catch-up response holds a thousand revisions at most"
        );
        for (_, _, revision) in brief(&response.events) {
            assert_eq!(revision, next);
            next += 1;
        }
        let told = response.header.expect("header").revision;
        assert!(
            told >= next - 1,
            "the header is never behind the events: {told}"
        );
    }
}

/// Until 3.5.13, etcd lost events of a stream that lagged behind a compaction (issue 17529).
async fn nothing_is_lost_to_compaction(t: Target) {
    const WRITES: i64 = 300;
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    let writing = async {
        for i in 0..WRITES {
            let revision = t.set(format!("k{}", i % 7), "v").await;
            if i % 10 == 9 {
                t.compact(revision, false).await.expect("compact");
            }
        }
    };
    let watching = async {
        let events = watch.events(WRITES as usize).await;
        let revisions: Vec<_> = brief(&events)
            .into_iter()
            .map(|(_, _, revision)| revision)
            .collect();
        assert_eq!(revisions, (2..WRITES + 2).collect::<Vec<_>>());
    };
    futures::future::join(writing, watching).await;
}

/// The gaps in the check for duplicate keys (`txn_limits::duplicate_key_quirks`) show in the
/// events: both changes are sent.
async fn one_key_twice_in_a_revision(t: Target) {
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    t.txn(txn(vec![op(put("x", "v")), op(delete("m", "\0"))]))
        .await
        .expect("txn");
    assert_eq!(brief(&watch.next().await.events), [p("x", 2), d("x", 2)]);
    let mut replay = WatchStream::open(&t, from(2)).await;
    replay.created().await;
    assert_eq!(brief(&replay.next().await.events), [p("x", 2), d("x", 2)]);
}
