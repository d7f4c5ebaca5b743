//! Tests of the store with a log: when writes become visible, and what is left after a restart and
//! a power cut.

mod format;
mod power_cut;
mod restart;
mod visibility;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use commit_log::disk::simulated::SimulatedDisk;
use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{
    AlarmType, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest,
};

use super::*;

/// Returns options with segments and snapshots so small that a few writes make one.
fn options(fsync: Fsync) -> LogOptions {
    LogOptions {
        fsync,
        segment_bytes: 2048,
        snapshot_from_bytes: 1,
    }
}

fn open(disk: &SimulatedDisk, fsync: Fsync) -> Store {
    open_with(disk, options(fsync)).expect("a log that starts")
}

fn open_with(disk: &SimulatedDisk, options: LogOptions) -> Result<Store, LogError> {
    Store::open(Config::default(), Arc::new(disk.clone()), options)
}

/// Waits for the log as the etcd tier does, and returns the outcome.
fn logged<T>(store: &Store, outcome: Result<T, Refusal>) -> Result<T, Refusal> {
    block_on(store.logged(outcome))
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Waits until a condition holds, at most half a minute.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let so = (0..3000).any(|_| {
        let so = is_so();
        if !so {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        so
    });
    assert!(so, "waited in vain until {what}");
}

/// Returns whether a future is ready now.
fn is_ready<F: Future>(future: F) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(future).poll(&mut context).is_ready()
}

fn put(key: &str, value: &str, lease: i64) -> PutRequest {
    PutRequest {
        key: key.as_bytes().to_vec().into(),
        value: value.as_bytes().to_vec().into(),
        lease,
        ..PutRequest::default()
    }
}

fn delete(key: &str, range_end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.as_bytes().to_vec().into(),
        range_end: range_end.as_bytes().to_vec().into(),
        ..DeleteRangeRequest::default()
    }
}

/// Returns a transaction of these operations.
fn txn(requests: Vec<Request>) -> TxnRequest {
    let op = |request| RequestOp {
        request: Some(request),
    };
    TxnRequest {
        success: requests.into_iter().map(op).collect(),
        ..TxnRequest::default()
    }
}

/// A lease: id, granted TTL in seconds, keys.
type Lease = (i64, i64, Vec<Box<[u8]>>);

/// Everything readable in a store.
#[derive(Debug, PartialEq, Eq)]
struct Dump {
    revision: i64,
    compacted: i64,
    /// The bytes of all keys at each readable revision.
    keys: Vec<(i64, Vec<Vec<u8>>)>,
    /// The events of a watch from the oldest revision: record and previous record of each.
    events: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    history_bytes: u64,
    leases: Vec<Lease>,
    alarms: Vec<AlarmType>,
}

fn dump(store: &Store) -> Dump {
    let bytes = |record: &crate::Record| record.wire().concat();
    let all = etcd_api::keys::KeyRange::From(b"");
    let (revision, compacted) = (store.revision(), store.compact_revision());
    let keys = (compacted.max(1)..=revision).map(|rev| {
        let snapshot = store.snapshot_at(rev).expect("it is kept");
        (
            rev,
            snapshot.cursor(all).map(|record| bytes(&record)).collect(),
        )
    });
    let keys = keys.collect();
    let (_, commits) = store.inner.state.read().commits(0, usize::MAX);
    let events = commits.iter().flat_map(|commit| commit.iter());
    let events = events.map(|event| (bytes(&event.record), event.prev.as_ref().map(bytes)));
    let events = events.collect();
    let mut leases: Vec<_> = store.inner.writer.lock().leases.granted().collect();
    leases.sort_unstable();
    let now = Instant::now();
    let leases = leases.into_iter().map(|(id, ttl_s)| {
        let left = store.lease_time_to_live(id, true, now);
        (id, ttl_s, left.map(|left| left.keys).unwrap_or_default())
    });
    Dump {
        revision,
        compacted,
        keys,
        events,
        history_bytes: store.inner.state.read().history_bytes(),
        leases: leases.collect(),
        alarms: store.alarms(),
    }
}

/// Returns the names of the files with this suffix.
fn names(disk: &SimulatedDisk, ending: &str) -> Vec<String> {
    let names = disk.names().expect("a directory");
    names
        .into_iter()
        .filter(|name| name.ends_with(ending))
        .collect()
}
