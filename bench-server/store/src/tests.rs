//! Compares the store with a model that has a full copy of the keys per revision.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::response_op::Response;
use etcd_api::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use etcd_api::proto::mvccpb::KeyValue;
use proptest::prelude::*;

use super::watch_hub::{Notice, WatchSpec, WatchStream};
use super::*;

/// An open list holds the data that compaction removes from the history; only this data counts as
/// pinned.
#[test]
fn an_open_list_keeps_data_that_was_replaced_since() {
    let store = Store::new(Config::default());
    let put = |value: &'static [u8]| {
        let request = PutRequest {
            key: b"k".to_vec().into(),
            value: value.into(),
            ..Default::default()
        };
        store.put(&request).expect("a plain put");
        let record = store.snapshot().get(b"k").expect("it was put");
        record.wire_len() as u64
    };
    put(b"before the list");
    let listed = put(b"what is listed");
    let open = store.snapshot().open_list();
    let replaced = put(b"what came after it");
    put(b"the latest");
    assert_eq!(
        (store.pinned().lists, store.pinned().bytes),
        (1, 0),
        "all of it is history"
    );
    let head = store.revision();
    store.compact(head - 1).expect("a revision of the past");
    assert_eq!(store.pinned().bytes, listed, "the history begins behind it");
    let second = store.snapshot().open_list();
    store.compact(head).expect("a revision of the past");
    assert_eq!(
        (store.pinned().lists, store.pinned().bytes),
        (2, listed + replaced)
    );
    drop(open);
    assert_eq!((store.pinned().lists, store.pinned().bytes), (1, 0));
    drop(second);
    assert_eq!(store.pinned(), Default::default());
}

/// A key and its new value; `None` for a delete.
type Write = (Vec<u8>, Option<Vec<u8>>);
type Keys = BTreeMap<Vec<u8>, KeyValue>;
/// An event: key, whether it was deleted, mod revision, mod revision of the previous state.
type Told = (Vec<u8>, bool, i64, Option<i64>);

/// The keys and the changes of every revision.
struct Model {
    states: Vec<Keys>,
    changes: Vec<Vec<Told>>,
    compacted: i64,
}

impl Model {
    fn new() -> Self {
        Self {
            states: vec![Keys::new(); 2],
            changes: vec![Vec::new(); 2],
            compacted: -1,
        }
    }

    fn revision(&self) -> i64 {
        self.states.len() as i64 - 1
    }

    fn latest(&self) -> &Keys {
        self.states.last().expect("revision 0 is there")
    }

    /// Applies writes as one revision; deletes are `None`.
    fn write(&mut self, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        let revision = self.revision() + 1;
        let before = self.latest().clone();
        let mut keys = before.clone();
        let mut changes = Vec::new();
        for (key, value) in writes {
            // The state before the revision; a created key has none.
            let creates = value.is_some() && !keys.contains_key(&key);
            let prev = before.get(&key).filter(|_| !creates);
            let prev = prev.map(|kv| kv.mod_revision);
            changes.push((key.clone(), value.is_none(), revision, prev));
            let Some(value) = value else {
                keys.remove(&key);
                continue;
            };
            let old = keys.get(&key);
            let kv = KeyValue {
                create_revision: old.map_or(revision, |old| old.create_revision),
                version: old.map_or(1, |old| old.version + 1),
                mod_revision: revision,
                key: key.clone().into(),
                value: value.into(),
                lease: 0,
            };
            keys.insert(key, kv);
        }
        self.states.push(keys);
        self.changes.push(changes);
    }

    fn check(&self, rev: i64) -> Result<(), Refusal> {
        match rev {
            rev if rev > self.revision() => Err(Refusal::FutureRevision),
            rev if rev > 0 && rev < self.compacted => Err(Refusal::Compacted),
            _ => Ok(()),
        }
    }

    fn at(&self, rev: i64) -> &Keys {
        match rev {
            rev if rev <= 0 => self.latest(),
            rev => &self.states[rev as usize],
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>, Vec<u8>),
    Range(Vec<u8>, Vec<u8>),
}

#[derive(Debug, Clone)]
enum Step {
    Op(Op),
    Txn(Vec<u8>, i64, Vec<Op>, Vec<Op>),
    /// Compacts this fraction of the history.
    Compact(f64),
    /// Reads an interval at this fraction of the history, with a limit.
    Read(f64, Vec<u8>, Vec<u8>, i64),
    Watch(f64, Vec<u8>, Vec<u8>),
    /// Watchers read their queues.
    Drain,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"abc".to_vec()), 1..4)
}

fn end() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![]), Just(vec![0]), key()]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (key(), prop::collection::vec(any::<u8>(), 0..5)).prop_map(|(k, v)| Op::Put(k, v)),
        2 => (key(), end()).prop_map(|(k, e)| Op::Delete(k, e)),
        1 => (key(), end()).prop_map(|(k, e)| Op::Range(k, e)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let ops = || prop::collection::vec(op(), 0..4);
    prop_oneof![
        8 => op().prop_map(Step::Op),
        5 => (key(), 0..3i64, ops(), ops()).prop_map(|(k, v, a, b)| Step::Txn(k, v, a, b)),
        1 => (0.0..1.2f64).prop_map(Step::Compact),
        4 => (0.0..1.1f64, key(), end(), 0..5i64).prop_map(|(r, k, e, l)| Step::Read(r, k, e, l)),
        1 => (0.0..1.1f64, key(), end()).prop_map(|(r, k, e)| Step::Watch(r, k, e)),
        1 => Just(Step::Drain),
    ]
}

fn request(op: &Op) -> RequestOp {
    let request = match op.clone() {
        Op::Put(key, value) => Request::RequestPut(PutRequest {
            key: key.into(),
            value: value.into(),
            prev_kv: true,
            ..Default::default()
        }),
        Op::Delete(key, range_end) => Request::RequestDeleteRange(DeleteRangeRequest {
            key: key.into(),
            range_end: range_end.into(),
            prev_kv: true,
        }),
        Op::Range(key, range_end) => Request::RequestRange(RangeRequest {
            key: key.into(),
            range_end: range_end.into(),
            ..Default::default()
        }),
    };
    RequestOp {
        request: Some(request),
    }
}

/// etcd's rule for one level: a key is put twice, or put and deleted by an interval with an end.
fn has_duplicates(ops: &[Op]) -> bool {
    let put = |op: &Op| match op {
        Op::Put(key, _) => Some(key.clone()),
        _ => None,
    };
    let puts: Vec<_> = ops.iter().filter_map(put).collect();
    let deletes = |op: &Op| match op {
        Op::Delete(_, end) if end[..] == [0] => false,
        Op::Delete(key, end) => puts.iter().any(|put| KeyRange::new(key, end).contains(put)),
        _ => false,
    };
    (1..puts.len()).any(|at| puts[..at].contains(&puts[at])) || ops.iter().any(deletes)
}

/// Applies operations to `keys`; returns the mod revisions in each response: of the keys before a
/// write, or of those found.
fn run(keys: &Keys, ops: &[Op], revision: i64) -> (Vec<Write>, Vec<Vec<i64>>) {
    let revisions = keys.iter().map(|(key, kv)| (key.clone(), kv.mod_revision));
    let mut now: BTreeMap<Vec<u8>, i64> = revisions.collect();
    let (mut writes, mut answers) = (Vec::new(), Vec::new());
    for op in ops {
        let (key, end) = match op {
            Op::Put(key, value) => {
                answers.push(now.insert(key.clone(), revision).into_iter().collect());
                writes.push((key.clone(), Some(value.clone())));
                continue;
            }
            Op::Delete(key, end) | Op::Range(key, end) => (key, end),
        };
        let range = KeyRange::new(key, end);
        let found = now.iter().filter(|(key, _)| range.contains(key));
        let found: Vec<_> = found.map(|(key, at)| (key.clone(), *at)).collect();
        answers.push(found.iter().map(|(_, at)| *at).collect());
        if let Op::Delete(..) = op {
            for (key, _) in found {
                now.remove(&key);
                writes.push((key, None));
            }
        }
    }
    (writes, answers)
}

/// Returns the mod revisions in a response.
fn answer(response: &Response) -> Vec<i64> {
    let kvs = match response {
        Response::ResponsePut(put) => put.prev_kv.iter().collect(),
        Response::ResponseDeleteRange(delete) => {
            assert_eq!(delete.deleted, delete.prev_kvs.len() as i64);
            delete.prev_kvs.iter().collect()
        }
        Response::ResponseRange(range) => {
            assert_eq!(range.count, range.kvs.len() as i64);
            range.kvs.iter().collect::<Vec<_>>()
        }
        Response::ResponseTxn(_) => Vec::new(),
    };
    kvs.iter().map(|kv| kv.mod_revision).collect()
}

/// A store, its model, and watchers with their expected notices.
struct Pair {
    store: Store,
    model: Model,
    watches: Vec<(WatchStream, Vec<Told>, Watched)>,
}

struct Watched {
    start: i64,
    key: Vec<u8>,
    end: Vec<u8>,
    lost: bool,
}

impl Pair {
    fn apply(&mut self, step: Step) {
        match step {
            Step::Op(op) => self.op(op),
            Step::Txn(key, version, success, failure) => {
                self.txn(key, version, &success, &failure);
            }
            Step::Compact(share) => {
                let rev = self.share(share);
                let expected = match rev {
                    rev if rev <= self.model.compacted => Err(Refusal::Compacted),
                    rev if rev > self.model.revision() => Err(Refusal::FutureRevision),
                    rev => {
                        self.drain();
                        self.model.compacted = rev;
                        Ok(self.model.revision())
                    }
                };
                assert_eq!(self.store.compact(rev), expected);
            }
            Step::Read(share, key, end, limit) => self.read(self.share(share), key, end, limit),
            Step::Watch(share, key, end) => self.watch(self.share(share), key, end),
            Step::Drain => self.drain(),
        }
    }

    /// Returns the revision at a fraction of the history.
    fn share(&self, share: f64) -> i64 {
        (self.model.revision() as f64 * share) as i64
    }

    fn op(&mut self, op: Op) {
        let next = self.model.revision() + 1;
        let (writes, answers) = run(self.model.latest(), std::slice::from_ref(&op), next);
        self.model.write(writes);
        let (header, response) = match request(&op).request.expect("an operation") {
            Request::RequestPut(put) => {
                let response = self.store.put(&put).expect("a plain put");
                (response.header, Response::ResponsePut(response))
            }
            Request::RequestDeleteRange(delete) => {
                let response = self.store.delete_range(&delete).expect("a plain delete");
                let header = response.header;
                (header, Response::ResponseDeleteRange(response))
            }
            _ => return,
        };
        assert_eq!(header.expect("a header").revision, self.model.revision());
        assert_eq!(answer(&response), answers[0]);
    }

    fn txn(&mut self, key: Vec<u8>, version: i64, success: &[Op], failure: &[Op]) {
        let compare = Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Version.into(),
            key: key.clone().into(),
            target_union: Some(TargetUnion::Version(version)),
            ..Default::default()
        };
        let request = TxnRequest {
            compare: vec![compare],
            success: success.iter().map(request).collect(),
            failure: failure.iter().map(request).collect(),
        };
        let response = self.store.txn(&request);
        if has_duplicates(success) || has_duplicates(failure) {
            assert_eq!(response, Err(Refusal::DuplicateKey));
            return;
        }
        let response = response.expect("a well-formed transaction");
        let found = self.model.latest().get(&key).map_or(0, |kv| kv.version);
        assert_eq!(response.succeeded, found == version);
        let ops = if response.succeeded { success } else { failure };
        let next = self.model.revision() + 1;
        let (writes, answers) = run(self.model.latest(), ops, next);
        self.model.write(writes);
        let responses = response.responses.iter();
        let found: Vec<_> = responses
            .map(|op| answer(op.response.as_ref().expect("an answer")))
            .collect();
        assert_eq!(found, answers);
        let header = response.header.expect("a header");
        assert_eq!(header.revision, self.model.revision());
    }

    fn read(&self, rev: i64, key: Vec<u8>, end: Vec<u8>, limit: i64) {
        let snapshot = match (self.store.snapshot_at(rev), self.model.check(rev)) {
            (Ok(snapshot), Ok(())) => snapshot,
            (found, expected) => {
                assert_eq!(found.map(|_| ()), expected);
                assert_eq!(self.store.get_at(&key, rev).map(|_| ()), expected);
                return;
            }
        };
        assert_eq!(snapshot.head_revision(), self.model.revision());
        let keys = self.model.at(rev);
        let (one, _) = self.store.get_at(&key, rev).expect("a readable revision");
        assert_eq!(one.map(|record| record.to_kv()), keys.get(&key).cloned());
        let range = KeyRange::new(&key, &end);
        let selected = keys.iter().filter(|(key, _)| range.contains(key));
        let expected: Vec<_> = selected.map(|(_, kv)| kv.clone()).collect();
        let request = RangeRequest {
            key: key.clone().into(),
            range_end: end.clone().into(),
            limit,
            ..Default::default()
        };
        let selection = snapshot.select(&request).expect("a plain range");
        assert_eq!(selection.count, expected.len() as i64);
        let cut = match limit {
            0 => expected.len(),
            limit => expected.len().min(limit as usize),
        };
        assert_eq!(selection.more, cut < expected.len());
        let found: Vec<_> = selection.records.iter().map(Record::to_kv).collect();
        assert_eq!(found, expected[..cut]);
    }

    fn watch(&mut self, start: i64, key: Vec<u8>, end: Vec<u8>) {
        let stream = self.store.watch();
        let spec = WatchSpec {
            key: key.clone(),
            range_end: end.clone(),
            start_revision: start,
            prev_kv: true,
            ..Default::default()
        };
        if stream.create(spec).is_some() {
            let start = match start {
                0 => self.model.revision() + 1,
                start => start,
            };
            let lost = start < self.model.compacted;
            let watched = Watched {
                start,
                key,
                end,
                lost,
            };
            self.watches.push((stream, Vec::new(), watched));
        }
    }

    /// Drains the queue of every watcher and compares with the model.
    fn drain(&mut self) {
        for (stream, told, watched) in &mut self.watches {
            let mut context = Context::from_waker(Waker::noop());
            let mut lost = false;
            while let Poll::Ready(notice) = stream.poll_next(&mut context) {
                lost |= matches!(notice, Notice::Compacted { .. });
                let Notice::Events(delivery) = notice else {
                    continue;
                };
                told.extend(delivery.events().map(|(event, prev)| {
                    let fields = event.record.fields();
                    let deleted = event.record.is_tombstone();
                    let prev = prev.map(Record::mod_revision);
                    (fields.key.to_vec(), deleted, fields.mod_revision, prev)
                }));
            }
            assert!(
                !lost || watched.lost,
                "a watcher lost what was not compacted"
            );
            if watched.lost {
                assert!(told.is_empty());
                continue;
            }
            let range = KeyRange::new(&watched.key, &watched.end);
            let from = (watched.start as usize).min(self.model.changes.len());
            let changes = self.model.changes[from..].iter().flatten();
            let expected = changes.filter(|(key, ..)| range.contains(key));
            let compacted = self.model.compacted;
            assert!(
                told.iter().zip(expected.clone()).all(|(told, change)| {
                    // After a compaction, the state before may be gone.
                    told == change || (told.2 <= compacted && told.3.is_none())
                }),
                "{told:?} is not {:?}",
                expected.collect::<Vec<_>>()
            );
            assert_eq!(told.len(), expected.count());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn the_store_is_its_model(steps in prop::collection::vec(step(), 1..60)) {
        let mut pair = Pair {
            store: Store::new(Config::default()),
            model: Model::new(),
            watches: Vec::new(),
        };
        for step in steps {
            pair.apply(step);
            prop_assert_eq!(pair.store.revision(), pair.model.revision());
        }
        pair.drain();
        for rev in 0..=pair.model.revision() {
            pair.read(rev, b"a".to_vec(), vec![0], 0);
        }
    }
}
