//! An etcd proxy in front of another etcd, which forwards everything except for one violation.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::mvccpb::event::EventType;
use pb::kv_server::{Kv, KvServer};
use pb::lease_server::{Lease, LeaseServer};
use pb::maintenance_server::MaintenanceServer;
use pb::request_op::Request as Op;
use pb::watch_server::{Watch, WatchServer};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use crate::support::grpc_server::GrpcServer;
use crate::support::maintenance::{StatusOnly, TellsStatus};
use crate::support::probed::lies;

lies! { Lie:
    /// The version is not a semantic version.
    Development breaks "version";
    /// Responses have no raft term.
    NoTerm breaks "header";
    /// The error for an empty key has another message.
    OwnWords breaks "error-empty-key";
    /// A future revision is served.
    ServesFuture breaks "error-future-revision";
    /// A count returns keys.
    CountBringsKeys breaks "count-only";
    /// The limit is ignored.
    NoLimit breaks "limit";
    /// Two neighbouring keys are swapped.
    Swaps breaks "key-order";
    /// keys_only returns values.
    KeysWithValues breaks "keys-only";
    /// The count of a page is of all keys, not of the rest.
    CountsAll breaks "pages";
    /// A stream lacks its first object.
    StreamDrops breaks "range-stream";
    /// Each message of a stream has a header.
    StreamHeaders breaks "range-stream-layout";
    /// A stream accepts sort orders, and ignores them.
    StreamSorts breaks "range-stream-sort";
    /// Progress responses are never sent.
    NoProgress breaks "watch-progress";
    /// A create reports that it failed.
    DeniesCreate breaks "txn-create";
    /// Compares for a key that must not exist always hold.
    Overwrites breaks "txn-conflict";
    /// A failure branch has no responses.
    HidesConflict breaks "get-on-failure";
    /// The version of a key is always 1.
    FirstVersion breaks "txn-update";
    /// Compares with an older revision always hold.
    TakesStale breaks "txn-stale";
    /// A past revision has the current state.
    NoPast breaks "past-state";
    /// A put has no prev_kv.
    PutHidesPrev breaks "put-prev-kv";
    /// The operations of a Txn are made one after the other.
    SplitsTxn breaks "txn-one-revision";
    /// A Txn that writes a key twice is accepted.
    WritesTwice breaks "txn-duplicate-key";
    /// A count is off by one.
    OffByOne breaks "exact-count";
    /// Sort orders are ignored.
    NoSort breaks "sort";
    /// A delete is acknowledged but deletes nothing.
    KeepsDeleted breaks "txn-delete";
    /// A put with an unknown lease is accepted.
    AnyLease breaks "lease-unknown";
    /// A put with a lease is made without it.
    NoLease breaks "lease-attach";
    /// A revoked lease keeps its keys.
    KeepsLeased breaks "lease-revoke";
    /// A watch lacks an event.
    WatchDrops breaks "watch-order";
    /// The events of a revision are sent in separate responses.
    WatchSplits breaks "watch-one-revision";
    /// A delete is sent as a put event.
    TellsPut breaks "watch-delete";
    /// Events have no prev_kv.
    WatchHidesPrev breaks "watch-prev-kv";
    /// A watch begins with the first revision.
    WatchFromStart breaks "watch-resume";
}

/// A running proxy, which stops when dropped.
pub(crate) struct LyingEtcd {
    server: GrpcServer,
    behind: String,
    writes: Arc<AtomicU64>,
}

impl LyingEtcd {
    /// Starts a proxy in front of the etcd at `behind`, on a free port.
    pub(crate) fn start(behind: &str, lie: Lie) -> Self {
        let writes: Arc<AtomicU64> = Arc::default();
        let (config, counted) = (config(behind), Arc::clone(&writes));
        let server = GrpcServer::start(async move || {
            let client = Client::connect(config).await.expect("it is there");
            let service = Service {
                lie,
                client,
                writes: counted,
            };
            tonic::transport::Server::builder()
                .add_service(KvServer::new(service.clone()))
                .add_service(LeaseServer::new(service.clone()))
                .add_service(MaintenanceServer::new(StatusOnly(service.clone())))
                .add_service(WatchServer::new(service))
        });
        Self {
            server,
            behind: behind.to_owned(),
            writes,
        }
    }

    /// Returns the proxy's URL.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the number of requested writes.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Puts a key that is not loadgen's.
    pub(crate) fn put(&self, key: &str) {
        let put = pb::PutRequest {
            key: key.to_owned().into(),
            ..pb::PutRequest::default()
        };
        self.ask(async |client| client.kv().put(put).await.expect("it takes a write"));
    }

    /// Returns all keys.
    pub(crate) fn keys(&self) -> Vec<String> {
        let all = pb::RangeRequest {
            key: b"\0"[..].into(),
            range_end: b"\0"[..].into(),
            ..pb::RangeRequest::default()
        };
        let range = self.ask(async |client| client.kv().range(all).await.expect("it lists"));
        let kvs = range.into_inner().kvs.into_iter();
        kvs.map(|kv| String::from_utf8_lossy(&kv.key).into_owned())
            .collect()
    }

    /// Sends a request to the etcd behind the proxy.
    fn ask<T>(&self, asks: impl AsyncFnOnce(Client) -> T) -> T {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let client = Client::connect(config(&self.behind)).await;
            asks(client.expect("it is there")).await
        })
    }
}

fn config(url: &str) -> ClientConfig {
    ClientConfig::new(url).expect("a URL")
}

#[derive(Debug, Clone)]
struct Service {
    lie: Lie,
    client: Client,
    writes: Arc<AtomicU64>,
}

impl Service {
    fn count_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Kv for Service {
    type RangeStreamStream = Streamed<pb::RangeStreamResponse>;

    async fn range(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<pb::RangeResponse>, Status> {
        let mut asked = request.into_inner();
        let is_list = !asked.range_end.is_empty() && !asked.count_only;
        let mut counted = None;
        match self.lie {
            Lie::OwnWords if asked.key.is_empty() => {
                return Err(Status::invalid_argument("no key"));
            }
            Lie::ServesFuture if asked.revision == i64::MAX => asked.revision = 0,
            Lie::CountBringsKeys => asked.count_only = false,
            Lie::NoLimit => asked.limit = 0,
            Lie::KeysWithValues => asked.keys_only = false,
            Lie::NoPast => asked.revision = 0,
            Lie::NoSort => asked.sort_order = 0,
            Lie::CountsAll if asked.revision > 0 && is_list => {
                let all = pb::RangeRequest {
                    key: b"\0"[..].into(),
                    range_end: b"\0"[..].into(),
                    count_only: true,
                    ..pb::RangeRequest::default()
                };
                counted = Some(self.client.kv().range(all).await?.into_inner().count);
            }
            _ => {}
        }
        let mut response = self.client.kv().range(asked.clone()).await?;
        let answer = response.get_mut();
        answer.count = counted.unwrap_or(answer.count);
        match self.lie {
            Lie::NoTerm => answer.header.iter_mut().for_each(|h| h.raft_term = 0),
            Lie::Swaps if is_list && answer.kvs.len() > 1 => answer.kvs.swap(0, 1),
            Lie::FirstVersion => answer.kvs.iter_mut().for_each(|kv| kv.version = 1),
            Lie::OffByOne if asked.count_only && asked.key.len() > 1 => answer.count += 1,
            _ => {}
        }
        Ok(response)
    }

    async fn range_stream(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let mut asked = request.into_inner();
        if self.lie == Lie::StreamSorts {
            asked.sort_order = 0;
        }
        let stream = self.client.kv().range_stream(asked).await?.into_inner();
        let lie = self.lie;
        let mut is_first = true;
        let stream = stream.map(move |message| {
            let mut message = message?;
            if let Some(answer) = &mut message.range_response {
                match lie {
                    Lie::StreamDrops if is_first && !answer.kvs.is_empty() => {
                        answer.kvs.remove(0);
                    }
                    Lie::StreamHeaders => {
                        answer.header.get_or_insert_default();
                    }
                    _ => {}
                }
            }
            is_first = false;
            Ok(message)
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn txn(
        &self,
        request: Request<pb::TxnRequest>,
    ) -> Result<Response<pb::TxnResponse>, Status> {
        self.count_write();
        let mut asked = request.into_inner();
        let expected = asked.compare.first();
        let expected = expected.and_then(|compare| compare.target_union.clone());
        let expected = match expected {
            Some(pb::compare::TargetUnion::ModRevision(revision)) => Some(revision),
            _ => None,
        };
        let mut deletes = asked.success.iter();
        let deletes = deletes.any(|op| matches!(op.request, Some(Op::RequestDeleteRange(_))));
        match self.lie {
            Lie::Overwrites if expected == Some(0) => asked.compare.clear(),
            Lie::TakesStale if expected > Some(0) => asked.compare.clear(),
            Lie::KeepsDeleted if deletes => {
                let mut response = self.client.kv().txn(pb::TxnRequest::default()).await?;
                response.get_mut().succeeded = true;
                return Ok(response);
            }
            Lie::WritesTwice => asked.success.dedup(),
            Lie::SplitsTxn if asked.success.len() > 1 => {
                for op in asked.success.split_off(1) {
                    let one = pb::TxnRequest {
                        success: vec![op],
                        ..pb::TxnRequest::default()
                    };
                    self.client.kv().txn(one).await?;
                }
            }
            _ => {}
        }
        let mut response = self.client.kv().txn(asked).await?;
        let answer = response.get_mut();
        match self.lie {
            Lie::DeniesCreate if expected == Some(0) => answer.succeeded = false,
            Lie::HidesConflict if !answer.succeeded => answer.responses.clear(),
            _ => {}
        }
        Ok(response)
    }

    async fn put(
        &self,
        request: Request<pb::PutRequest>,
    ) -> Result<Response<pb::PutResponse>, Status> {
        self.count_write();
        let mut asked = request.into_inner();
        match self.lie {
            Lie::PutHidesPrev => asked.prev_kv = false,
            Lie::AnyLease if asked.lease == 1 => asked.lease = 0,
            Lie::NoLease if asked.lease > 1 => asked.lease = 0,
            _ => {}
        }
        self.client.kv().put(asked).await
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        self.count_write();
        self.client.kv().delete_range(request.into_inner()).await
    }

    async fn compact(
        &self,
        _: Request<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        panic!("history is everybody's")
    }
}

#[tonic::async_trait]
impl Lease for Service {
    type LeaseKeepAliveStream = Streamed<pb::LeaseKeepAliveResponse>;

    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        self.count_write();
        self.client.lease().lease_grant(request.into_inner()).await
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        self.count_write();
        if self.lie == Lie::KeepsLeased {
            return Ok(Response::new(pb::LeaseRevokeResponse::default()));
        }
        self.client.lease().lease_revoke(request.into_inner()).await
    }

    async fn lease_keep_alive(
        &self,
        _: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn lease_time_to_live(
        &self,
        _: Request<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn lease_leases(
        &self,
        _: Request<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }
}

#[tonic::async_trait]
impl Watch for Service {
    type WatchStream = Streamed<pb::WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let lie = self.lie;
        let requests = request.into_inner().filter_map(Result::ok);
        let requests = requests.map(move |mut request| {
            if let Some(pb::watch_request::RequestUnion::CreateRequest(create)) =
                &mut request.request_union
            {
                match lie {
                    Lie::WatchFromStart if create.start_revision > 0 => create.start_revision = 1,
                    Lie::WatchHidesPrev => create.prev_kv = false,
                    _ => {}
                }
            }
            request
        });
        let responses = self.client.watch().watch(requests).await?.into_inner();
        let responses = responses.map(move |response| match response {
            Ok(response) => altered(lie, response).into_iter().map(Ok).collect(),
            Err(status) => vec![Err(status)],
        });
        let responses = responses.map(tokio_stream::iter);
        Ok(Response::new(Box::pin(flattened(responses))))
    }
}

/// Returns the elements of all parts, one after the other.
fn flattened<T: Send + 'static>(
    mut parts: impl Stream<Item = tokio_stream::Iter<std::vec::IntoIter<T>>> + Send + Unpin + 'static,
) -> impl Stream<Item = T> + Send {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(mut part) = parts.next().await {
            while let Some(one) = part.next().await {
                // The client may have ended the watch.
                sender.send(one).ok();
            }
        }
    });
    tokio_stream::wrappers::UnboundedReceiverStream::new(receiver)
}

/// Returns the responses that are sent instead of a watch response.
fn altered(lie: Lie, mut response: pb::WatchResponse) -> Vec<pb::WatchResponse> {
    let is_progress = response.events.is_empty() && !response.created && !response.canceled;
    match lie {
        Lie::NoProgress if is_progress => return Vec::new(),
        Lie::WatchDrops if !response.events.is_empty() => {
            response.events.remove(0);
        }
        Lie::TellsPut => {
            for event in &mut response.events {
                event.set_type(EventType::Put);
            }
        }
        Lie::WatchSplits => {
            let events = std::mem::take(&mut response.events);
            if events.len() > 1 {
                let one = |event| pb::WatchResponse {
                    events: vec![event],
                    ..response.clone()
                };
                return events.into_iter().map(one).collect();
            }
            response.events = events;
        }
        _ => {}
    }
    vec![response]
}

#[tonic::async_trait]
impl TellsStatus for Service {
    async fn status(&self, request: pb::StatusRequest) -> Result<pb::StatusResponse, Status> {
        let mut maintenance = self.client.maintenance();
        let mut response = maintenance.status(request).await?.into_inner();
        if self.lie == Lie::Development {
            response.version = "devel".to_owned();
        }
        Ok(response)
    }
}
