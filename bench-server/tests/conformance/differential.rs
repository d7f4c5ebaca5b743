//! Sends random requests to bench-server and to etcd: all responses must be the same, and so must
//! the events of every watch.
//!
//! Cluster and member IDs, the raft term and the remaining time of a lease are specific to each
//! server and are not compared. There are ten keys at most, since etcd's sort is not stable for
//! more than twelve. `CONFORMANCE_SEED=7 cargo test -p bench-server --test conformance --
//! differential` uses other histories.

use std::fmt::Debug;

use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::watch_create_request::FilterType;
use etcd_api::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest,
};
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::differential::masked::Masked;
use crate::differential::watches::Watches;
use crate::harness::{Target, cases};
use crate::peer::{Peer, Server};
use crate::range_stream;
use test_support::rng::Rng;

mod masked;
mod watches;

cases![on &[Peer::Bench, Peer::BenchBuffered], needs ("ETCD_BIN", "etcd");
    first_history, second_history, third_history,
];

const STEPS: usize = 1_200;
/// Steps between two comparisons of the watches' events.
const LOOK: usize = 100;
const WATCHES: i64 = 40;

const KEYS: [&[u8]; 10] = [
    b"a",
    b"a\0",
    b"aa",
    b"ab",
    b"b",
    b"b\xff",
    b"k/1",
    b"k/2",
    b"\xff",
    b"\xff\xff",
];
const VALUES: [&[u8]; 5] = [b"", b"1", b"2", b"\0\xff", &[b'v'; 300]];
const LEASES: [i64; 4] = [1, 2, 3, i64::MAX];

async fn first_history(t: Target) {
    history(t, 0x5eed_0001).await;
}

async fn second_history(t: Target) {
    history(t, 0x5eed_0002).await;
}

async fn third_history(t: Target) {
    history(t, 0x5eed_0003).await;
}

async fn history(ours: Target, seed: u64) {
    let other = std::env::var("CONFORMANCE_SEED").ok();
    let other: u64 = other.map_or(0, |text| {
        text.parse().expect("CONFORMANCE_SEED is a number")
    });
    let seed = seed ^ other.rotate_left(32);
    let server = Server::start(Peer::Etcd, &[]).expect("etcd starts");
    let endpoint = Endpoint::from_shared(server.url.clone()).expect("its own URL");
    let etcd = Target {
        peer: Peer::Etcd,
        channel: endpoint.connect().await.expect("it accepts"),
        server,
    };
    let everything = WatchCreateRequest {
        prev_kv: true,
        watch_id: 1,
        ..crate::watch_stream::create("\0", "\0")
    };
    let mut both = Both {
        our_watches: Watches::open(&ours, everything.clone()).await,
        etcd_watches: Watches::open(&etcd, everything).await,
        ours,
        etcd,
        rng: Rng(seed),
        step: 0,
        revision: 1,
        compacted: 0,
        watches: 1,
    };
    while both.step < STEPS {
        both.step += 1;
        both.take_step().await;
        if both.step.is_multiple_of(LOOK) {
            both.look_at_watches().await;
        }
    }
}

/// The two servers, and the state that their common history has reached.
struct Both {
    ours: Target,
    etcd: Target,
    our_watches: Watches,
    etcd_watches: Watches,
    rng: Rng,
    step: usize,
    revision: i64,
    compacted: i64,
    watches: i64,
}

impl Both {
    async fn take_step(&mut self) {
        match self.rng.below(100) {
            0..30 => {
                let request = self.put();
                let (a, b) = (&self.ours, &self.etcd);
                let answers = (a.put(request.clone()).await, b.put(request.clone()).await);
                self.compare(&request, answers);
            }
            30..55 => {
                let request = self.range();
                let (a, b) = (&self.ours, &self.etcd);
                let answers = (
                    a.range(request.clone()).await,
                    b.range(request.clone()).await,
                );
                self.compare(&request, answers);
            }
            55..63 => {
                let request = self.delete();
                let (a, b) = (&self.ours, &self.etcd);
                let answers = (
                    a.delete(request.clone()).await,
                    b.delete(request.clone()).await,
                );
                self.compare(&request, answers);
            }
            63..83 => {
                let ignoring = self.rng.one_in(2);
                let request = self.txn(2, ignoring);
                let (a, b) = (&self.ours, &self.etcd);
                let answers = (a.txn(request.clone()).await, b.txn(request.clone()).await);
                self.compare(&request, answers);
            }
            83..88 => {
                let request = self.stream();
                let answers = (
                    range_stream::merged(&self.ours, request.clone()).await,
                    range_stream::merged(&self.etcd, request.clone()).await,
                );
                self.compare(&request, answers);
            }
            88..94 => self.lease().await,
            94..98 => self.create_watch().await,
            _ => self.compact().await,
        }
    }

    /// Asserts that both responses are the same, except for the fields that are specific to each
    /// server.
    fn compare<T>(&mut self, request: &impl Debug, answers: (Result<T, Status>, Result<T, Status>))
    where
        T: Masked + PartialEq + Debug,
    {
        let text = |status: Status| (status.code(), status.message().to_owned());
        let mut ours: Result<T, (Code, String)> = answers.0.map_err(text);
        let mut etcd = answers.1.map_err(text);
        for answer in [&mut ours, &mut etcd].into_iter().flatten() {
            answer.mask();
        }
        assert_eq!(
            ours, etcd,
            "ours and etcd's, step {}: {request:?}",
            self.step
        );
        if let Ok(answer) = &ours {
            self.revision = self.revision.max(answer.revision());
        }
    }

    fn key(&mut self) -> &'static [u8] {
        match self.rng.one_in(60) {
            true => b"",
            false => self.rng.of(&KEYS),
        }
    }

    /// Returns one key, a prefix, everything from a key on, or an interval that may be empty or
    /// reversed.
    fn interval(&mut self) -> (&'static [u8], &'static [u8]) {
        let key = self.key();
        match self.rng.below(6) {
            0 | 1 => (key, b""),
            2 => (key, b"\0"),
            3 => (b"\0", b"\0"),
            4 => (b"a", b"b"),
            _ => (key, self.key()),
        }
    }

    fn lease_id(&mut self) -> i64 {
        match self.rng.one_in(20) {
            true => 99,
            false => self.rng.of(&LEASES),
        }
    }

    /// Returns a revision that is past, future, compacted or invalid.
    fn some_revision(&mut self) -> i64 {
        match self.rng.below(8) {
            0 => -1,
            1 => self.revision + 1,
            2 => self.compacted,
            3 => self.compacted - 1,
            _ => self.rng.below(self.revision as usize + 1) as i64,
        }
    }

    fn put(&mut self) -> PutRequest {
        let mut put = PutRequest {
            key: self.key().into(),
            value: self.rng.of(&VALUES).into(),
            prev_kv: self.rng.one_in(3),
            ignore_value: self.rng.one_in(15),
            ignore_lease: self.rng.one_in(15),
            ..PutRequest::default()
        };
        if self.rng.one_in(3) {
            put.lease = self.lease_id();
        }
        if put.ignore_value && self.rng.below(4) > 0 {
            put.value = Default::default();
        }
        if put.ignore_lease && self.rng.below(4) > 0 {
            put.lease = 0;
        }
        put
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        let (key, range_end) = match self.rng.one_in(3) {
            true => self.interval(),
            false => (self.key(), &b""[..]),
        };
        DeleteRangeRequest {
            key: key.into(),
            range_end: range_end.into(),
            prev_kv: self.rng.one_in(2),
        }
    }

    fn range(&mut self) -> RangeRequest {
        const ORDERS: [SortOrder; 3] = [SortOrder::None, SortOrder::Ascend, SortOrder::Descend];
        const TARGETS: [SortTarget; 5] = [
            SortTarget::Key,
            SortTarget::Version,
            SortTarget::Create,
            SortTarget::Mod,
            SortTarget::Value,
        ];
        let mut range = self.stream();
        range.sort_order = self.rng.of(&ORDERS).into();
        range.sort_target = self.rng.of(&TARGETS).into();
        if self.rng.one_in(4) {
            for bound in [
                &mut range.min_mod_revision,
                &mut range.max_mod_revision,
                &mut range.min_create_revision,
                &mut range.max_create_revision,
            ] {
                if self.rng.one_in(3) {
                    *bound = self.rng.below(self.revision as usize + 2) as i64;
                }
            }
        }
        range
    }

    /// Returns a request that RangeStream accepts.
    fn stream(&mut self) -> RangeRequest {
        let (key, range_end) = self.interval();
        RangeRequest {
            key: key.into(),
            range_end: range_end.into(),
            limit: self.rng.of(&[0, 0, 0, 1, 2, 5, 100, -1]),
            revision: match self.rng.one_in(3) {
                true => self.some_revision(),
                false => 0,
            },
            serializable: self.rng.one_in(4),
            keys_only: self.rng.one_in(5),
            count_only: self.rng.one_in(8),
            ..RangeRequest::default()
        }
    }

    fn condition(&mut self) -> Compare {
        const RESULTS: [CompareResult; 4] = [
            CompareResult::Equal,
            CompareResult::Greater,
            CompareResult::Less,
            CompareResult::NotEqual,
        ];
        let (key, range_end) = match self.rng.one_in(4) {
            true => self.interval(),
            false => (self.key(), &b""[..]),
        };
        let revision = self.rng.below(self.revision as usize + 1) as i64;
        let few = self.rng.below(4) as i64;
        let (target, operand) = match self.rng.below(6) {
            0 => (CompareTarget::Version, TargetUnion::Version(few)),
            1 => (CompareTarget::Create, TargetUnion::CreateRevision(0)),
            2 => (CompareTarget::Create, TargetUnion::CreateRevision(revision)),
            3 => (CompareTarget::Mod, TargetUnion::ModRevision(revision)),
            4 => (CompareTarget::Lease, TargetUnion::Lease(few)),
            _ => {
                let value = self.rng.of(&VALUES);
                (CompareTarget::Value, TargetUnion::Value(value.into()))
            }
        };
        Compare {
            result: self.rng.of(&RESULTS).into(),
            target: target.into(),
            key: key.into(),
            range_end: range_end.into(),
            target_union: (!self.rng.one_in(40)).then_some(operand),
        }
    }

    fn operations(&mut self, depth: usize, ignoring: bool) -> Vec<RequestOp> {
        let most = self.rng.below(4);
        let mut operations = Vec::new();
        for _ in 0..most {
            let request = match self.rng.below(10) {
                0..4 => Request::RequestPut(match ignoring {
                    true => self.put(),
                    false => PutRequest {
                        ignore_value: false,
                        ignore_lease: false,
                        ..self.put()
                    },
                }),
                4..7 => Request::RequestRange(self.range()),
                7 | 8 => {
                    let mut delete = self.delete();
                    if ignoring && &delete.range_end[..] == b"\0" {
                        delete.range_end = Default::default();
                    }
                    Request::RequestDeleteRange(delete)
                }
                _ if depth > 0 => Request::RequestTxn(self.txn(depth - 1, ignoring)),
                _ => continue,
            };
            let request = (!self.rng.one_in(80)).then_some(request);
            operations.push(RequestOp { request });
        }
        operations
    }

    /// Returns a transaction that has either puts that keep a value or a lease (`ignoring`), or
    /// deletes from a key on. A transaction with both passes etcd's checks, and etcd 3.7.3 panics
    /// if the delete removes the key that the put needs.
    fn txn(&mut self, depth: usize, ignoring: bool) -> TxnRequest {
        let conditions = self.rng.below(3);
        TxnRequest {
            compare: (0..conditions).map(|_| self.condition()).collect(),
            success: self.operations(depth, ignoring),
            failure: self.operations(depth, ignoring),
        }
    }

    async fn lease(&mut self) {
        let id = self.lease_id();
        let (mut a, mut b) = (self.ours.lease(), self.etcd.lease());
        match self.rng.below(5) {
            0 | 1 => {
                let ttl = self.rng.of(&[1_000, 1_001, 1_002, 9_000_000_001]);
                let request = LeaseGrantRequest { ttl, id };
                let answers = (a.lease_grant(request).await, b.lease_grant(request).await);
                self.compare(&request, inner(answers));
            }
            2 => {
                let request = LeaseRevokeRequest { id };
                let answers = (a.lease_revoke(request).await, b.lease_revoke(request).await);
                self.compare(&request, inner(answers));
            }
            3 => {
                let request = LeaseLeasesRequest {};
                let answers = (a.lease_leases(request).await, b.lease_leases(request).await);
                self.compare(&request, inner(answers));
            }
            _ => {
                let keys = self.rng.one_in(2);
                let request = LeaseTimeToLiveRequest { id, keys };
                let answers = (
                    a.lease_time_to_live(request).await,
                    b.lease_time_to_live(request).await,
                );
                self.compare(&request, inner(answers));
            }
        }
    }

    /// Creates another watch on both servers, from now, or from a past or a future revision.
    async fn create_watch(&mut self) {
        if self.watches == WATCHES {
            return;
        }
        self.watches += 1;
        let (key, range_end) = self.interval();
        let mut create = WatchCreateRequest {
            watch_id: self.watches,
            prev_kv: self.rng.one_in(2),
            fragment: self.rng.one_in(4),
            ..crate::watch_stream::create(key, range_end)
        };
        if self.rng.below(3) > 0 {
            create.start_revision = match self.rng.one_in(6) {
                true => self.revision + 3,
                false => self.rng.below(self.revision as usize + 1) as i64,
            };
        }
        match self.rng.below(5) {
            0 => create.filters = vec![FilterType::Noput.into()],
            1 => create.filters = vec![FilterType::Nodelete.into()],
            _ => {}
        }
        self.our_watches.create(create.clone()).await;
        self.etcd_watches.create(create).await;
        // No progress is reported while a watch waits for a future revision.
        for _ in 0..3 {
            let request = crate::request::put("k/1", "3");
            let answers = (
                self.ours.put(request.clone()).await,
                self.etcd.put(request.clone()).await,
            );
            self.compare(&request, answers);
        }
        // Events must be received before their revisions are compacted: otherwise it depends on
        // timing whether they are.
        self.look_at_watches().await;
    }

    async fn look_at_watches(&mut self) {
        let etcd = self.etcd_watches.told(self.revision).await;
        let ours = self.our_watches.told(self.revision).await;
        for (id, told) in &etcd {
            assert_eq!(ours.get(id), Some(told), "watch {id}, step {}", self.step);
        }
        assert_eq!(ours.len(), etcd.len(), "watches that were told something");
    }

    async fn compact(&mut self) {
        self.look_at_watches().await;
        let to = match self.rng.one_in(3) {
            true => self.some_revision(),
            false => self.compacted + self.rng.below(30) as i64,
        };
        let ours = self.ours.compact(to, true).await;
        let etcd = self.etcd.compact(to, true).await;
        if ours.is_ok() {
            self.compacted = to;
        }
        self.compare(&("compact", to), (ours, etcd));
    }
}

type Pair<T> = (Result<T, Status>, Result<T, Status>);

fn inner<T>(answers: Pair<tonic::Response<T>>) -> Pair<T> {
    let unpack = |answer: Result<tonic::Response<T>, Status>| answer.map(|r| r.into_inner());
    (unpack(answers.0), unpack(answers.1))
}
