//! Concurrent readers, writers, compaction and watchers: every snapshot is consistent, and no
//! watcher misses a revision.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};

use super::watch_hub::{Notice, WatchSpec, WatchStream};
use super::*;

const TOKENS: u64 = 200;
const MOVES: u64 = 1500;
const WRITERS: u64 = 2;

fn key(writer: u64, place: u64) -> Vec<u8> {
    format!("{writer}/{place:04}").into_bytes()
}

fn put(key: Vec<u8>) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: vec![7; 50].into(),
        ..Default::default()
    }
}

/// Moves a token to a free key, so that the number of keys never changes.
fn step(from: Vec<u8>, to: Vec<u8>) -> TxnRequest {
    let op = |request| RequestOp {
        request: Some(request),
    };
    let delete = DeleteRangeRequest {
        key: from.into(),
        ..Default::default()
    };
    TxnRequest {
        success: vec![
            op(Request::RequestDeleteRange(delete)),
            op(Request::RequestPut(put(to))),
        ],
        ..Default::default()
    }
}

fn whole(snapshot: &Snapshot) {
    let all = KeyRange::From(b"");
    let totals = snapshot.totals(all);
    assert_eq!(
        totals.count,
        WRITERS * TOKENS,
        "a view of half a transaction"
    );
    let records = snapshot.cursor(all);
    let bytes: usize = records.map(|record| record.wire_len()).sum();
    assert_eq!(bytes as u64, totals.weight);
}

#[test]
fn snapshots_are_consistent_and_watchers_complete_during_writes_and_compaction() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(WatchSpec {
        range_end: vec![0],
        ..Default::default()
    });
    for writer in 0..WRITERS {
        for place in 0..TOKENS {
            store.put(&put(key(writer, place))).expect("a plain put");
        }
    }
    let seeded = store.revision();
    let last = seeded + (WRITERS * MOVES) as i64;
    let (seen, done) = (AtomicI64::new(1), AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                whole(&store.snapshot());
                let old = (store.compact_revision() + store.revision()) / 2;
                match store.snapshot_at(old.max(seeded)) {
                    Ok(snapshot) => whole(&snapshot),
                    Err(refusal) => assert_eq!(refusal, Refusal::Compacted),
                }
                // Never revisions that the watcher has not received.
                let heard = seen.load(Ordering::Relaxed);
                if heard > store.compact_revision() + 500 {
                    store.compact(heard).expect("a revision of the past");
                }
            }
        });
        let writers = [0, 1].map(|writer| {
            let store = &store;
            scope.spawn(move || {
                for n in 0..MOVES {
                    let (from, to) = (key(writer, n), key(writer, n + TOKENS));
                    store.txn(&step(from, to)).expect("a move");
                }
            })
        });
        let watcher = scope.spawn(|| hear(&stream, &seen, last));
        let writers = writers.map(|writer| writer.join());
        let watcher = watcher.join();
        done.store(true, Ordering::Relaxed);
        assert!(writers.iter().all(Result::is_ok) && watcher.is_ok());
        reader.join().expect("a reader that finds whole views");
    });
    assert_eq!(store.revision(), last);
}

/// A compaction must drop its roots before it trims the log: otherwise a reader starts at a root
/// whose later commits are gone, and rebuilds a wrong index.
#[test]
fn a_past_snapshot_is_correct_or_an_error_during_compaction() {
    const REVISIONS: i64 = 4_000;
    for _ in 0..40 {
        let store = Store::new(Config::default());
        let mut last = 1;
        while last < REVISIONS {
            let key = format!("{:02}", last % 20).into_bytes();
            let response = store.put(&put(key)).expect("a plain put");
            last = response.header.expect("a header").revision;
        }
        store.snapshot_at(100).expect("a root to begin at");
        let passed = REVISIONS / 3;
        thread::scope(|scope| {
            let compactor = scope.spawn(|| store.compact(passed));
            for reader in 0..2 {
                let store = &store;
                scope.spawn(move || {
                    for rev in (passed - 20..passed + 20).skip(reader).step_by(2) {
                        match store.snapshot_at(rev) {
                            Ok(snapshot) => shows(&snapshot, rev),
                            Err(refusal) => assert_eq!(refusal, Refusal::Compacted),
                        }
                    }
                });
            }
            let compacted = compactor.join().expect("no panic");
            assert_eq!(compacted, Ok(REVISIONS));
        });
        for rev in passed..passed + 20 {
            shows(&store.snapshot_at(rev).expect("it is kept"), rev);
        }
    }
}

/// Each revision writes one key, so the latest one in a snapshot determines its revision.
fn shows(snapshot: &Snapshot, rev: i64) {
    let records = snapshot.cursor(KeyRange::From(b""));
    let latest = records.map(|record| record.mod_revision()).max();
    assert_eq!(latest, Some(rev), "the newest key of the view at {rev}");
}

#[test]
fn a_root_that_is_compacted_is_not_held() {
    let store = Store::new(Config::default());
    for place in 0..100 {
        store.put(&put(key(0, place))).expect("a plain put");
    }
    let old = store.snapshot_at(50).expect("it is kept");
    store.compact(60).expect("a revision of the past");
    store.hold(&old);
    shows(&store.snapshot_at(61).expect("it is kept"), 61);
}

/// Receives every revision up to `last`, requesting progress whenever the queue is empty.
fn hear(stream: &WatchStream, seen: &AtomicI64, last: i64) {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let heard = seen.load(Ordering::Relaxed);
        match stream.poll_next(&mut context) {
            Poll::Ready(Notice::Events(delivery)) => {
                for (event, _) in delivery.events() {
                    let (at, heard) = (event.record.mod_revision(), seen.load(Ordering::Relaxed));
                    assert!(at == heard || at == heard + 1, "{at} after {heard}");
                    seen.store(at, Ordering::Relaxed);
                }
            }
            Poll::Ready(Notice::Progress { revision, .. }) => {
                assert_eq!(revision, heard, "progress that overtook events");
            }
            Poll::Ready(Notice::Created { .. }) => {}
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending if heard == last => return,
            Poll::Pending => {
                stream.request_progress();
                thread::yield_now();
            }
        }
    }
}
