//! Requests in turn to the endpoints of a cluster that are connected.
//!
//! tonic's own balancer counts an endpoint that refuses connections as ready, and each request that
//! it gives to it fails: a third of all requests while one of three members is down. Here a member
//! whose connection fails is left out until it has accepted another, as in gRPC's other
//! implementations, so that its death costs the requests that were under way there, and
//! those sent until the first of them has failed.

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

/// Pauses before attempts to reach a member that is left out: each twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The connections of a client. Clones share them.
#[derive(Debug, Clone)]
pub enum Connections {
    /// To its only endpoint.
    One(Channel),
    /// To several, one each.
    Several(Arc<Members>),
}

/// The endpoints of a cluster.
#[derive(Debug)]
pub struct Members {
    members: Vec<Member>,
    /// Counts requests, which go round.
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
    /// How many there were before: a request that fails late leaves no later one out.
    number: u64,
    /// `None` while the member is left out.
    channel: Option<Channel>,
}

impl Members {
    /// Returns the members at these endpoints, of which number `connected` has this channel; the
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

    /// Returns the next member that is connected, and the number of its connection; where none is,
    /// the next one, for an attempt.
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

    /// Leaves a member out until it can be reached again, where a request failed on the connection
    /// of this number.
    fn leave_out(self: &Arc<Self>, nth: usize, number: u64) {
        // Of several requests that fail there the first connects again.
        let is_first = {
            let mut connection = self.members[nth].connection.lock();
            connection.number == number && connection.channel.take().is_some()
        };
        if is_first {
            self.connect(nth);
        }
    }

    /// Connects a member in the background, as long as the client is there.
    fn connect(self: &Arc<Self>, nth: usize) {
        let endpoint = self.members[nth].endpoint.clone();
        let members = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut pause = FIRST_PAUSE;
            while Weak::strong_count(&members) > 0 {
                if let Ok(channel) = endpoint.connect().await {
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
                        members.leave_out(nth, number);
                    }
                    response
                }))
            }
        }
    }
}
