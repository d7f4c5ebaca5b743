//! Keep-alives against a server that counts streams and forgets a lease after a number of
//! keep-alives.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use etcd_api::proto::etcdserverpb::lease_server::{Lease, LeaseServer};
use etcd_api::proto::etcdserverpb::{
    LeaseGrantResponse, LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response};
use workloads::GeneratorShard;

use super::*;
use crate::arrivals::Pace;
use crate::driver::calls::RequestClients;
use crate::driver::open_clock::Waiting;
use crate::driver::run::Tally;

/// The requests that a server received.
#[derive(Debug, Default)]
struct Seen {
    grants: AtomicU64,
    streams: AtomicU64,
    keep_alives: AtomicU64,
    /// How many keep-alives still find their lease.
    found: AtomicI64,
}

struct Counting(Arc<Seen>);

#[tonic::async_trait]
impl Lease for Counting {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        self.0.grants.fetch_add(1, Ordering::SeqCst);
        let LeaseGrantRequest { id, ttl } = *request.get_ref();
        Ok(Response::new(LeaseGrantResponse {
            id,
            ttl,
            ..LeaseGrantResponse::default()
        }))
    }

    type LeaseKeepAliveStream = BoxStream<'static, Result<LeaseKeepAliveResponse, Status>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        self.0.streams.fetch_add(1, Ordering::SeqCst);
        let seen = Arc::clone(&self.0);
        let responses = request.into_inner().map(move |request| {
            let id = request?.id;
            seen.keep_alives.fetch_add(1, Ordering::SeqCst);
            let is_found = seen.found.fetch_sub(1, Ordering::SeqCst) > 0;
            Ok(LeaseKeepAliveResponse {
                id,
                ttl: if is_found { TTL_S } else { 0 },
                ..LeaseKeepAliveResponse::default()
            })
        });
        Ok(Response::new(responses.boxed()))
    }

    async fn lease_revoke(
        &self,
        _: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn lease_time_to_live(
        &self,
        _: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn lease_leases(
        &self,
        _: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

/// Runs three clients over two connections against a server that finds a lease `found` times.
/// Returns the tally, what the server saw, and the recorded leases.
async fn kept_alive(found: i64) -> (Tally, Arc<Seen>, Vec<i64>) {
    let seen = Arc::new(Seen::default());
    seen.found.store(found, Ordering::SeqCst);
    let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = incoming.local_addr().expect("it is bound");
    let service = LeaseServer::new(Counting(Arc::clone(&seen)));
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(incoming));

    let config = ClientConfig::new(&address.to_string()).expect("an address");
    let leases: Arc<GrantedLeases> = Arc::default();
    let keep_alives = KeepAlives {
        seed: 1,
        own_root: "/created/case/load/".to_owned(),
        leases: Some(Arc::clone(&leases)),
    };
    let shard = GeneratorShard::WHOLE;
    let callers =
        RequestClients::connect_keep_alives(&config, 2, shard, keep_alives, Waiting::Sleep);
    let callers = callers.await.expect("it grants and keeps alive");
    let pace = Pace::closed(3);
    let stop = CancellationToken::new();
    let tally = callers.run(pace, Duration::from_millis(100), &stop).await;
    (tally, seen, leases.take())
}

#[tokio::test]
async fn all_keep_alives_of_a_connection_share_a_stream() {
    let (tally, seen, leases) = kept_alive(i64::MAX).await;
    assert!(tally.requests > 3, "{tally:?}");
    assert_eq!(tally.errors, 0, "{:?}", tally.reasons);
    assert_eq!(tally.latency.n(), tally.requests);
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    assert_eq!((count(&seen.grants), count(&seen.streams)), (2, 2));
    // One of each connection before the load.
    assert_eq!(count(&seen.keep_alives), tally.requests + 2);
    assert_eq!(leases.len(), 2, "each connection has a lease of its own");
}

#[tokio::test]
async fn a_lease_that_is_gone_is_an_error() {
    let (tally, ..) = kept_alive(2 + 10).await;
    assert_eq!(tally.requests - tally.errors, 10, "{:?}", tally.reasons);
    assert!(tally.errors > 0);
    let texts = tally.reasons.most_frequent(10);
    assert!(
        texts.iter().all(|text| text.contains("lease-keep-alive")),
        "{texts:?}"
    );
}
