//! Keep-alives of leases on one stream per connection, as etcd's client sends those of all its
//! leases.
//!
//! Each connection is granted one lease when it is opened. The responses of a stream arrive in the
//! order of its requests. The latency ends when this client's stream has delivered the response,
//! which is some microseconds after its bytes were read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
};
use futures::Stream as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, Streaming};
use workloads::SmallRequest;

use super::leases::GrantedLeases;
use super::own_keys::{OwnKey, OwnKeys};
use super::own_requests::{TTL_S, lease};
use super::request_api::{CompletedRequest, RequestApi};
use super::requests::{CallError, Checked, PlannedRequest};

/// The keep-alives of one load.
#[derive(Debug, Clone)]
pub struct KeepAlives {
    /// The seed from which arrivals are derived.
    pub seed: u64,
    /// The prefix from which the ids of its leases are derived.
    pub own_root: String,
    /// Where granted leases are recorded, if the endpoint outlives the run.
    pub leases: Option<Arc<GrantedLeases>>,
}

/// A connection with its lease and its stream.
#[derive(Debug)]
pub(crate) struct KeepAliveStream {
    client: Client,
    id: i64,
    requests: mpsc::UnboundedSender<LeaseKeepAliveRequest>,
    responses: Streaming<LeaseKeepAliveResponse>,
    /// The tokens of the requests without a response, in order.
    outstanding: VecDeque<u64>,
}

/// A request that has ended, with its response or error.
#[derive(Debug)]
pub(crate) struct KeptAlive {
    token: u64,
    received: Instant,
    response: Result<LeaseKeepAliveResponse, EtcdError>,
}

impl CompletedRequest for KeptAlive {
    fn token(&self) -> u64 {
        self.token
    }

    fn received(&self) -> Instant {
        self.received
    }
}

impl KeepAlives {
    /// Opens connection `number`, with a lease of its own.
    ///
    /// # Errors
    /// The error when the target cannot be reached or refuses.
    pub(crate) async fn connect(
        &self,
        mut config: ClientConfig,
        number: u32,
    ) -> Result<KeepAliveStream, EtcdError> {
        // Only one connection, instead of one to each member.
        config.endpoints.truncate(1);
        let id = lease(&format!("{}{number}/", self.own_root), 0);
        let client = Client::connect(config).await?;
        if let Some(leases) = &self.leases {
            leases.granted(id);
        }
        let grant = LeaseGrantRequest { ttl: TTL_S, id };
        client.lease().lease_grant(grant).await?;
        KeepAliveStream::open(client, id).await
    }
}

impl KeepAliveStream {
    /// Opens a stream, sends one keep-alive and waits for its response, because a server sends
    /// nothing before the first request. Fails if the response does not confirm the lease.
    async fn open(client: Client, id: i64) -> Result<Self, EtcdError> {
        let (requests, sent) = mpsc::unbounded_channel();
        requests.send(LeaseKeepAliveRequest { id }).ok();
        let mut lease = client.lease();
        let opened = lease.lease_keep_alive(UnboundedReceiverStream::new(sent));
        let mut responses = opened.await?.into_inner();
        let first = responses.message().await?;
        match first.is_some_and(|first| first.id == id && first.ttl > 0) {
            true => Ok(Self {
                client,
                id,
                requests,
                responses,
                outstanding: VecDeque::new(),
            }),
            false => Err(EtcdError::Protocol(
                "a lease that was granted is not kept alive".to_owned(),
            )),
        }
    }
}

impl RequestApi for KeepAlives {
    type Connection = KeepAliveStream;
    type Error = EtcdError;
    type CompletedRequest<'a> = KeptAlive;

    fn seed(&self) -> u64 {
        self.seed
    }

    fn is_mixed(&self) -> bool {
        false
    }

    fn keeps_writes(&self) -> bool {
        false
    }

    fn operation(&self, _: u64, _: &mut OwnKeys) -> PlannedRequest {
        PlannedRequest::Own(OwnKey {
            request: SmallRequest::LeaseKeepAlive,
            number: 0,
            count: 1,
            revision: 1,
        })
    }

    fn send(
        &self,
        connection: &mut KeepAliveStream,
        _: PlannedRequest,
        _: u64,
        token: u64,
    ) -> Result<(), EtcdError> {
        let request = LeaseKeepAliveRequest { id: connection.id };
        connection.requests.send(request).map_err(|_| ended())?;
        connection.outstanding.push_back(token);
        Ok(())
    }

    fn poll_completions(
        connection: &mut KeepAliveStream,
        cx: &mut Context<'_>,
        on: &mut impl FnMut(KeptAlive),
    ) -> Poll<Result<(), EtcdError>> {
        let next = ready!(Pin::new(&mut connection.responses).poll_next(cx));
        let received = Instant::now();
        let status = match next {
            Some(Ok(response)) => {
                let Some(token) = connection.outstanding.pop_front() else {
                    let text = "a response to a keep-alive that was not sent".to_owned();
                    return Poll::Ready(Err(EtcdError::Protocol(text)));
                };
                on(KeptAlive {
                    token,
                    received,
                    response: Ok(response),
                });
                return Poll::Ready(Ok(()));
            }
            Some(Err(status)) => status,
            None => Status::new(Code::Unavailable, "the stream has ended"),
        };
        for token in connection.outstanding.drain(..) {
            on(KeptAlive {
                token,
                received,
                response: Err(status.clone().into()),
            });
        }
        Poll::Ready(Err(status.into()))
    }

    fn check(
        &self,
        _: PlannedRequest,
        connection_number: u64,
        completion: KeptAlive,
    ) -> Result<Checked, CallError> {
        let response = completion.response?;
        match response.ttl > 0 {
            true => Ok(Checked::default()),
            false => Err(CallError::Refused {
                request: SmallRequest::LeaseKeepAlive,
                key: format!("{}{connection_number}/", self.own_root),
                found: 0,
            }),
        }
    }

    async fn reconnect(connection: &mut KeepAliveStream) -> Result<(), EtcdError> {
        let client = connection.client.clone();
        *connection = KeepAliveStream::open(client, connection.id).await?;
        Ok(())
    }
}

/// Returns the error of a stream that accepts no more requests.
fn ended() -> EtcdError {
    Status::new(Code::Unavailable, "the stream has ended").into()
}

#[cfg(test)]
mod tests;
