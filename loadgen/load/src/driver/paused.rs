//! A timer and a server on tokio's paused clock (`tokio::time::pause`), which show the effect of a
//! stall on latencies without waiting for one.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep, sleep_until};
use workloads::SmallRequest;

use super::alarm::Timer;
use super::closed::Done;
use crate::operation::list::ObjectTimes;
use crate::operation::list::attempts::Restarts;
use crate::operation::own_keys::OwnKeys;
use crate::operation::request_api::{CompletedRequest, RequestApi};
use crate::operation::requests::{CallError, Checked, PlannedRequest};
use crate::record::LatencyHistogram;

/// The server's service time of a request.
const SERVICE: Duration = Duration::from_millis(1);

/// Returns how many values are longer than `ms`.
pub(super) fn longer_than(times: &LatencyHistogram, ms: u64) -> u64 {
    let limit_ns = ms * 1_000_000;
    let histogram = times.histogram_ns();
    // Values that the histogram cannot distinguish count as one.
    let above = histogram.highest_equivalent(limit_ns) + 1;
    histogram.count_between(above, u64::MAX)
}

/// The runtime's own timer, which follows the paused clock.
pub(super) struct JumpingTimer {
    sleep: Pin<Box<Sleep>>,
    is_set: bool,
}

impl Timer for JumpingTimer {
    fn new() -> io::Result<Self> {
        Ok(Self {
            sleep: Box::pin(sleep(Duration::ZERO)),
            is_set: false,
        })
    }

    fn set(&mut self, wait: Duration) -> io::Result<()> {
        self.sleep.as_mut().reset(Instant::now() + wait);
        self.is_set = true;
        Ok(())
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_set {
            return Poll::Pending;
        }
        ready!(self.sleep.as_mut().poll(cx));
        self.is_set = false;
        Poll::Ready(Ok(()))
    }
}

/// A server that takes [`SERVICE`] for a request, with any number of requests at the same time.
/// Requests that arrive during a stall are begun when it is over.
pub(super) struct StallingServer {
    begun: Instant,
    stall: Range<Duration>,
    /// The number of requests after which a connection goes away.
    most_of_a_connection: u64,
}

impl StallingServer {
    /// Returns a server that stalls once, `after` so long from now.
    pub(super) fn new(after: Duration, stall: Duration) -> Self {
        Self {
            begun: Instant::now(),
            stall: after..after + stall,
            most_of_a_connection: u64::MAX,
        }
    }

    /// Returns a server that never stalls, and whose connections go away after `after` requests:
    /// they accept no more, and respond to those that they have.
    pub(super) fn going_away(after: u64) -> Self {
        Self {
            most_of_a_connection: after,
            ..Self::new(Duration::MAX / 4, Duration::ZERO)
        }
    }

    /// Returns when a request that arrives now gets its response.
    fn answers_at(&self) -> Instant {
        let now = Instant::now();
        let begins = match self.stall.contains(&(now - self.begun)) {
            true => self.begun + self.stall.end,
            false => now,
        };
        begins + SERVICE
    }

    /// Lists as a client does.
    pub(super) async fn list(&self) -> Done {
        let called = Instant::now();
        sleep_until(self.answers_at()).await;
        Done {
            latency: called.elapsed(),
            objects: ObjectTimes::default(),
            cpu: Duration::ZERO,
            memory: None,
            restarts: Restarts::default(),
            program: None,
            result: Ok(None),
        }
    }
}

/// The outstanding requests of a connection, the one with the next response at the front.
#[derive(Default)]
pub(super) struct Connection {
    outstanding: VecDeque<(Instant, u64)>,
    taken: u64,
    /// Whether the connection has refused a request.
    going_away: bool,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// A response.
pub(super) struct Response {
    token: u64,
    received: Instant,
}

impl CompletedRequest for Response {
    fn token(&self) -> u64 {
        self.token
    }

    fn received(&self) -> std::time::Instant {
        self.received.into_std()
    }
}

impl RequestApi for StallingServer {
    type Connection = Connection;
    type Error = &'static str;
    type CompletedRequest<'a> = Response;

    fn seed(&self) -> u64 {
        1
    }

    fn is_mixed(&self) -> bool {
        false
    }

    fn keeps_writes(&self) -> bool {
        false
    }

    fn operation(&self, n: u64, _: &mut OwnKeys) -> PlannedRequest {
        PlannedRequest::Object {
            request: SmallRequest::Get,
            object: 0,
            at_least: 0,
            n,
        }
    }

    fn send(
        &self,
        connection: &mut Connection,
        _: PlannedRequest,
        _: u64,
        token: u64,
    ) -> Result<(), &'static str> {
        if connection.taken == self.most_of_a_connection {
            connection.going_away = true;
            return Err("takes no more requests");
        }
        connection.taken += 1;
        connection.outstanding.push_back((self.answers_at(), token));
        Ok(())
    }

    fn poll_completions(
        connection: &mut Connection,
        cx: &mut Context<'_>,
        on: &mut impl FnMut(Response),
    ) -> Poll<Result<(), &'static str>> {
        let Some(&(received, token)) = connection.outstanding.front() else {
            return match connection.going_away {
                true => Poll::Ready(Err("has gone away")),
                false => Poll::Pending,
            };
        };
        let sleep = connection
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(received)));
        ready!(sleep.as_mut().poll(cx));
        connection.sleep = None;
        connection.outstanding.pop_front();
        on(Response { token, received });
        Poll::Ready(Ok(()))
    }

    fn check(&self, _: PlannedRequest, _: u64, _: Response) -> Result<Checked, CallError> {
        Ok(Checked::default())
    }

    async fn reconnect(connection: &mut Connection) -> Result<(), &'static str> {
        *connection = Connection::default();
        Ok(())
    }
}
