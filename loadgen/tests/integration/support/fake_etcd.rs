//! A small etcd over a map, which can be configured to respond wrongly.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::mvccpb::KeyValue;
use pb::kv_server::{Kv, KvServer};
use pb::maintenance_server::MaintenanceServer;
use pb::watch_server::WatchServer;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use watch::Watchers;

use super::grpc_server::GrpcServer;
use super::maintenance::{StatusOnly, TellsStatus};

mod txn;
mod watch;

/// A fault of the server; faults of lists affect every list of more than one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// The last object is missing, also from `count`.
    DropLast,
    /// Two neighbouring objects are swapped.
    SwapTwo,
    /// An object is duplicated.
    Duplicate,
    /// There is an object that was not written.
    Append,
    /// One bit of one value is flipped.
    FlipByte,
    /// Values are sent although only keys were requested.
    KeepValues,
    /// The version of an object is that of a second write.
    Version,
    /// An object is bound to a lease.
    Lease,
    /// The response has the state before the last write.
    Stale,
    /// The response is never sent.
    Hang,
    /// Every tenth put is acknowledged but not made.
    LosePuts,
    /// Every tenth put is refused.
    FailPuts,
    /// Puts are acknowledged with the revision before them.
    StalePuts,
    /// Transactions are refused.
    RefuseWrites,
    /// The last object is missing, and deletes are refused.
    KeepKeys,
    /// Transactions of more than 16 operations are refused.
    FewOps,
    /// Transactions with puts are executed with a delay, even if the client no longer waits for the
    /// response.
    LatePuts,
    /// Deletes are acknowledged but not made.
    LoseDeletes,
    /// A watcher receives every event twice, and the next watcher of its stream receives none.
    TellTwice,
    /// A watcher does not receive the event of the first put.
    DropEvent,
    /// Lists take a second. After the first list, reads of one key take three.
    SlowUnderLoad,
    /// Lists take a second. After the first list, reads of one key are refused.
    RefuseUnderLoad,
    /// Lists are refused.
    RefuseLists,
    /// The server has an alarm: its database is full.
    Alarm,
}

/// The state of the server.
#[derive(Debug, Default)]
struct State {
    revision: i64,
    keys: BTreeMap<Vec<u8>, KeyValue>,
    /// The keys before the last write that added any.
    before: BTreeMap<Vec<u8>, KeyValue>,
    writes: u64,
    /// Number of requested puts.
    asked: u64,
    watchers: Watchers,
    /// Number of lists by one Range without a limit.
    whole_lists: u64,
    /// Number of all keys that were sent.
    keys_sent: u64,
    /// Whether anything was listed.
    is_loaded: bool,
}

/// A running server, which stops when dropped.
pub(crate) struct FakeEtcd {
    server: GrpcServer,
    state: Arc<Mutex<State>>,
}

impl FakeEtcd {
    /// Starts a server on a free port.
    pub(crate) fn start(fault: Fault) -> Self {
        let state = Arc::new(Mutex::new(State {
            revision: 1,
            ..State::default()
        }));
        let service = Service {
            fault,
            state: Arc::clone(&state),
        };
        let server = GrpcServer::start(async || {
            tonic::transport::Server::builder()
                .add_service(KvServer::new(service.clone()))
                .add_service(MaintenanceServer::new(StatusOnly(service.clone())))
                .add_service(WatchServer::new(service))
        });
        Self { server, state }
    }

    /// Returns the server's URL.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Puts a key that is not loadgen's.
    pub(crate) fn put(&self, key: &str) {
        let mut state = self.state.lock().expect("no panic holds it");
        state.put(&pb::PutRequest {
            key: Bytes::copy_from_slice(key.as_bytes()),
            ..pb::PutRequest::default()
        });
        state.commit();
        state.writes = 0;
    }

    /// Puts `count` keys that are not loadgen's, with values of this size.
    pub(crate) fn fill(&self, prefix: &str, count: usize, size: usize) {
        let mut state = self.state.lock().expect("no panic holds it");
        for i in 0..count {
            state.put(&pb::PutRequest {
                key: format!("{prefix}{i:06}").into(),
                value: vec![b'v'; size].into(),
                ..pb::PutRequest::default()
            });
        }
        state.commit();
        state.writes = 0;
    }

    /// Returns the number of lists by one Range without a limit.
    pub(crate) fn whole_lists(&self) -> u64 {
        self.state.lock().expect("no panic holds it").whole_lists
    }

    /// Returns the number of keys that were sent by Range.
    pub(crate) fn keys_sent(&self) -> u64 {
        self.state.lock().expect("no panic holds it").keys_sent
    }

    /// Returns all keys.
    pub(crate) fn keys(&self) -> Vec<String> {
        let state = self.state.lock().expect("no panic holds it");
        let keys = state.keys.keys();
        keys.map(|key| String::from_utf8_lossy(key).into_owned())
            .collect()
    }

    /// Returns the number of writes since the last [`FakeEtcd::put`].
    pub(crate) fn writes(&self) -> u64 {
        self.state.lock().expect("no panic holds it").writes
    }
}

impl State {
    /// Writes at the next revision, which becomes current when the transaction is complete
    /// ([`Self::commit`]).
    fn put(&mut self, put: &pb::PutRequest) {
        let old = self.keys.get(&put.key[..]);
        let kv = KeyValue {
            key: put.key.clone(),
            value: put.value.clone(),
            create_revision: old.map_or(self.revision + 1, |old| old.create_revision),
            mod_revision: self.revision + 1,
            version: old.map_or(1, |old| old.version + 1),
            lease: 0,
        };
        self.keys.insert(put.key.to_vec(), kv);
        self.writes += 1;
    }

    fn commit(&mut self) {
        self.revision += 1;
    }

    fn header(&self) -> Option<pb::ResponseHeader> {
        Some(pb::ResponseHeader {
            cluster_id: 1,
            member_id: 1,
            revision: self.revision,
            raft_term: 2,
        })
    }
}

#[derive(Debug, Clone)]
struct Service {
    fault: Fault,
    state: Arc<Mutex<State>>,
}

impl Service {
    fn answer(&self, request: &pb::RangeRequest) -> pb::RangeResponse {
        let mut state = self.state.lock().expect("no panic holds it");
        let range = KeyRange::new(&request.key, &request.range_end);
        let is_list = !request.range_end.is_empty() && !request.count_only;
        let stale = is_list && self.fault == Fault::Stale;
        let keys = if stale { &state.before } else { &state.keys };
        let found = keys.values().filter(|kv| range.contains(&kv.key));
        let mut kvs: Vec<KeyValue> = found.cloned().collect();
        if is_list && kvs.len() > 1 {
            spoil(self.fault, &mut kvs);
        }
        if request.keys_only && self.fault != Fault::KeepValues {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        let count = kvs.len();
        let limit = usize::try_from(request.limit)
            .ok()
            .filter(|&limit| limit > 0);
        kvs.truncate(limit.unwrap_or(usize::MAX));
        if request.count_only {
            kvs.clear();
        }
        state.keys_sent += kvs.len() as u64;
        let mut header = state.header();
        if let Some(header) = header.as_mut().filter(|_| stale) {
            header.revision -= 1;
        }
        pb::RangeResponse {
            header,
            more: !request.count_only && kvs.len() < count,
            kvs,
            count: count as i64,
        }
    }
}

/// Maximum limit of a Range that is a sample; larger pages are lists.
const LARGEST_SAMPLE: i64 = 20;
const LIST_TAKES: Duration = Duration::from_secs(1);
const SLOW_READ_TAKES: Duration = Duration::from_secs(3);

impl Service {
    /// Records a request, and slows or refuses it if the fault is one of overload.
    async fn suffer(&self, request: &pb::RangeRequest) -> Result<(), Status> {
        let is_range = !request.range_end.is_empty() && !request.count_only;
        let is_list = is_range && !(1..=LARGEST_SAMPLE).contains(&request.limit);
        let is_loaded = {
            let mut state = self.state.lock().expect("no panic holds it");
            state.whole_lists += u64::from(is_range && request.limit == 0);
            state.is_loaded |= is_list;
            state.is_loaded
        };
        match self.fault {
            Fault::RefuseLists if is_list => Err(Status::resource_exhausted("too much")),
            Fault::SlowUnderLoad | Fault::RefuseUnderLoad if is_list => {
                tokio::time::sleep(LIST_TAKES).await;
                Ok(())
            }
            Fault::SlowUnderLoad if is_loaded => {
                tokio::time::sleep(SLOW_READ_TAKES).await;
                Ok(())
            }
            Fault::RefuseUnderLoad if is_loaded => Err(Status::unavailable("too busy")),
            _ => Ok(()),
        }
    }
}

fn spoil(fault: Fault, kvs: &mut Vec<KeyValue>) {
    match fault {
        Fault::DropLast | Fault::KeepKeys => {
            kvs.pop();
        }
        Fault::SwapTwo => kvs.swap(0, 1),
        Fault::Duplicate => kvs.insert(1, kvs[0].clone()),
        Fault::Append => {
            let mut more = kvs[kvs.len() - 1].clone();
            more.key = [&more.key[..], b"0"].concat().into();
            kvs.push(more);
        }
        Fault::Version => kvs[1].version = 2,
        Fault::Lease => kvs[1].lease = 7,
        Fault::FlipByte => {
            let mut value = kvs[1].value.to_vec();
            let middle = value.len() / 2;
            value[middle] ^= 1;
            kvs[1].value = value.into();
        }
        _ => {}
    }
}

#[tonic::async_trait]
impl Kv for Service {
    type RangeStreamStream =
        Pin<Box<dyn Stream<Item = Result<pb::RangeStreamResponse, Status>> + Send>>;

    async fn range(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<pb::RangeResponse>, Status> {
        let request = request.into_inner();
        self.suffer(&request).await?;
        let answer = self.answer(&request);
        if self.fault == Fault::Hang && answer.kvs.len() > 1 {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(answer))
    }

    async fn range_stream(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        self.suffer(request.get_ref()).await?;
        let mut whole = self.answer(request.get_ref());
        // Two chunks, of which only the last one has a header, as in etcd.
        let rest = whole.kvs.split_off(whole.kvs.len() / 2);
        let first = std::mem::replace(&mut whole.kvs, rest);
        let first = (!first.is_empty()).then(|| pb::RangeResponse {
            kvs: first,
            ..pb::RangeResponse::default()
        });
        let chunks: Vec<_> = first
            .into_iter()
            .chain([whole])
            .map(|response| {
                Ok(pb::RangeStreamResponse {
                    range_response: Some(response),
                })
            })
            .collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }

    async fn txn(
        &self,
        request: Request<pb::TxnRequest>,
    ) -> Result<Response<pb::TxnResponse>, Status> {
        let request = request.into_inner();
        if self.fault == Fault::LatePuts && txn::puts(&request) {
            let service = self.clone();
            let late = tokio::spawn(async move {
                tokio::time::sleep(txn::LATE).await;
                service.transact(request)
            });
            return late.await.expect("it does not panic");
        }
        self.transact(request)
    }

    async fn put(
        &self,
        request: Request<pb::PutRequest>,
    ) -> Result<Response<pb::PutResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state.lock().expect("no panic holds it");
        let header = state.header();
        state.asked += 1;
        if self.fault == Fault::FailPuts && state.asked.is_multiple_of(10) {
            return Err(Status::unavailable("etcdserver: request timed out"));
        }
        if self.fault == Fault::LosePuts && state.revision % 10 == 0 {
            state.commit();
        } else {
            state.put(&request);
            state.commit();
            let kv = state.keys[&request.key[..]].clone();
            state.watchers.tell(self.fault, kv);
        }
        let header = match self.fault {
            Fault::StalePuts => header,
            _ => state.header(),
        };
        Ok(Response::new(pb::PutResponse {
            header,
            ..pb::PutResponse::default()
        }))
    }

    async fn delete_range(
        &self,
        _: Request<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        Err(Status::unimplemented("nobody may delete a range here"))
    }

    async fn compact(
        &self,
        _: Request<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        panic!("compaction was not asked for")
    }
}

#[tonic::async_trait]
impl TellsStatus for Service {
    async fn status(&self, _: pb::StatusRequest) -> Result<pb::StatusResponse, Status> {
        let state = self.state.lock().expect("no panic holds it");
        Ok(pb::StatusResponse {
            header: state.header(),
            version: "3.7.3".to_owned(),
            db_size: 4096,
            errors: match self.fault {
                Fault::Alarm => vec!["memberID:1 alarm:NOSPACE".to_owned()],
                _ => Vec::new(),
            },
            ..pb::StatusResponse::default()
        })
    }
}
