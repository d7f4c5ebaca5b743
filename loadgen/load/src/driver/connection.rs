//! One connection's share of a run of small requests: sends them when they are due and records
//! their outcomes.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use workloads::Arrivals;

use super::open_clock::NextDue;
use super::run::{AcknowledgedWrite, DRAIN_TIMEOUT, Run, Tally};
use crate::arrivals::Pace;
use crate::operation::own_keys::OwnKeys;
use crate::operation::request_api::{CompletedRequest as _, RequestApi};
use crate::operation::requests::{CallError, Checked, PlannedRequest};
use crate::record::{Class, Live};

/// The largest number of outstanding requests on one connection. A target that exceeds it does not
/// keep up with the rate, and more requests would only fill memory.
const MAX_OUTSTANDING: usize = 20_000;

/// How often a transaction is retried whose key had changed. If many clients write the same key,
/// each of them succeeds only rarely.
const MAX_RETRIES: u32 = 10_000;

/// The range of operation numbers reserved for one run: the plan of a run does not depend on how
/// many operations earlier runs completed.
const OPERATIONS_OF_A_RUN: u64 = 1 << 40;

/// The first delay before reconnecting. It doubles up to [`MAX_BACKOFF`].
const INITIAL_BACKOFF: Duration = Duration::from_millis(10);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// How long reconnecting is tried before the server is considered gone.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit of one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The prefix of the error of a request that was due while there was no connection, and was never
/// sent.
const NOT_SENT: &str = "not sent: no connection";

/// What permits the next request to be sent.
enum Source {
    /// A closed loop.
    Closed {
        /// The number of clients that may send.
        idle: u32,
        think: Duration,
        /// When clients that think may send again, from the start of the run; the first is next.
        thinking: VecDeque<Duration>,
    },
    /// An open loop: the schedule and its next due time.
    Open { arrivals: Arrivals, due: Duration },
}

impl Source {
    fn of(pace: &Pace, seed: u64, slot: ConnectionSlot) -> Self {
        let ConnectionSlot {
            connection,
            connections,
            run_number,
        } = slot;
        match pace {
            Pace::Closed { clients, think } => {
                let clients = u64::from(*clients);
                let one_more = u64::from(connection < clients % connections);
                let share = clients / connections + one_more;
                // Clients that all began at once would go on sending at once.
                let first_send = |client: u64| {
                    let number = connection + client * connections;
                    think.mul_f64(number as f64 / clients as f64)
                };
                let (idle, thinking) = match think.is_zero() {
                    true => (share as u32, VecDeque::new()),
                    false => (0, (0..share).map(first_send).collect()),
                };
                Self::Closed {
                    idle,
                    think: *think,
                    thinking,
                }
            }
            Pace::Open(profile) => {
                let mut arrivals =
                    Arrivals::new(profile, seed, run_number, connection, connections);
                let due = arrivals.next().unwrap_or(Duration::MAX);
                Self::Open { arrivals, due }
            }
        }
    }
}

/// A request that waits for its response. Its index in `outstanding` is its token.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    planned: PlannedRequest,
    /// How often the request was sent again because its key had changed.
    retries: u32,
    intended: Duration,
    sent: Duration,
}

/// The position of a connection among those of a load. Its arrivals and the numbers of its
/// operations are derived from that alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionSlot {
    /// The connection's number among those of the load.
    pub(super) connection: u64,
    /// The number of connections of the load, including those of other generators.
    pub(super) connections: u64,
    /// The run's number among the runs over the same connections.
    pub(super) run_number: u64,
}

/// One connection's share of a run.
pub(super) struct Driver<'a, R> {
    calls: &'a R,
    begun: Instant,
    until: Duration,
    stop: &'a CancellationToken,
    /// Set when responses are not awaited any more. The connection is woken then.
    given_up: &'a Cell<bool>,
    next_operation: u64,
    operation_stride: u64,
    /// The connection's number among all connections of all runs of these clients, which makes the
    /// names of its own keys unique.
    number: u64,
    own_keys: OwnKeys,
    outstanding: Vec<Outstanding>,
    /// Indexes of `outstanding` that can be reused.
    free: Vec<u64>,
    /// Indexes of requests to be sent again: transactions whose key had changed, and requests that
    /// could not be sent.
    retry_queue: Vec<u64>,
    /// When the connection was last re-established. Requests that were due before then are late
    /// because there was no connection, not because of the generator.
    connected_at: Duration,
    /// The delay before the next attempt to reconnect. A successful response resets it.
    reconnect_after: Duration,
    tally: Tally,
    counters: &'a Live,
    source: Source,
    next_due: &'a NextDue,
}

impl<'a, R: RequestApi> Driver<'a, R> {
    /// Returns a share that has sent nothing. Sets the first due time in `next_due`, so that a
    /// clock that starts afterwards does not sleep past it.
    pub(super) fn new(
        calls: &'a R,
        run: &'a Run,
        slot: ConnectionSlot,
        begun: Instant,
        given_up: &'a Cell<bool>,
        next_due: &'a NextDue,
    ) -> Self {
        let source = Source::of(&run.pace, calls.seed(), slot);
        if let Source::Open { due, .. } = &source {
            next_due.set_due(Some(*due));
        }
        Self {
            calls,
            begun,
            until: run.duration,
            stop: &run.stop,
            given_up,
            // Connections number their operations round-robin, so that no two send the same
            // operation.
            next_operation: slot.run_number * OPERATIONS_OF_A_RUN + slot.connection,
            operation_stride: slot.connections,
            number: slot.run_number * slot.connections + slot.connection,
            own_keys: OwnKeys::default(),
            outstanding: Vec::new(),
            free: Vec::new(),
            retry_queue: Vec::new(),
            connected_at: Duration::ZERO,
            reconnect_after: INITIAL_BACKOFF,
            tally: Tally::default(),
            counters: &run.live,
            source,
            next_due,
        }
    }

    /// Sends requests and receives responses until nothing more is due and nothing is outstanding,
    /// or until the run gives up on responses. Re-establishes a lost connection. Requests that are
    /// due meanwhile are sent afterwards, and their latency includes the wait.
    pub(super) async fn drive(mut self, connection: &mut R::Connection) -> Tally {
        while let Err(error) = poll_fn(|cx| self.poll(connection, cx)).await {
            // The clock need not wake a sender that has no connection.
            self.next_due.set_due(None);
            if !self.reconnected(connection).await {
                self.never_sent(&error);
                break;
            }
        }
        self.next_due.set_due(None);
        self.tally
    }

    /// Polls until everything is done or the connection has ended. In the latter case, the
    /// outstanding requests have been counted as failed.
    fn poll(
        &mut self,
        connection: &mut R::Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), R::Error>> {
        self.next_due.register(cx.waker());
        loop {
            if self.given_up.get() {
                self.give_up();
                return Poll::Ready(Ok(()));
            }
            // A connection that accepts no more requests still delivers the responses to those that
            // it has, and then returns an error.
            let sent = self.send_due(connection);
            if sent.is_ok() && self.is_over() && self.in_flight() == 0 {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_responses(connection, cx))?;
        }
    }

    /// Reconnects with growing delays. Returns false if there is nothing more to send, if the run
    /// has ended, or after [`RECONNECT_TIMEOUT`].
    async fn reconnected(&mut self, connection: &mut R::Connection) -> bool {
        let lost_at = Instant::now();
        while !self.stop.is_cancelled()
            && !self.given_up.get()
            && self.has_more_to_send()
            && lost_at.elapsed() < RECONNECT_TIMEOUT
        {
            tokio::select! {
                () = sleep(self.reconnect_after) => {}
                () = self.stop.cancelled() => return false,
            }
            self.reconnect_after = (2 * self.reconnect_after).min(MAX_BACKOFF);
            if let Ok(Ok(())) = timeout(CONNECT_TIMEOUT, R::reconnect(connection)).await {
                self.connected_at = self.begun.elapsed();
                return true;
            }
        }
        false
    }

    /// Returns whether the schedule or a client has another request in this run.
    fn has_more_to_send(&self) -> bool {
        !self.retry_queue.is_empty() || !self.is_over()
    }

    /// Counts as failed what was due or begun and has no connection to be sent on.
    fn never_sent(&mut self, error: &R::Error) {
        let mut unsent = self.in_flight() as u64;
        let now = self.begun.elapsed();
        if let Source::Open { arrivals, due } = &mut self.source {
            while *due < self.until.min(now) {
                unsent += 1;
                *due = arrivals.next().unwrap_or(Duration::MAX);
            }
        }
        if unsent > 0 {
            self.counters.failed(unsent);
            let text = format!("{NOT_SENT}: {error}");
            self.tally.failed(unsent, Class::Disconnected, text);
        }
    }

    fn send_due(&mut self, connection: &mut R::Connection) -> Result<(), R::Error> {
        while let Some(&token) = self.retry_queue.last() {
            let planned = self.outstanding[token as usize].planned;
            if let Err(error) = self.calls.send(connection, planned, self.number, token) {
                // Without a connection, nothing is due.
                self.next_due.set_due(None);
                return Err(error);
            }
            self.retry_queue.pop();
        }
        loop {
            if self.is_over() {
                self.next_due.set_due(None);
                return Ok(());
            }
            let now = self.begun.elapsed();
            let intended = match &mut self.source {
                Source::Closed { idle, thinking, .. } => {
                    while thinking.pop_front_if(|until| *until <= now).is_some() {
                        *idle += 1;
                    }
                    if *idle == 0 {
                        self.next_due.set_due(thinking.front().copied());
                        return Ok(());
                    }
                    *idle -= 1;
                    now
                }
                Source::Open { due, .. } if *due > now => {
                    self.next_due.set_due(Some(*due));
                    return Ok(());
                }
                Source::Open { arrivals, due } => {
                    let intended = *due;
                    *due = arrivals.next().unwrap_or(Duration::MAX);
                    if intended >= self.connected_at {
                        self.tally.lag.record(now.saturating_sub(intended));
                    }
                    intended
                }
            };
            let request = Outstanding {
                planned: self
                    .calls
                    .operation(self.next_operation, &mut self.own_keys),
                retries: 0,
                intended,
                // With a connection, the request would have been sent in time.
                sent: if intended < self.connected_at {
                    intended
                } else {
                    now
                },
            };
            self.next_operation += self.operation_stride;
            let token = match self.free.pop() {
                Some(token) => {
                    self.outstanding[token as usize] = request;
                    token
                }
                None => {
                    self.outstanding.push(request);
                    self.outstanding.len() as u64 - 1
                }
            };
            let planned = request.planned;
            if let Err(error) = self.calls.send(connection, planned, self.number, token) {
                self.retry_queue.push(token);
                self.next_due.set_due(None);
                return Err(error);
            }
            self.tally.overrun |= self.in_flight() >= MAX_OUTSTANDING;
        }
    }

    /// Receives responses. Returns ready when a request has ended, or with the error that ended the
    /// connection.
    fn poll_responses(
        &mut self,
        connection: &mut R::Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), R::Error>> {
        R::poll_completions(connection, cx, &mut |completed| self.complete(completed))
    }

    /// Checks the response of a request that has ended. Records the outcome, or queues the request
    /// to be sent again.
    fn complete(&mut self, completed: R::CompletedRequest<'_>) {
        let token = completed.token();
        let received = completed.received();
        let received = received.saturating_duration_since(self.begun.into_std());
        self.tally.throttled += u64::from(completed.throttled());
        let request = self.outstanding[token as usize];
        let checked = match self.calls.check(request.planned, self.number, completed) {
            Ok(Checked { conflict: true, .. }) => match self.settle_conflict(token) {
                Ok(()) => return,
                Err(contended) => Err(contended),
            },
            checked => checked,
        };
        self.free.push(token);
        match &mut self.source {
            Source::Closed { idle, think, .. } if think.is_zero() => *idle += 1,
            Source::Closed {
                think, thinking, ..
            } => thinking.push_back(received + *think),
            Source::Open { .. } => {}
        }
        match checked {
            Ok(checked) => self.record_success(&request, checked, received),
            Err(error) => self.record_failure(&request, &error),
        }
    }

    /// Queues a request whose key had changed, to be sent again.
    ///
    /// # Errors
    /// [`CallError::Contended`] if it was sent again [`MAX_RETRIES`] times already.
    fn settle_conflict(&mut self, token: u64) -> Result<(), CallError> {
        let request = &mut self.outstanding[token as usize];
        self.tally.conflicts += 1;
        if self.calls.is_mixed() {
            self.tally.kind(request.planned.request()).conflicts += 1;
        }
        let retries = request.retries;
        if retries >= MAX_RETRIES {
            return Err(CallError::Contended { retries });
        }
        request.retries += 1;
        self.retry_queue.push(token);
        Ok(())
    }

    fn record_success(&mut self, request: &Outstanding, checked: Checked, received: Duration) {
        self.tally.requests += 1;
        self.reconnect_after = INITIAL_BACKOFF;
        let latency = received.saturating_sub(request.intended);
        self.tally.latency.record(latency);
        self.counters.ended(latency);
        if matches!(self.source, Source::Open { .. }) {
            let service = received.saturating_sub(request.sent);
            self.tally.service.record(service);
        }
        if self.calls.is_mixed() {
            self.tally.kind(request.planned.request()).ended(latency);
        }
        if let (PlannedRequest::Own(key), Some(revision)) = (request.planned, checked.created_at) {
            self.own_keys.made(key, revision);
        }
        if let (true, Some(revision)) = (self.calls.keeps_writes(), checked.rewritten_at) {
            self.tally.writes.push(AcknowledgedWrite {
                revision,
                intended: self.begun.into_std() + request.intended,
            });
        }
    }

    fn record_failure(&mut self, request: &Outstanding, error: &CallError) {
        if self.calls.is_mixed() {
            self.tally.kind(request.planned.request()).failed();
        }
        self.counters.failed(1);
        self.tally.failed(1, error.class(), error.to_string());
    }

    /// Returns whether no more requests are to be sent.
    fn is_over(&self) -> bool {
        let out_of_time = match &self.source {
            Source::Closed { .. } => self.begun.elapsed() >= self.until,
            // Decided by the schedule, not by the clock: every request that was due is sent,
            // however late.
            Source::Open { due, .. } => *due >= self.until,
        };
        out_of_time || self.tally.overrun || self.stop.is_cancelled()
    }

    fn in_flight(&self) -> usize {
        self.outstanding.len() - self.free.len()
    }

    /// Counts the requests without a response as failed.
    fn give_up(&mut self) {
        let unanswered = self.in_flight() as u64;
        if unanswered > 0 {
            let text = format!("no response within {} s", DRAIN_TIMEOUT.as_secs());
            self.counters.failed(unanswered);
            self.tally.failed(unanswered, Class::TimedOut, text);
        }
    }
}
