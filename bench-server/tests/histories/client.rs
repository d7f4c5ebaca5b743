//! A client that asks by chance, one request after the other, and records what came back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::etcdserverpb::kv_client::KvClient;
use history::{
    Call, Change, Compare, KeyRange, KeyValue, Nanoseconds, OpResponse, Operation, Outcome,
    RangeRequest, Txn, TxnResponse,
};
use prost::Message;
use tonic::Status;
use tonic::transport::Channel;

use crate::convert;
use crate::lies::Liar;
use crate::rng::Rng;
use crate::run::Shared;

/// After this time a client gives up: what becomes of the request is not known.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Pause after a request of unknown outcome, so that an unreachable server costs few of them.
const PAUSE: Duration = Duration::from_millis(20);
/// Keys; few, so that clients meet, and more than the ten that a stream's first message has.
const KEYS: usize = 16;
/// Revisions between the newest and the oldest that is read.
const PAST: usize = 200;
/// Revisions that a compaction leaves below the newest.
const KEPT: i64 = 60;
/// The client that compacts.
const COMPACTOR: u32 = 0;

/// A request, by the RPC that carries it.
enum Ask {
    Put(String, String),
    Delete(KeyRange),
    Txn(Txn),
    Range(RangeRequest),
    Compact(i64),
}

struct Client {
    shared: Arc<Shared>,
    number: u32,
    rng: Rng,
    liar: Liar,
    kv: KvClient<Channel>,
    /// Modification revisions that it knows, for compare-and-swap.
    known: BTreeMap<String, i64>,
    values: u64,
    operations: Vec<Operation>,
}

/// Asks until the run's time is up; returns everything that it asked.
pub(crate) async fn run(shared: Arc<Shared>, number: u32, seed: u64) -> Vec<Operation> {
    let mut client = Client {
        kv: KvClient::new(shared.channel(number)),
        liar: Liar::new(shared.lie),
        shared,
        number,
        rng: Rng(seed),
        known: BTreeMap::new(),
        values: 0,
        operations: Vec::new(),
    };
    while !client.shared.is_over() {
        let ask = client.choose();
        client.perform(ask).await;
    }
    client.operations
}

/// Reads everything; returns the operation, and its revision if it was served.
pub(crate) async fn read_all(shared: Arc<Shared>, number: u32) -> (Operation, Option<i64>) {
    let mut client = Client {
        kv: KvClient::new(shared.channel(number)),
        liar: Liar::new(None),
        shared,
        number,
        rng: Rng(0),
        known: BTreeMap::new(),
        values: 0,
        operations: Vec::new(),
    };
    let everything = RangeRequest {
        range: everything(),
        ..RangeRequest::default()
    };
    client.perform(Ask::Range(everything)).await;
    let operation = client.operations.pop().expect("it was recorded");
    let revision = match &operation.call {
        Call::Range(_, Outcome::Done(response)) => Some(response.revision),
        _ => None,
    };
    (operation, revision)
}

fn key(nth: usize) -> String {
    format!("k{nth:02}")
}

/// Returns the range of all keys.
pub(crate) fn everything() -> KeyRange {
    KeyRange {
        from: "k".into(),
        end: "l".into(),
    }
}

/// Returns some range of keys: one, some, or all.
pub(crate) fn some_range(rng: &mut Rng) -> KeyRange {
    let first = rng.below(KEYS);
    match rng.below(3) {
        0 => KeyRange::one(&key(first)),
        1 => KeyRange {
            from: key(first),
            end: key(first + 1 + rng.below(KEYS - first)),
        },
        _ => everything(),
    }
}

impl Client {
    fn choose(&mut self) -> Ask {
        match self.rng.below(100) {
            0..25 => Ask::Put(self.some_key(), self.value()),
            25..35 => {
                let key = self.some_key();
                let value = self.value();
                Ask::Txn(guarded(&key, 0, Change::Put(key.clone(), value)))
            }
            35..52 => {
                let (key, revision) = self.known_key();
                let value = self.value();
                Ask::Txn(guarded(&key, revision, Change::Put(key.clone(), value)))
            }
            52..58 => {
                let (key, revision) = self.known_key();
                let delete = Change::Delete(KeyRange::one(&key));
                Ask::Txn(guarded(&key, revision, delete))
            }
            58..61 => Ask::Delete(KeyRange::one(&self.some_key())),
            61..63 => Ask::Delete(some_range(&mut self.rng)),
            63..70 => Ask::Txn(self.many()),
            70..88 => Ask::Range(self.range(false)),
            88..95 => Ask::Range(self.range(true)),
            _ if self.number == COMPACTOR => Ask::Compact(self.compaction()),
            _ => Ask::Range(self.range(false)),
        }
    }

    fn some_key(&mut self) -> String {
        key(self.rng.below(KEYS))
    }

    /// Returns a value that no other put has.
    fn value(&mut self) -> String {
        self.values += 1;
        format!("{}/{}", self.number, self.values)
    }

    /// Returns a key with the revision that it was last seen with.
    fn known_key(&mut self) -> (String, i64) {
        let key = self.some_key();
        let revision = self.known.get(&key).copied().unwrap_or(0);
        (key, revision)
    }

    /// Returns a transaction over neighbouring keys: puts, a deletion, and what is then there.
    fn many(&mut self) -> Txn {
        let first = self.rng.below(KEYS - 3);
        let mut success: Vec<Change> = (first..first + 2)
            .map(|nth| Change::Put(key(nth), self.value()))
            .collect();
        success.push(Change::Delete(KeyRange::one(&key(first + 2))));
        success.push(Change::Get(everything()));
        Txn {
            success,
            ..Txn::default()
        }
    }

    fn range(&mut self, stream: bool) -> RangeRequest {
        let newest = self.shared.newest.load(Ordering::Relaxed);
        let behind = i64::try_from(self.rng.below(PAST)).expect("it is small");
        let revision = match self.rng.one_in(3) {
            true => (newest - behind).max(1),
            false => 0,
        };
        let (limit, count_only) = match self.rng.below(4) {
            0 => (1 + self.rng.below(KEYS), false),
            1 if !stream => (0, true),
            _ => (0, false),
        };
        RangeRequest {
            range: some_range(&mut self.rng),
            revision,
            limit,
            count_only,
            stream,
        }
    }

    /// Returns a revision that the log has passed: it must not miss what is compacted away.
    fn compaction(&self) -> i64 {
        let told = self.shared.log_told.load(Ordering::Relaxed);
        (told - KEPT).max(1)
    }

    async fn perform(&mut self, ask: Ask) {
        let called = self.shared.now();
        let mut settled = None;
        let sent = self.send(&ask, &mut settled);
        let call = match tokio::time::timeout(TIMEOUT, sent).await {
            Ok(call) => call,
            Err(_) => match ask {
                Ask::Range(request) => Call::Range(request, Outcome::Unknown),
                Ask::Compact(revision) => Call::Compact(revision, Outcome::Unknown),
                write => Call::Txn(as_txn(write), Outcome::Unknown),
            },
        };
        let returned = self.shared.now();
        self.learn(&call);
        let is_unknown = matches!(
            call,
            Call::Txn(_, Outcome::Unknown)
                | Call::Range(_, Outcome::Unknown)
                | Call::Compact(_, Outcome::Unknown)
        );
        self.operations.push(Operation {
            client: self.number,
            called,
            settled: settled.unwrap_or(returned),
            returned,
            call,
        });
        if is_unknown {
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn send(&mut self, ask: &Ask, settled: &mut Option<Nanoseconds>) -> Call {
        let newest = self.shared.newest.load(Ordering::Relaxed);
        match ask {
            Ask::Put(key, value) => {
                let request = convert::put(key, value);
                let result = self.liar.put(&mut self.kv, newest, request).await;
                let txn = one(Change::Put(key.clone(), value.clone()));
                Call::Txn(
                    txn,
                    outcome(result, |put| {
                        single(put.header.as_ref(), convert::put_response(put))
                    }),
                )
            }
            Ask::Delete(range) => {
                let result = self.kv.delete_range(convert::delete(range)).await;
                let result = result.map(tonic::Response::into_inner);
                let txn = one(Change::Delete(range.clone()));
                Call::Txn(
                    txn,
                    outcome(result, |delete| {
                        single(delete.header.as_ref(), convert::delete_response(delete))
                    }),
                )
            }
            Ask::Txn(txn) => {
                let result = self.kv.txn(convert::txn(txn)).await;
                let result = result.map(tonic::Response::into_inner);
                Call::Txn(txn.clone(), outcome(result, convert::txn_response))
            }
            Ask::Range(request) => {
                let sent = convert::range_request(request);
                let result = match request.stream {
                    true => self.stream(sent, settled).await,
                    false => self.liar.range(&mut self.kv, sent).await,
                };
                Call::Range(request.clone(), outcome(result, convert::range_response))
            }
            Ask::Compact(revision) => {
                let request = pb::CompactionRequest {
                    revision: *revision,
                    physical: false,
                };
                let result = self.kv.compact(request).await;
                let result = result.map(tonic::Response::into_inner);
                Call::Compact(
                    *revision,
                    outcome(result, |done| convert::revision(done.header.as_ref())),
                )
            }
        }
    }

    /// Reads a stream to its end, merged as protobuf does.
    async fn stream(
        &mut self,
        request: pb::RangeRequest,
        settled: &mut Option<Nanoseconds>,
    ) -> Result<pb::RangeResponse, Status> {
        let mut messages = self.kv.range_stream(request).await?.into_inner();
        let mut merged = pb::RangeResponse::default();
        while let Some(message) = messages.message().await? {
            settled.get_or_insert_with(|| self.shared.now());
            let part = message.range_response.unwrap_or_default();
            let merge = merged.merge(&part.encode_to_vec()[..]);
            merge.expect("an encoded message decodes");
        }
        Ok(merged)
    }

    /// Keeps the revisions of a response.
    fn learn(&mut self, call: &Call) {
        let (revision, kvs) = match call {
            Call::Range(request, Outcome::Done(response)) if request.revision == 0 => {
                (response.revision, response.kvs.as_slice())
            }
            Call::Range(_, Outcome::Done(response)) => (response.revision, &[][..]),
            Call::Txn(txn, Outcome::Done(response)) => {
                let branch = match response.succeeded {
                    true => &txn.success,
                    false => &txn.failure,
                };
                for (change, found) in branch.iter().zip(&response.responses) {
                    self.learn_change(change, found, response.revision);
                }
                (response.revision, &[][..])
            }
            Call::Compact(_, Outcome::Done(revision)) => (*revision, &[][..]),
            _ => return,
        };
        self.learn_keys(kvs);
        self.shared.newest.fetch_max(revision, Ordering::Relaxed);
    }

    fn learn_change(&mut self, change: &Change, found: &OpResponse, revision: i64) {
        match (change, found) {
            (Change::Put(key, _), _) => {
                self.known.insert(key.clone(), revision);
            }
            (Change::Delete(range), _) => self.known.retain(|key, _| !range.contains(key)),
            (Change::Get(range), OpResponse::Get(kvs)) => {
                self.known.retain(|key, _| !range.contains(key));
                self.learn_keys(kvs);
            }
            (Change::Get(_), _) => {}
        }
    }

    fn learn_keys(&mut self, kvs: &[KeyValue]) {
        let all = kvs.iter().map(|kv| (kv.key.clone(), kv.mod_revision));
        self.known.extend(all);
    }
}

fn one(change: Change) -> Txn {
    Txn {
        success: vec![change],
        ..Txn::default()
    }
}

/// Returns a transaction as Kubernetes makes it: one change of a key whose revision is known, or
/// what the key is now.
fn guarded(key: &str, mod_revision: i64, change: Change) -> Txn {
    Txn {
        compares: vec![Compare {
            key: key.to_owned(),
            mod_revision,
        }],
        success: vec![change],
        failure: vec![Change::Get(KeyRange::one(key))],
    }
}

fn as_txn(ask: Ask) -> Txn {
    match ask {
        Ask::Put(key, value) => one(Change::Put(key, value)),
        Ask::Delete(range) => one(Change::Delete(range)),
        Ask::Txn(txn) => txn,
        Ask::Range(_) | Ask::Compact(_) => Txn::default(),
    }
}

fn single(header: Option<&pb::ResponseHeader>, response: OpResponse) -> TxnResponse {
    TxnResponse {
        revision: convert::revision(header),
        succeeded: true,
        responses: vec![response],
    }
}

fn outcome<R, T>(result: Result<R, Status>, convert: impl FnOnce(&R) -> T) -> Outcome<T> {
    match result {
        Ok(response) => Outcome::Done(convert(&response)),
        Err(status) => convert::refused(&status),
    }
}
