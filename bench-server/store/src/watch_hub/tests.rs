//! Notices of watchers and their order.

use std::task::{Context, Poll, Waker};

use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};

use super::*;
use crate::{Config, Store};

fn put_request(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..Default::default()
    }
}

fn put(store: &Store, key: &str) -> i64 {
    let response = store.put(&put_request(key, "v")).expect("a plain put");
    response.header.expect("a header").revision
}

/// Makes this number of puts; returns the revision of the last.
fn puts(store: &Store, key: &str, n: usize) -> i64 {
    (0..n).fold(0, |_, _| put(store, key))
}

fn spec(key: &str, range_end: &str, start_revision: i64) -> WatchSpec {
    WatchSpec {
        key: key.into(),
        range_end: range_end.into(),
        start_revision,
        ..Default::default()
    }
}

/// Returns one line per notice; `None` for an empty queue. A poll may also only request another
/// poll.
fn next(stream: &WatchStream) -> Option<String> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        match stream.poll_next(&mut context) {
            Poll::Ready(notice) => return Some(line(&notice)),
            Poll::Pending if stream.is_behind() => {}
            Poll::Pending => return None,
        }
    }
    panic!("a watcher that never catches up");
}

fn line(notice: &Notice) -> String {
    match notice {
        Notice::Created { id, revision } => format!("created {id} at {revision}"),
        Notice::Refused { reason, .. } => format!("refused: {reason}"),
        Notice::Canceled { id, revision } => format!("canceled {id} at {revision}"),
        Notice::Compacted {
            id,
            compact_revision,
        } => format!("lost {id} to {compact_revision}"),
        Notice::Progress { id, revision } => format!("progress {id} to {revision}"),
        Notice::Events(delivery) => {
            let mut line = format!("{} at {}:", delivery.id, delivery.revision);
            for (event, prev) in delivery.events() {
                let sign = if event.record.is_tombstone() {
                    '-'
                } else {
                    '+'
                };
                let key = String::from_utf8_lossy(event.record.key());
                line += &format!(" {sign}{key}@{}", event.record.mod_revision());
                if let Some(prev) = prev {
                    line += &format!("(was @{})", prev.mod_revision());
                }
            }
            line
        }
    }
}

fn all(stream: &WatchStream) -> Vec<String> {
    std::iter::from_fn(|| next(stream)).collect()
}

#[test]
fn ids_start_at_0_skip_used_ones_and_rejections_have_reasons() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(WatchSpec {
        id: 1,
        ..spec("a", "", 0)
    });
    stream.create(spec("a", "", 0));
    stream.create(spec("a", "", 0));
    stream.create(WatchSpec {
        id: 2,
        ..spec("a", "", 0)
    });
    stream.create(spec("b", "a", 0));
    stream.create(spec("b", "", -1));
    stream.create(spec("b", "a", -1));
    assert_eq!(
        all(&stream),
        [
            "created 1 at 1",
            "created 0 at 1",
            "created 2 at 1",
            "refused: mvcc: duplicate watch ID provided on the WatchStream",
            "refused: mvcc: watcher range is empty",
            "refused: etcdserver: mvcc: required revision has been compacted",
            "refused: etcdserver: mvcc: required revision has been compacted",
        ]
    );
}

#[test]
fn a_watcher_receives_past_and_live_events_of_its_keys() {
    let store = Store::new(Config::default());
    for key in ["a", "b", "a", "c"] {
        put(&store, key);
    }
    let stream = store.watch();
    stream.create(WatchSpec {
        prev_kv: true,
        ..spec("a", "c", 1)
    });
    assert_eq!(
        all(&stream),
        ["created 0 at 5", "0 at 5: +a@2 +b@3 +a@4(was @2)"]
    );
    put(&store, "b");
    put(&store, "c");
    let everything = DeleteRangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..Default::default()
    };
    store.delete_range(&everything).expect("a delete");
    assert_eq!(
        all(&stream),
        ["0 at 6: +b@6(was @3)", "0 at 8: -a@8(was @4) -b@8(was @6)",]
    );
}

#[test]
fn a_future_watcher_receives_nothing_before_its_revision() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(spec("a", "", 4));
    stream.request_progress();
    puts(&store, "a", 3);
    assert_eq!(all(&stream), ["created 0 at 1", "0 at 4: +a@4"]);
    stream.request_progress();
    assert_eq!(all(&stream), ["progress -1 to 4"]);
    stream.create(WatchSpec {
        progress_notify: true,
        ..spec("b", "", 5)
    });
    stream.request_progress();
    stream.tick_progress();
    assert_eq!(
        all(&stream),
        ["created 1 at 4"],
        "the next revision is in the future, too"
    );
    put(&store, "c");
    stream.request_progress();
    assert_eq!(all(&stream), ["progress -1 to 5"]);
}

#[test]
fn filters_omit_events_and_send_nothing_empty() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(WatchSpec {
        no_put: true,
        ..spec("a", "z", 0)
    });
    stream.create(WatchSpec {
        no_delete: true,
        ..spec("a", "z", 0)
    });
    put(&store, "a");
    let delete = DeleteRangeRequest {
        key: "a".into(),
        ..Default::default()
    };
    store.delete_range(&delete).expect("a delete");
    assert_eq!(all(&stream)[2..], ["1 at 2: +a@2", "0 at 3: -a@3"]);
}

#[test]
fn watchers_of_a_full_queue_fall_behind_and_receive_everything_once() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(spec("a", "b", 0));
    let last = puts(&store, "a", 10_000);
    stream.request_progress();
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = 1;
    let mut batches = 0;
    while seen < last {
        match stream.poll_next(&mut context) {
            Poll::Ready(Notice::Events(delivery)) => {
                batches += 1;
                for (event, _) in delivery.events() {
                    seen += 1;
                    assert_eq!(event.record.mod_revision(), seen);
                }
            }
            Poll::Ready(Notice::Created { .. }) => {}
            other => panic!("{other:?} while {seen} of {last} were told"),
        }
    }
    assert!(
        batches < 5000,
        "the log is told in batches, not {batches} answers"
    );
    put(&store, "a");
    assert_eq!(all(&stream), [format!("0 at {0}: +a@{0}", last + 1)]);
}

/// Polls until a notice is queued, as often as the stream requests it.
fn poll(stream: &WatchStream) -> Notice {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        match stream.poll_next(&mut context) {
            Poll::Ready(notice) => return notice,
            Poll::Pending => assert!(stream.is_behind(), "something is still to come"),
        }
    }
    panic!("a watcher that never catches up");
}

/// A poll must not read a batch for each watcher, whatever their number.
#[test]
fn a_poll_reads_a_limited_part_of_the_log_and_serves_watchers_in_turn() {
    const WATCHERS: i64 = 300;
    const REVISIONS: i64 = 2_500;
    let store = Store::new(Config::default());
    puts(&store, "a", REVISIONS as usize);
    let stream = store.watch();
    for _ in 0..WATCHERS {
        stream.create(spec("a", "", 2));
    }
    let mut next = vec![2; WATCHERS as usize];
    let mut ahead = 0;
    while next.iter().any(|next| *next < REVISIONS + 2) {
        if let Notice::Events(delivery) = poll(&stream) {
            let next = &mut next[delivery.id as usize];
            for (event, _) in delivery.events() {
                assert_eq!(event.record.mod_revision(), *next);
                *next += 1;
            }
        }
        let created = next.iter().all(|next| *next == 2);
        if !created {
            assert!(stream.waiting() < 8, "{} wait", stream.waiting());
        }
        let (first, last) = (next.iter().min(), next.iter().max());
        let (first, last) = first.zip(last).expect("there are watchers");
        ahead = ahead.max(last - first);
    }
    assert!(ahead <= 1_000, "one is {ahead} revisions ahead of another");
}

#[test]
fn progress_waits_for_every_watcher_and_never_overtakes_events() {
    let store = Store::new(Config::default());
    put(&store, "a");
    let stream = store.watch();
    stream.request_progress();
    assert_eq!(
        all(&stream),
        [""; 0],
        "a stream without watchers has no progress"
    );
    stream.create(spec("a", "", 0));
    stream.create(spec("a", "", 1));
    stream.request_progress();
    assert_eq!(
        all(&stream),
        ["created 0 at 2", "created 1 at 2", "1 at 2: +a@2"],
        "dropped while a watcher is behind"
    );
    put(&store, "a");
    stream.request_progress();
    stream.request_progress();
    assert_eq!(
        all(&stream),
        [
            "0 at 3: +a@3",
            "1 at 3: +a@3",
            "progress -1 to 3",
            "progress -1 to 3"
        ],
        "after the events"
    );
}

#[test]
fn progress_that_waits_is_limited_also_of_a_watcher_with_the_id_of_the_stream() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(WatchSpec {
        id: -1,
        progress_notify: true,
        ..spec("a", "", 0)
    });
    stream.tick_progress();
    for _ in 0..200 {
        stream.request_progress();
    }
    assert_eq!(all(&stream).len(), 1 + 128);
    stream.request_progress();
    assert_eq!(all(&stream), ["progress -1 to 1"]);
}

#[test]
fn periodic_progress_skips_watchers_that_had_events() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(WatchSpec {
        progress_notify: true,
        ..spec("a", "", 0)
    });
    stream.create(WatchSpec {
        progress_notify: true,
        ..spec("b", "", 0)
    });
    stream.create(spec("c", "", 0));
    put(&store, "a");
    stream.tick_progress();
    assert_eq!(all(&stream)[3..], ["0 at 2: +a@2", "progress 1 to 2"]);
    stream.tick_progress();
    assert_eq!(all(&stream), ["progress 0 to 2", "progress 1 to 2"]);
}

#[test]
fn a_compacted_start_is_notified_once_and_blocks_progress_until_cancelled() {
    let store = Store::new(Config::default());
    puts(&store, "a", 5);
    store.compact(5).expect("compaction");
    let stream = store.watch();
    stream.create(WatchSpec {
        prev_kv: true,
        ..spec("a", "", 5)
    });
    stream.create(spec("a", "", 4));
    assert_eq!(
        all(&stream),
        [
            "created 0 at 6",
            "created 1 at 6",
            "0 at 6: +a@5 +a@6(was @5)",
            "lost 1 to 5",
        ],
        "the compacted revision itself can be watched"
    );
    put(&store, "a");
    stream.request_progress();
    assert_eq!(all(&stream), ["0 at 7: +a@7(was @6)"]);
    stream.cancel(1);
    stream.cancel(1);
    stream.request_progress();
    assert_eq!(all(&stream), ["canceled 1 at 7", "progress -1 to 7"]);
}

#[test]
fn a_delete_at_the_compacted_revision_is_delivered() {
    let store = Store::new(Config::default());
    put(&store, "a");
    let delete = DeleteRangeRequest {
        key: "a".into(),
        ..Default::default()
    };
    store.delete_range(&delete).expect("a delete");
    store.compact(3).expect("compaction");
    let stream = store.watch();
    stream.create(spec("a", "", 3));
    assert_eq!(all(&stream), ["created 0 at 3", "0 at 3: -a@3"]);
}

#[test]
fn a_transaction_is_one_delivery() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(WatchSpec {
        prev_kv: true,
        ..spec("a", "z", 0)
    });
    let put = |key| RequestOp {
        request: Some(Request::RequestPut(put_request(key, "v"))),
    };
    // The end of this interval hides the overlap with the puts, so each key is written twice.
    let delete = RequestOp {
        request: Some(Request::RequestDeleteRange(DeleteRangeRequest {
            key: "a".into(),
            range_end: vec![0].into(),
            ..Default::default()
        })),
    };
    let txn = TxnRequest {
        success: vec![put("b"), put("a"), delete],
        ..Default::default()
    };
    store.txn(&txn).expect("a transaction");
    assert_eq!(
        all(&stream),
        ["created 0 at 1", "0 at 2: +b@2 +a@2 -a@2 -b@2"],
        "in the order of the operations; before this revision there was nothing"
    );
}

#[test]
fn dropping_a_stream_removes_its_watchers() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(spec("a", "", 0));
    stream.create(spec("a", "b", 0));
    let other = store.watch();
    let id = other.create(spec("a", "", 0)).expect("a free id");
    assert_eq!(store.watchers(), 3);
    other.cancel(id);
    assert_eq!(store.watchers(), 2);
    drop(stream);
    assert_eq!(store.watchers(), 0);
    let mut found = 0;
    store.inner.hub.lock().groups.stab(b"a", |_| found += 1);
    assert_eq!(found, 0);
}

#[test]
fn large_events_fill_a_queue_by_their_bytes() {
    let store = Store::new(Config::default());
    let stream = store.watch();
    stream.create(spec("a", "", 0));
    let large = "v".repeat(8 * 1024 * 1024);
    for _ in 0..12 {
        store.put(&put_request("a", &large)).expect("a plain put");
    }
    assert_eq!(stream.waiting(), 1 + 8, "64 MiB of events and no more");
    let told = all(&stream);
    assert_eq!(
        told.last().map(String::as_str),
        Some("0 at 13: +a@10 +a@11 +a@12 +a@13")
    );
}
