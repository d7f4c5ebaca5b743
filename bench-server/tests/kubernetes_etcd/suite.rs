//! The cases of the suite. Each gets its own empty storage.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{
    DeleteOptions, EventKind, GetOptions, KubernetesEtcd, ListBatch, ListOptions,
    OptimisticResponse, PutOptions, Watch, WatchError, WatchItem, WatchOptions,
};
use etcd_api::proto::etcdserverpb::RangeResponse;
use etcd_api::proto::mvccpb::KeyValue;
use futures::StreamExt;
use prost::Message;

type Storage = Arc<dyn KubernetesEtcd>;
type Case = fn(Storage) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const PREFIX: &[u8] = b"/registry/pods/";

fn key(i: usize) -> Vec<u8> {
    [PREFIX, format!("default/pod-{i:04}").as_bytes()].concat()
}

async fn put(
    storage: &Storage,
    key: Vec<u8>,
    value: impl Into<Bytes>,
    expected: i64,
    options: PutOptions,
) -> Result<OptimisticResponse, Error> {
    let put = storage.optimistic_put(&key, value.into(), expected, options);
    put.await
}

async fn remove(
    storage: &Storage,
    i: usize,
    expected: i64,
    options: DeleteOptions,
) -> OptimisticResponse {
    let deleted = storage.optimistic_delete(&key(i), expected, options).await;
    deleted.expect("a delete")
}

/// Creates one key, which must not exist; returns its revision.
async fn create(storage: &Storage, i: usize) -> i64 {
    let value = format!("value {i}");
    let put = put(storage, key(i), value, 0, PutOptions::default()).await;
    let put = put.expect("a write");
    assert!(put.succeeded, "key {i} is new");
    put.revision
}

async fn update(storage: &Storage, i: usize, at: i64, value: &'static str) -> i64 {
    let put = put(storage, key(i), value, at, PutOptions::default()).await;
    let put = put.expect("a write");
    assert!(put.succeeded, "key {i} stands at {at}");
    put.revision
}

async fn delete(storage: &Storage, i: usize, at: i64) -> i64 {
    let deleted = remove(storage, i, at, DeleteOptions::default()).await;
    assert!(deleted.succeeded, "key {i} stands at {at}");
    deleted.revision
}

fn refusal<T>(result: Result<T, Error>) -> Option<Refusal> {
    result.err().and_then(|error| error.refusal())
}

/// Returns the result of a streamed list: all objects, and the revision, count and `more` of its
/// end.
async fn stream(
    storage: &Storage,
    options: ListOptions,
) -> Result<(Vec<KeyValue>, i64, i64, bool), Error> {
    let mut batches = storage.list_stream(PREFIX, options).await?;
    let mut kvs = Vec::new();
    while let Some(batch) = batches.next().await {
        match batch? {
            ListBatch::Objects(runs) => {
                for run in runs {
                    let decoded = RangeResponse::decode(run).expect("whole records");
                    kvs.extend(decoded.kvs);
                }
            }
            ListBatch::End {
                revision,
                count,
                more,
            } => {
                assert!(batches.next().await.is_none(), "the end is last");
                return Ok((kvs, revision, count, more));
            }
        }
    }
    panic!("a list without an end");
}

async fn watch(storage: &Storage, start_revision: i64) -> Box<dyn Watch> {
    let options = WatchOptions {
        start_revision,
        prev_kv: true,
        ..WatchOptions::default()
    };
    storage.watch(PREFIX, options).await.expect("a watch")
}

/// Returns the kinds, keys and revisions of the next `n` events. Progress between them is skipped.
async fn events(watch: &mut Box<dyn Watch>, n: usize) -> Vec<(EventKind, Vec<u8>, i64)> {
    let mut seen = Vec::new();
    while seen.len() < n {
        let item = watch.next().await.expect("a watch that goes on");
        if let WatchItem::Revision { revision, events } = item.expect("an item") {
            for event in events {
                assert_eq!(event.kv.mod_revision, revision);
                seen.push((event.kind, event.kv.key.to_vec(), revision));
            }
        }
    }
    seen
}

async fn get_reads_now_and_then(storage: Storage) {
    let missing = storage
        .get(&key(0), GetOptions::default())
        .await
        .expect("the storage answers");
    assert_eq!((missing.kv, missing.revision), (None, 1));
    let created = create(&storage, 0).await;
    let updated = update(&storage, 0, created, "new").await;
    let now = storage
        .get(&key(0), GetOptions::default())
        .await
        .expect("the storage answers");
    let kv = now.kv.expect("it exists");
    assert_eq!((&kv.value[..], kv.version), (&b"new"[..], 2));
    assert_eq!((kv.create_revision, kv.mod_revision), (created, updated));
    let then = storage.get(&key(0), GetOptions { revision: created }).await;
    let then = then.expect("the storage answers");
    assert_eq!(&then.kv.expect("it existed").value[..], b"value 0");
    assert_eq!(then.revision, updated, "the header tells the latest");
    let future = storage.get(&key(0), GetOptions { revision: 99 }).await;
    assert_eq!(refusal(future), Some(Refusal::FutureRevision));
    let empty = storage.get(b"", GetOptions::default()).await;
    assert_eq!(refusal(empty), Some(Refusal::EmptyKey));
}

async fn pages_hold_one_revision(storage: Storage) {
    for i in 0..10 {
        create(&storage, i).await;
    }
    let mut options = ListOptions {
        limit: 4,
        ..ListOptions::default()
    };
    let mut seen = Vec::new();
    let mut counts = Vec::new();
    loop {
        let page = storage
            .list(PREFIX, options.clone())
            .await
            .expect("the storage answers");
        counts.push(page.count);
        let Some(last) = page.kvs.last() else { break };
        options.continue_key = [&last.key[..], b"\0"].concat().into();
        if options.revision == 0 {
            options.revision = page.revision;
            create(&storage, 90).await;
        }
        let whole = page.kvs.len() as i64 == page.count;
        seen.extend(page.kvs.into_iter().map(|kv| kv.key));
        if whole {
            break;
        }
    }
    let expected: Vec<_> = (0..10).map(|i| Bytes::from(key(i))).collect();
    assert_eq!(seen, expected, "the write between pages is not seen");
    assert_eq!(counts, [10, 6, 2], "count is what remains");
}

async fn a_stream_is_the_list(storage: Storage) {
    let (empty, revision, count, more) = stream(&storage, ListOptions::default())
        .await
        .expect("the storage answers");
    assert_eq!((empty.len(), revision, count, more), (0, 1, 0, false));
    let mut first = 0;
    for i in 0..57 {
        let revision = create(&storage, i).await;
        if i == 0 {
            first = revision;
        }
    }
    let list = storage
        .list(PREFIX, ListOptions::default())
        .await
        .expect("the storage answers");
    let (kvs, revision, count, more) = stream(&storage, ListOptions::default())
        .await
        .expect("the storage answers");
    assert_eq!(kvs, list.kvs);
    assert_eq!((revision, count, more), (list.revision, 57, false));

    let limited = ListOptions {
        limit: 20,
        continue_key: key(7).into(),
        ..ListOptions::default()
    };
    let (kvs, _, count, more) = stream(&storage, limited)
        .await
        .expect("the storage answers");
    assert_eq!(kvs, list.kvs[7..27]);
    assert_eq!((count, more), (50, true));

    let past = ListOptions {
        revision: first,
        ..ListOptions::default()
    };
    let (kvs, revision, ..) = stream(&storage, past).await.expect("the storage answers");
    assert_eq!(kvs.len(), 1);
    assert_eq!(revision, list.revision, "the end tells the latest revision");
}

async fn counting(storage: Storage) {
    assert_eq!(storage.count(PREFIX).await.expect("the storage answers"), 0);
    for i in 0..5 {
        create(&storage, i).await;
    }
    let outside = put(&storage, b"/z".to_vec(), "", 0, PutOptions::default()).await;
    assert!(outside.expect("the storage answers").succeeded);
    assert_eq!(storage.count(PREFIX).await.expect("the storage answers"), 5);
    assert_eq!(
        storage.count(b"").await.expect("the storage answers"),
        6,
        "no prefix is everything"
    );
}

async fn writes_are_optimistic(storage: Storage) {
    let created = create(&storage, 0).await;
    let blind = put(&storage, key(0), "other", 0, PutOptions::default())
        .await
        .expect("the storage answers");
    assert_eq!((blind.succeeded, blind.kv), (false, None));
    let options = PutOptions {
        get_on_failure: true,
        ..PutOptions::default()
    };
    let told = put(&storage, key(0), "other", created + 1, options)
        .await
        .expect("the storage answers");
    assert!(!told.succeeded);
    assert_eq!(told.revision, created, "nothing was written");
    assert_eq!(told.kv.expect("asked for").mod_revision, created);
    let missing = put(&storage, key(1), "other", created, options)
        .await
        .expect("the storage answers");
    assert_eq!((missing.succeeded, missing.kv), (false, None));

    let lease = PutOptions {
        lease_id: 4242,
        ..PutOptions::default()
    };
    let unknown = put(&storage, key(2), "other", 0, lease).await;
    assert_eq!(refusal(unknown), Some(Refusal::LeaseNotFound));
    let granted = storage.lease_grant(60).await.expect("the storage answers");
    let lease = PutOptions {
        lease_id: granted,
        ..PutOptions::default()
    };
    let put = put(&storage, key(2), "other", 0, lease).await;
    assert!(put.expect("the storage answers").succeeded);
    let read = storage
        .get(&key(2), GetOptions::default())
        .await
        .expect("the storage answers");
    assert_eq!(read.kv.expect("it exists").lease, granted);
}

async fn deletes_are_optimistic(storage: Storage) {
    let created = create(&storage, 0).await;
    let options = DeleteOptions {
        get_on_failure: true,
    };
    let stale = remove(&storage, 0, created - 1, options).await;
    assert!(!stale.succeeded);
    assert_eq!(stale.kv.expect("asked for").mod_revision, created);
    assert_eq!(delete(&storage, 0, created).await, created + 1);
    let gone = storage
        .get(&key(0), GetOptions::default())
        .await
        .expect("the storage answers");
    assert_eq!((gone.kv, gone.revision), (None, created + 1));
}

async fn the_current_revision_needs_no_key(storage: Storage) {
    assert_eq!(
        storage
            .current_revision(PREFIX)
            .await
            .expect("the storage answers"),
        1
    );
    let created = create(&storage, 0).await;
    assert_eq!(
        storage
            .current_revision(PREFIX)
            .await
            .expect("the storage answers"),
        created
    );
}

async fn what_is_compacted_is_refused(storage: Storage) {
    let first = create(&storage, 0).await;
    for i in 1..5 {
        create(&storage, i).await;
    }
    let compacted = first + 2;
    storage
        .compact(compacted)
        .await
        .expect("the storage answers");
    assert_eq!(
        storage
            .compacted_revision()
            .await
            .expect("the storage answers"),
        compacted
    );
    let at = |revision| ListOptions {
        revision,
        ..ListOptions::default()
    };
    let old = storage.list(PREFIX, at(first)).await;
    assert_eq!(refusal(old), Some(Refusal::Compacted));
    let old = stream(&storage, at(first)).await;
    assert_eq!(refusal(old), Some(Refusal::Compacted));
    let kept = storage
        .list(PREFIX, at(compacted))
        .await
        .expect("the storage answers");
    assert_eq!(kept.kvs.len(), 3);
    assert_eq!(
        refusal(storage.compact(compacted).await),
        Some(Refusal::Compacted)
    );

    let options = WatchOptions {
        start_revision: first,
        ..WatchOptions::default()
    };
    // The error is returned when the watch is created, or as its first item.
    let error = match storage.watch(PREFIX, options).await {
        Err(error) => error,
        Ok(mut watch) => watch
            .next()
            .await
            .expect("an item")
            .expect_err("nothing can be delivered"),
    };
    match error {
        WatchError::Compacted { compact_revision } => assert_eq!(compact_revision, compacted),
        other => panic!("{other}"),
    }
}

async fn a_watch_replays_then_follows(storage: Storage) {
    let first = create(&storage, 0).await;
    let second = create(&storage, 1).await;
    let mut watch = watch(&storage, second).await;
    assert_eq!(
        events(&mut watch, 1).await,
        [(EventKind::Put, key(1), second)]
    );
    let updated = update(&storage, 0, first, "new").await;
    let outside = put(&storage, b"/z".to_vec(), "", 0, PutOptions::default()).await;
    assert!(outside.expect("the storage answers").succeeded);
    let deleted = delete(&storage, 1, second).await;

    let Some(Ok(WatchItem::Revision { events, .. })) = watch.next().await else {
        panic!("the update comes next");
    };
    let event = &events[0];
    assert_eq!(
        (event.kind, event.kv.mod_revision),
        (EventKind::Put, updated)
    );
    let before = event.prev_kv.as_ref().expect("asked for");
    assert_eq!(
        (&before.value[..], before.mod_revision),
        (&b"value 0"[..], first)
    );

    let Some(Ok(WatchItem::Revision { revision, events })) = watch.next().await else {
        panic!("the delete comes next, nothing from outside the prefix");
    };
    let event = &events[0];
    assert_eq!((revision, event.kind), (deleted, EventKind::Delete));
    assert!(event.kv.value.is_empty() && event.kv.version == 0);
    let before = event.prev_kv.as_ref().expect("asked for");
    assert_eq!(before.mod_revision, second);
}

async fn a_single_key_is_watched_alone(storage: Storage) {
    let options = WatchOptions {
        single_key: true,
        ..WatchOptions::default()
    };
    let mut watch = storage.watch(&key(1), options).await.expect("a watch");
    create(&storage, 0).await;
    let wanted = create(&storage, 1).await;
    create(&storage, 2).await;
    assert_eq!(
        events(&mut watch, 1).await,
        [(EventKind::Put, key(1), wanted)]
    );
}

async fn progress_never_overtakes_events(storage: Storage) {
    let start = create(&storage, 0).await;
    let mut watch = watch(&storage, start).await;
    let mut last = start;
    for i in 1..50 {
        last = create(&storage, i).await;
    }
    let mut told = 0;
    // A progress request that arrives while events are being sent may be dropped, so it is repeated
    // with each item, as an apiserver repeats it every 100 ms.
    loop {
        storage
            .request_progress("")
            .await
            .expect("the storage answers");
        let next = tokio::time::timeout(std::time::Duration::from_millis(100), watch.next());
        let Ok(item) = next.await else { continue };
        match item.expect("a watch that goes on").expect("an item") {
            WatchItem::Revision { revision, .. } => {
                assert_eq!(revision, told.max(start - 1) + 1, "no gap, in order");
                told = revision;
            }
            WatchItem::Progress { revision } => {
                assert!(revision <= told, "{revision} promised, {told} delivered");
                if revision == last {
                    break;
                }
            }
        }
    }
}

async fn features_are_told(storage: Storage) {
    let features = storage.features().await.expect("the storage answers");
    assert!(features.version.starts_with("3.7."), "{}", features.version);
    assert!(features.request_progress);
    stream(&storage, ListOptions::default())
        .await
        .expect("the storage answers");
    let features = storage.features().await.expect("the storage answers");
    assert_eq!(features.range_stream, Some(true));
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), |storage| Box::pin($name(storage)))),*]
    };
}

/// All cases, with their names.
pub(crate) const CASES: &[(&str, Case)] = cases![
    get_reads_now_and_then,
    pages_hold_one_revision,
    a_stream_is_the_list,
    counting,
    writes_are_optimistic,
    deletes_are_optimistic,
    the_current_revision_needs_no_key,
    what_is_compacted_is_refused,
    a_watch_replays_then_follows,
    a_single_key_is_watched_alone,
    progress_never_overtakes_events,
    features_are_told,
];
