//! Watch: creation, IDs, intervals, cancellation, and the conditions that end a watch.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::WatchCreateRequest;
use etcd_api::proto::mvccpb::event::EventType;
use etcd_api::proto::mvccpb::{Event, KeyValue};

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::watch_events::{all, brief, from, p};
use crate::watch_stream::{WatchStream, create};

cases![on ONE_ENCODING;
    from_the_current_revision, ids_count_from_zero, ids_may_be_chosen, intervals, wrong_intervals_are_refused, empty_key_is_the_zero_key,
    cancelling, cancelling_while_catching_up, unknown_ids_are_ignored, several_watchers_of_one_key,
    compacted_start, negative_start_is_refused, half_closing_changes_nothing,
    empty_requests_are_ignored, streams_do_not_share_ids,
    many_watchers_on_a_stream,
];

async fn from_the_current_revision(t: Target) {
    t.set("k", "before").await;
    let mut watch = WatchStream::open(&t, create("k", "")).await;
    let created = watch.next().await;
    assert!(created.created);
    let header = created.header.as_ref().expect("header");
    assert_eq!(
        (created.watch_id, header.revision),
        (0, 2),
        "the first id is 0; the header tells the revision"
    );
    assert!(header.cluster_id != 0 && header.member_id != 0 && header.raft_term >= 2);
    t.set("other", "v").await;
    t.set("k", "after").await;
    let response = watch.next().await;
    assert_eq!(
        (
            response.watch_id,
            response.header.as_ref().map(|h| h.revision)
        ),
        (0, Some(4))
    );
    let expected = KeyValue {
        key: "k".into(),
        value: "after".into(),
        create_revision: 2,
        mod_revision: 4,
        version: 2,
        lease: 0,
    };
    assert_eq!(
        response.events,
        [Event {
            r#type: EventType::Put.into(),
            kv: Some(expected),
            prev_kv: None
        }]
    );
    assert!(!response.canceled && !response.fragment && response.cancel_reason.is_empty());
}

async fn ids_count_from_zero(t: Target) {
    let mut watch = WatchStream::open(&t, create("a", "")).await;
    watch.create(create("b", "")).await;
    watch.create(create("c", "")).await;
    assert_eq!(
        [
            watch.created().await,
            watch.created().await,
            watch.created().await
        ],
        [0, 1, 2]
    );
    t.set("b", "v").await;
    assert_eq!(watch.next().await.watch_id, 1);
    watch.cancel(1).await;
    assert!(watch.next().await.canceled);
    watch.create(create("b", "")).await;
    assert_eq!(watch.created().await, 3, "ids are not used again");
}

async fn ids_may_be_chosen(t: Target) {
    let chosen = |watch_id| WatchCreateRequest {
        watch_id,
        ..create("k", "")
    };
    let mut watch = WatchStream::open(&t, chosen(1)).await;
    assert_eq!(watch.created().await, 1);
    for expected in [0, 2] {
        watch.create(create("k", "")).await;
        assert_eq!(watch.created().await, expected, "chosen ids are skipped");
    }
    watch.create(chosen(-7)).await;
    assert_eq!(watch.created().await, -7);
    watch.create(chosen(1)).await;
    let refused = watch.next().await;
    assert_eq!(
        (refused.watch_id, refused.created, refused.canceled),
        (-1, true, true)
    );
    assert_eq!(
        refused.cancel_reason,
        "mvcc: duplicate watch ID provided on the WatchStream"
    );
    t.set("k", "v").await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(watch.next().await.watch_id);
    }
    ids.sort_unstable();
    assert_eq!(
        ids,
        [-7, 0, 1, 2],
        "one response each, the refused one none"
    );
}

async fn intervals(t: Target) {
    let mut watch = WatchStream::open(&t, create("b", "d")).await;
    watch.create(create("c", "\0")).await;
    watch.create(create("c", "")).await;
    for _ in 0..3 {
        watch.created().await;
    }
    for key in ["a", "b", "c", "d", "cc"] {
        t.set(key, "v").await;
    }
    let mut seen: [Vec<String>; 3] = Default::default();
    for _ in 0..7 {
        let response = watch.next().await;
        seen[response.watch_id as usize]
            .extend(brief(&response.events).into_iter().map(|(_, key, _)| key));
    }
    assert_eq!(
        seen,
        [vec!["b", "c", "cc"], vec!["c", "d", "cc"], vec!["c"]]
    );
    watch.assert_quiet().await;
}

async fn wrong_intervals_are_refused(t: Target) {
    let mut watch = WatchStream::open(&t, create("b", "a")).await;
    watch.create(create("b", "b")).await;
    for _ in 0..2 {
        let refused = watch.next().await;
        assert_eq!(
            (refused.watch_id, refused.created, refused.canceled),
            (-1, true, true)
        );
        assert_eq!(
            (&*refused.cancel_reason, refused.compact_revision),
            ("mvcc: watcher range is empty", 0)
        );
    }
    // The revision is checked first.
    let mut both = create("b", "a");
    both.start_revision = -1;
    watch.create(both).await;
    assert_eq!(watch.next().await.cancel_reason, Refusal::Compacted.text());
    watch.create(create("b", "c")).await;
    assert_eq!(
        watch.created().await,
        0,
        "the stream goes on, and no id was used"
    );
}

async fn empty_key_is_the_zero_key(t: Target) {
    let mut watch = WatchStream::open(&t, create("", "\0")).await;
    watch.create(create("", "")).await;
    watch.created().await;
    let zero = watch.created().await;
    t.set("any", "v").await;
    assert_eq!(brief(&watch.events(1).await), [p("any", 2)]);
    t.set("\0", "v").await;
    let mut ids = [watch.next().await.watch_id, watch.next().await.watch_id];
    ids.sort_unstable();
    assert_eq!(ids, [0, zero]);
}

async fn cancelling(t: Target) {
    let mut watch = WatchStream::open(&t, create("k", "")).await;
    let id = watch.created().await;
    let revision = t.set("k", "v").await;
    watch.next().await;
    watch.cancel(id).await;
    let canceled = watch.next().await;
    assert_eq!(
        (canceled.watch_id, canceled.canceled, canceled.created),
        (id, true, false)
    );
    assert_eq!(
        (&*canceled.cancel_reason, canceled.compact_revision),
        ("", 0)
    );
    assert_eq!(canceled.header.expect("header").revision, revision);
    t.set("k", "again").await;
    watch.assert_quiet().await;
}

async fn cancelling_while_catching_up(t: Target) {
    for i in 0..200 {
        t.set(format!("k{i}"), "v").await;
    }
    let mut watch = WatchStream::open(&t, from(2)).await;
    watch.cancel(0).await;
    let id = watch.created().await;
    // Some past events may have been sent before the cancellation.
    let mut canceled = watch.next().await;
    while !canceled.canceled {
        canceled = watch.next().await;
    }
    assert_eq!((canceled.watch_id, canceled.events.len()), (id, 0));
    t.set("k", "v").await;
    watch.assert_quiet().await;
}

async fn unknown_ids_are_ignored(t: Target) {
    let mut watch = WatchStream::open(&t, create("k", "")).await;
    let id = watch.created().await;
    watch.cancel(404).await;
    watch.assert_quiet().await;
    watch.cancel(id).await;
    assert!(watch.next().await.canceled);
    watch.cancel(id).await;
    watch.assert_quiet().await;
}

async fn several_watchers_of_one_key(t: Target) {
    let mut watch = WatchStream::open(&t, create("k", "")).await;
    watch.create(create("k", "")).await;
    watch.create(create("j", "l")).await;
    watch.create(create("x", "")).await;
    for _ in 0..4 {
        watch.created().await;
    }
    for value in ["1", "2"] {
        t.set("k", value).await;
    }
    let mut seen = Vec::new();
    for _ in 0..6 {
        let response = watch.next().await;
        let revision = response.events[0].kv.as_ref().expect("a key").mod_revision;
        seen.push((response.watch_id, revision));
    }
    seen.sort_unstable();
    assert_eq!(seen, [(0, 2), (0, 3), (1, 2), (1, 3), (2, 2), (2, 3)]);
    watch.assert_quiet().await;
}

async fn compacted_start(t: Target) {
    for value in ["1", "2", "3", "4"] {
        t.set("k", value).await;
    }
    t.compact(4, false).await.expect("compact");
    let mut watch = WatchStream::open(&t, from(2)).await;
    let id = watch.created().await;
    let canceled = watch.next().await;
    assert_eq!(
        (
            canceled.watch_id,
            canceled.canceled,
            canceled.compact_revision
        ),
        (id, true, 4)
    );
    assert_eq!(
        (&*canceled.cancel_reason, canceled.events.len()),
        ("", 0),
        "told by the revision, not by a reason"
    );
    assert_eq!(
        canceled.header.map(|header| header.revision),
        Some(0),
        "it has nothing to say about progress"
    );
    watch.cancel(id).await;
    let again = watch.next().await;
    assert_eq!(
        (again.watch_id, again.canceled, again.compact_revision),
        (id, true, 0),
        "the client's own cancel"
    );
}

async fn negative_start_is_refused(t: Target) {
    let mut watch = WatchStream::open(&t, from(-1)).await;
    let refused = watch.next().await;
    assert_eq!(
        (refused.watch_id, refused.created, refused.canceled),
        (-1, true, true)
    );
    assert_eq!(refused.cancel_reason, Refusal::Compacted.text());
}

async fn half_closing_changes_nothing(t: Target) {
    let mut watch = WatchStream::open(&t, all()).await.half_closed();
    watch.created().await;
    t.set("k", "v").await;
    assert_eq!(brief(&watch.events(1).await), [p("k", 2)]);
}

async fn empty_requests_are_ignored(t: Target) {
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    watch.send_nothing().await;
    watch.assert_quiet().await;
}

async fn streams_do_not_share_ids(t: Target) {
    let mut first = WatchStream::open(&t, create("a", "")).await;
    let mut second = WatchStream::open(&t, create("b", "")).await;
    assert_eq!((first.created().await, second.created().await), (0, 0));
    t.set("b", "v").await;
    t.set("a", "v").await;
    assert_eq!(brief(&first.events(1).await), [p("a", 3)]);
    assert_eq!(brief(&second.events(1).await), [p("b", 2)]);
    second.assert_quiet().await;
}

async fn many_watchers_on_a_stream(t: Target) {
    const WATCHERS: usize = 1_000;
    let mut watch = WatchStream::open(&t, create("k0", "")).await;
    for i in 1..WATCHERS {
        watch.create(create(format!("k{i}"), "")).await;
        if i % 100 == 99 {
            for _ in 0..100 {
                watch.created().await;
            }
        }
    }
    for i in (0..WATCHERS).step_by(37) {
        t.set(format!("k{i}"), "v").await;
        let response = watch.next().await;
        assert_eq!((response.watch_id as usize, response.events.len()), (i, 1));
    }
}
