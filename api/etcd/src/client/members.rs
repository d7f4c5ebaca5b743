//! Distributes requests in turn over the endpoints of a cluster that are connected.
//!
//! tonic's own balancer treats an endpoint that refuses connections as ready, and each request that
//! it sends there fails: a third of all requests while one of three members is down. Here, a member
//! whose connection fails receives no requests until it has answered on another one, as in other
//! implementations of gRPC, which wait for a server's HTTP/2 settings. The death of a member thus
//! fails only the requests that it was processing, and those sent to it until the first of them has
//! failed. An accepted connection is not enough: a load balancer accepts on behalf of a member that
//! is down.

use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, Either};
use parking_lot::Mutex;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::channel::ResponseFuture;
use tonic::transport::{Channel, Endpoint, Error};

use super::config::{chain, no_response};
use crate::proto::health::HealthCheckRequest;
use crate::proto::health::health_client::HealthClient;

/// Pauses between attempts to connect to an excluded member; each is twice as long as the one
/// before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The connections of a client. Clones share them.
#[derive(Debug, Clone)]
pub enum Connections {
    /// A connection to the only endpoint.
    One(Channel),
    /// Connections to several endpoints, one each.
    Several(Arc<Members>),
}

/// The endpoints of a cluster.
#[derive(Debug)]
pub struct Members {
    members: Vec<Member>,
    /// Number of requests so far, for the round robin.
    next: AtomicUsize,
}

#[derive(Debug)]
struct Member {
    endpoint: Endpoint,
    connection: Mutex<Connection>,
}

/// A member's connection.
#[derive(Debug, Default)]
struct Connection {
    /// Number of preceding connections, so that a late failure of a request on an old connection
    /// does not exclude the member again.
    number: u64,
    /// `None` while the member is excluded.
    channel: Option<Channel>,
}

impl Members {
    /// Returns the members at these endpoints. The one at index `connected` uses this channel; the
    /// others are connected in the background.
    pub(super) fn new(endpoints: Vec<Endpoint>, connected: usize, channel: &Channel) -> Arc<Self> {
        let members = endpoints.into_iter().enumerate();
        let members = members.map(|(nth, endpoint)| Member {
            endpoint,
            connection: Mutex::new(Connection {
                number: 0,
                channel: (nth == connected).then(|| channel.clone()),
            }),
        });
        let members = Arc::new(Self {
            members: members.collect(),
            next: AtomicUsize::new(connected),
        });
        for nth in (0..members.members.len()).filter(|nth| *nth != connected) {
            members.connect(nth);
        }
        members
    }

    /// Returns the next connected member, with the number of its connection. If none is connected,
    /// returns the next member with a new channel that connects on use.
    fn pick(&self) -> (usize, u64, Channel) {
        let count = self.members.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed) % count;
        let mut others = (first..first + count).map(|nth| nth % count);
        let connected = others.find_map(|nth| {
            let connection = self.members[nth].connection.lock();
            let channel = connection.channel.clone();
            channel.map(|channel| (nth, connection.number, channel))
        });
        let lazy = || {
            let member = &self.members[first];
            let number = member.connection.lock().number;
            (first, number, member.endpoint.connect_lazy())
        };
        connected.unwrap_or_else(lazy)
    }

    /// Excludes a member until it can be reached again, because a request failed on the connection
    /// with this number.
    fn exclude(self: &Arc<Self>, nth: usize, number: u64) {
        // If several requests fail on it, only the first starts a new connection.
        let is_first = {
            let mut connection = self.members[nth].connection.lock();
            connection.number == number && connection.channel.take().is_some()
        };
        if is_first {
            self.connect(nth);
        }
    }

    /// Connects a member in the background, retrying as long as the client exists.
    fn connect(self: &Arc<Self>, nth: usize) {
        let endpoint = self.members[nth].endpoint.clone();
        let members = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut pause = FIRST_PAUSE;
            while Weak::strong_count(&members) > 0 {
                if let Ok(channel) = until_answered(&endpoint).await {
                    if let Some(members) = members.upgrade() {
                        let mut connection = members.members[nth].connection.lock();
                        connection.number += 1;
                        connection.channel = Some(channel);
                    }
                    return;
                }
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        });
    }
}

/// Connects to a member and waits for a response from it, within its connect timeout: any, as old
/// etcds and proxies do not implement health checks.
///
/// # Errors
/// The reason why there is no connection or no response, as text.
pub(super) async fn until_answered(endpoint: &Endpoint) -> Result<Channel, String> {
    let connected = async {
        let channel = endpoint.connect().await.map_err(|error| chain(&error))?;
        let mut health = HealthClient::new(channel.clone());
        match health.check(HealthCheckRequest::default()).await {
            // A status that has a source does not come from a response.
            Err(status) if status.source().is_some() => Err(chain(&status)),
            _ => Ok(channel),
        }
    };
    let Some(within) = endpoint.get_connect_timeout() else {
        return connected.await;
    };
    let in_time = tokio::time::timeout(within, connected).await;
    in_time.unwrap_or_else(|_| Err(no_response(within)))
}

impl Service<http::Request<Body>> for Connections {
    type Response = http::Response<Body>;
    type Error = Error;
    type Future = Either<ResponseFuture, BoxFuture<'static, Result<Self::Response, Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self {
            Self::One(channel) => channel.poll_ready(context),
            Self::Several(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self {
            Self::One(channel) => Either::Left(channel.call(request)),
            Self::Several(members) => {
                let members = Arc::clone(members);
                Either::Right(Box::pin(async move {
                    let (nth, number, mut channel) = members.pick();
                    let sent = async {
                        std::future::poll_fn(|context| channel.poll_ready(context)).await?;
                        channel.call(request).await
                    };
                    let response = sent.await;
                    if response.is_err() {
                        members.exclude(nth, number);
                    }
                    response
                }))
            }
        }
    }
}
