//! Watch: creation, ids, cancelling, replay, events and what they carry.

use std::time::Duration;

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::watch_create_request::FilterType;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use etcd_api::proto::mvccpb::event::EventType;
use etcd_api::proto::mvccpb::{Event, KeyValue};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::request::{delete, op, put, txn};

cases![on ONE_ENCODING;
    from_the_current_revision, ids_count_from_zero, ids_may_be_chosen, from_a_future_revision,
    from_an_old_revision, intervals, wrong_intervals_are_refused, empty_key_is_the_zero_key,
    cancelling, cancelling_while_catching_up, unknown_ids_are_ignored, several_watchers_of_one_key,
    transactions_arrive_whole, range_deletes_arrive_whole, delete_events_are_bare,
    previous_values, previous_values_in_a_replay, filters, compacted_start, at_the_compacted_revision,
    tombstone_at_the_compacted_revision, negative_start_is_refused, half_closing_changes_nothing,
    empty_requests_are_ignored, writes_while_watchers_come, long_replay_is_in_order,
    nothing_is_lost_to_compaction, one_key_twice_in_a_revision, streams_do_not_share_ids,
    many_watchers_on_a_stream,
];

/// How long an expected response may take.
const RESPONSE_LIMIT: Duration = Duration::from_secs(30);

/// A watch stream and its open sending half.
pub(crate) struct WatchStream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl WatchStream {
    /// Opens a stream whose first request is `first`: etcd answers the opening only with its first
    /// response.
    pub(crate) async fn open(t: &Target, first: WatchCreateRequest) -> Self {
        let (requests, receiver) = mpsc::channel(1_000);
        requests
            .send(request(RequestUnion::CreateRequest(first)))
            .await
            .expect("the channel is new");
        let responses = t
            .watch()
            .watch(ReceiverStream::new(receiver))
            .await
            .expect("the stream opens");
        Self {
            requests,
            responses: responses.into_inner(),
        }
    }

    async fn send(&self, union: RequestUnion) {
        self.requests
            .send(request(union))
            .await
            .expect("the stream takes requests");
    }

    pub(crate) async fn create(&self, create: WatchCreateRequest) {
        self.send(RequestUnion::CreateRequest(create)).await;
    }

    pub(crate) async fn cancel(&self, watch_id: i64) {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }))
            .await;
    }

    pub(crate) async fn ask_progress(&self) {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {}))
            .await;
    }

    /// The next response; a case fails where none comes.
    pub(crate) async fn next(&mut self) -> WatchResponse {
        match tokio::time::timeout(RESPONSE_LIMIT, self.responses.message()).await {
            Ok(response) => response.expect("no error").expect("the stream goes on"),
            Err(_) => panic!("no response within {RESPONSE_LIMIT:?}"),
        }
    }

    /// The next response within `limit`, if any comes.
    pub(crate) async fn next_within(&mut self, limit: Duration) -> Option<WatchResponse> {
        let response = tokio::time::timeout(limit, self.responses.message())
            .await
            .ok()?;
        Some(response.expect("no error").expect("the stream goes on"))
    }

    /// Expects the answer to a create request; answers with the watch id.
    #[track_caller]
    pub(crate) fn created(&mut self) -> impl Future<Output = i64> + '_ {
        let caller = std::panic::Location::caller();
        async move {
            let response = self.next().await;
            assert!(
                response.created && !response.canceled,
                "{caller}: not a creation: {response:?}"
            );
            assert_eq!(response.events, [], "{caller}: a creation brings no events");
            response.watch_id
        }
    }

    /// Collects `n` events, over as many responses as they take.
    pub(crate) async fn events(&mut self, n: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < n {
            events.extend(self.next().await.events);
        }
        assert_eq!(events.len(), n, "no more than expected");
        events
    }

    /// Asserts that nothing is on its way: a marker created now is the next thing that arrives.
    pub(crate) async fn assert_quiet(&mut self) {
        self.create(WatchCreateRequest {
            watch_id: 987_654,
            ..create("quiet-marker", "")
        })
        .await;
        let response = self.next().await;
        assert_eq!(
            (response.watch_id, response.created),
            (987_654, true),
            "expected nothing, got {response:?}"
        );
        self.cancel(987_654).await;
        assert!(self.next().await.canceled);
    }
}

fn request(union: RequestUnion) -> WatchRequest {
    WatchRequest {
        request_union: Some(union),
    }
}

pub(crate) fn create(
    key: impl Into<bytes::Bytes>,
    range_end: impl Into<bytes::Bytes>,
) -> WatchCreateRequest {
    WatchCreateRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..Default::default()
    }
}

fn all() -> WatchCreateRequest {
    create("\0", "\0")
}

fn from(start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        start_revision,
        ..all()
    }
}

/// Type, key and revision of each event.
fn brief(events: &[Event]) -> Vec<(EventType, String, i64)> {
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

fn p(key: &str, revision: i64) -> (EventType, String, i64) {
    (EventType::Put, key.to_owned(), revision)
}

fn d(key: &str, revision: i64) -> (EventType, String, i64) {
    (EventType::Delete, key.to_owned(), revision)
}

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
    // Some of the past may have been sent already; it ends with the cancel.
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
    let WatchStream {
        requests,
        responses,
    } = WatchStream::open(&t, all()).await;
    drop(requests);
    let (unused, _) = mpsc::channel(1);
    let mut watch = WatchStream {
        requests: unused,
        responses,
    };
    watch.created().await;
    t.set("k", "v").await;
    assert_eq!(brief(&watch.events(1).await), [p("k", 2)]);
}

async fn empty_requests_are_ignored(t: Target) {
    let mut watch = WatchStream::open(&t, all()).await;
    watch.created().await;
    watch
        .requests
        .send(WatchRequest::default())
        .await
        .expect("the stream takes requests");
    watch.assert_quiet().await;
}

async fn writes_while_watchers_come(t: Target) {
    const WRITES: i64 = 200;
    let writing = async {
        for i in 0..WRITES {
            t.set(format!("k{i}"), "v").await;
        }
    };
    let watching = async {
        let mut watch = WatchStream::open(&t, all()).await;
        let mut first = Vec::new();
        for i in 0..20 {
            if i > 0 {
                watch.create(all()).await;
            }
            // Events of earlier watchers may come in between.
            loop {
                let response = watch.next().await;
                if response.created {
                    first.push((
                        response.watch_id,
                        response.header.expect("header").revision + 1,
                    ));
                    break;
                }
                record(&mut first, response);
            }
        }
        while first.iter().any(|&(_, next)| next <= WRITES + 1) {
            record(&mut first, watch.next().await);
        }
    };
    fn record(expected: &mut [(i64, i64)], response: WatchResponse) {
        let (_, next) = expected
            .iter_mut()
            .find(|(id, _)| *id == response.watch_id)
            .expect("created before its events");
        for (_, _, revision) in brief(&response.events) {
            assert_eq!(
                revision, *next,
                "no gap and no repetition from the creation's revision on"
            );
            *next += 1;
        }
    }
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

/// etcd lost events of a stream that lagged behind a compaction until 3.5.13 (issue 17529).
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

/// The duplicate rule's holes (`txn::duplicate_key_quirks`) show in the events: both are told.
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
