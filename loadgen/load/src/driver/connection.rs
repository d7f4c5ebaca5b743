//! One connection's share of a run of small requests: what it sends when, and what became of it.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use workloads::Arrivals;

use super::open_clock::NextDue;
use super::run::{DRAIN_WITHIN, Run, Tally, Written};
use crate::arrivals::Pace;
use crate::operation::own_keys::OwnKeys;
use crate::operation::request_api::{Answer as _, RequestApi};
use crate::operation::requests::{CallError, PlannedRequest};
use crate::record::{Class, Live};

/// Requests without an answer on one connection, at most: beyond this the target does not keep the
/// rate, and only memory fills.
const OUTSTANDING: usize = 20_000;

/// How often a transaction is sent again whose key had changed: many clients that want the same key
/// are each let through once in a while only.
const MOST_RETRIES: u32 = 10_000;

/// Numbers of operations that a run has to itself: the plan of a run does not depend on how many
/// operations earlier ones ended.
const OPERATIONS_OF_A_RUN: u64 = 1 << 40;

/// How long to wait before the first and between the later attempts to connect again.
const RECONNECT_AFTER: Duration = Duration::from_millis(10);
const RECONNECT_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// A server that is away for so long is gone.
const RECONNECTED_WITHIN: Duration = Duration::from_secs(30);
/// How long one attempt may take.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
/// How the error of a request begins that was due while there was no connection, until the end.
const NOT_SENT: &str = "not sent: no connection";

/// What allows a request to be sent.
enum Source {
    /// Clients without an outstanding request.
    Closed { idle: u32 },
    /// The schedule, and its next time.
    Open { arrivals: Arrivals, due: Duration },
}

impl Source {
    fn of(pace: &Pace, seed: u64, place: Place) -> Self {
        let Place {
            number,
            connections,
            part,
        } = place;
        match pace {
            Pace::Closed { clients } => {
                let clients = u64::from(*clients);
                let share = clients / connections + u64::from(number < clients % connections);
                Self::Closed { idle: share as u32 }
            }
            Pace::Open(profile) => {
                let mut arrivals = Arrivals::new(profile, seed, part, number, connections);
                let due = arrivals.next().unwrap_or(Duration::MAX);
                Self::Open { arrivals, due }
            }
        }
    }
}

/// A request that waits for its answer; its token is its place.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    planned: PlannedRequest,
    /// How often it was sent again, since its key had changed.
    retries: u32,
    intended: Duration,
    sent: Duration,
}

/// Which of a load's connections this is. Its arrivals, and the numbers of its operations, follow
/// from that alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its number among them.
    pub(super) number: u64,
    /// How many they are, with those that other generators have.
    pub(super) connections: u64,
    /// The run's number among those of the same connections.
    pub(super) part: u64,
}

/// One connection's share of a run.
pub(super) struct Driver<'a, R> {
    calls: &'a R,
    begun: Instant,
    until: Duration,
    stop: &'a CancellationToken,
    /// Set when nobody waits for answers any longer; the connection is woken then.
    given_up: &'a Cell<bool>,
    next: u64,
    step: u64,
    /// Its number among all connections of all runs of these clients: what its own keys are told
    /// apart by.
    number: u64,
    own_keys: OwnKeys,
    outstanding: Vec<Outstanding>,
    /// Places of `outstanding` that can be used again.
    free: Vec<u64>,
    /// Places of requests that are to be sent again: transactions whose key had changed, and what
    /// could not be sent.
    again: Vec<u64>,
    /// What was due before this was due while there was no connection: that it was late is not the
    /// generator's.
    connected_at: Duration,
    /// How long to wait before the next attempt to connect again; short once there was a response.
    reconnect_after: Duration,
    tally: Tally,
    live: &'a Live,
    source: Source,
    next_due: &'a NextDue,
}

impl<'a, R: RequestApi> Driver<'a, R> {
    /// Returns a share that has sent nothing. When its first request is due stands in `next_due`
    /// from now on: a clock that starts after this sleeps no longer than until then.
    pub(super) fn new(
        calls: &'a R,
        run: &'a Run,
        place: Place,
        begun: Instant,
        given_up: &'a Cell<bool>,
        next_due: &'a NextDue,
    ) -> Self {
        let source = Source::of(&run.pace, calls.seed(), place);
        if let Source::Open { due, .. } = &source {
            next_due.set_due(Some(*due));
        }
        Self {
            calls,
            begun,
            until: run.duration,
            stop: &run.stop,
            given_up,
            // Connections take turns in numbering, so that no two send the same operation.
            next: place.part * OPERATIONS_OF_A_RUN + place.number,
            step: place.connections,
            number: place.part * place.connections + place.number,
            own_keys: OwnKeys::default(),
            outstanding: Vec::new(),
            free: Vec::new(),
            again: Vec::new(),
            connected_at: Duration::ZERO,
            reconnect_after: RECONNECT_AFTER,
            tally: Tally::default(),
            live: &run.live,
            source,
            next_due,
        }
    }

    /// Sends and takes answers until nothing more will be sent and nothing is outstanding, or until
    /// nobody waits any longer. A connection that is lost is opened again; what comes due meanwhile
    /// is sent then, and its time runs.
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

    /// Polls until all is over, or the connection has ended: what was outstanding on it has been
    /// counted as failed then.
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
            // A connection that takes no more requests still answers those that it has, and says
            // when that is done.
            let sent = self.send_due(connection);
            if sent.is_ok() && self.is_over() && self.in_flight() == 0 {
                return Poll::Ready(Ok(()));
            }
            ready!(self.take(connection, cx))?;
        }
    }

    /// Connects again, each time later; false when there is nothing more to send, or nobody waits.
    async fn reconnected(&mut self, connection: &mut R::Connection) -> bool {
        let lost_at = Instant::now();
        while !self.stop.is_cancelled()
            && !self.given_up.get()
            && self.has_more_to_send()
            && lost_at.elapsed() < RECONNECTED_WITHIN
        {
            tokio::select! {
                () = sleep(self.reconnect_after) => {}
                () = self.stop.cancelled() => return false,
            }
            self.reconnect_after = (2 * self.reconnect_after).min(RECONNECT_AT_MOST_EVERY);
            if let Ok(Ok(())) = timeout(CONNECTED_WITHIN, R::reconnect(connection)).await {
                self.connected_at = self.begun.elapsed();
                return true;
            }
        }
        false
    }

    /// Returns whether the schedule, or a client, has another request in this run.
    fn has_more_to_send(&self) -> bool {
        !self.again.is_empty() || !self.is_over()
    }

    /// Counts what was due, or begun, and has no connection to be sent on.
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
            self.live.failed(unsent);
            let text = format!("{NOT_SENT}: {error}");
            self.tally.failed(unsent, Class::Disconnected, text);
        }
    }

    fn send_due(&mut self, connection: &mut R::Connection) -> Result<(), R::Error> {
        while let Some(&token) = self.again.last() {
            let planned = self.outstanding[token as usize].planned;
            self.calls.send(connection, planned, self.number, token)?;
            self.again.pop();
        }
        loop {
            if self.is_over() {
                self.next_due.set_due(None);
                return Ok(());
            }
            let now = self.begun.elapsed();
            let intended = match &mut self.source {
                Source::Closed { idle: 0 } => return Ok(()),
                Source::Closed { idle } => {
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
                planned: self.calls.operation(self.next, &mut self.own_keys),
                retries: 0,
                intended,
                // Without a connection, it would have been sent in time.
                sent: if intended < self.connected_at {
                    intended
                } else {
                    now
                },
            };
            self.next += self.step;
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
                self.again.push(token);
                return Err(error);
            }
            self.tally.overrun |= self.in_flight() >= OUTSTANDING;
        }
    }

    fn take(
        &mut self,
        connection: &mut R::Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), R::Error>> {
        let Self {
            calls,
            begun,
            outstanding,
            free,
            tally,
            live,
            again,
            source,
            number,
            own_keys,
            reconnect_after,
            ..
        } = self;
        R::poll_answers(connection, cx, &mut |done| {
            let token = done.token();
            let received = done.received().saturating_duration_since(begun.into_std());
            tally.throttled += u64::from(done.throttled());
            let request = &mut outstanding[token as usize];
            let kind = request.planned.request();
            let mut checked = calls.check(request.planned, *number, done);
            if checked.as_ref().is_ok_and(|checked| checked.conflict) {
                tally.conflicts += 1;
                if calls.is_mixed() {
                    tally.kind(kind).conflicts += 1;
                }
                if request.retries < MOST_RETRIES {
                    request.retries += 1;
                    return again.push(token);
                }
                checked = Err(CallError::Contended);
            }
            free.push(token);
            let is_open = match source {
                Source::Closed { idle } => {
                    *idle += 1;
                    false
                }
                Source::Open { .. } => true,
            };
            let checked = match checked {
                Ok(checked) => checked,
                Err(error) => {
                    if calls.is_mixed() {
                        tally.kind(kind).failed();
                    }
                    live.failed(1);
                    return tally.failed(1, error.class(), error.to_string());
                }
            };
            tally.requests += 1;
            *reconnect_after = RECONNECT_AFTER;
            let latency = received.saturating_sub(request.intended);
            tally.latency.record(latency);
            live.ended(latency);
            if is_open {
                let service = received.saturating_sub(request.sent);
                tally.service.record(service);
            }
            if calls.is_mixed() {
                tally.kind(kind).ended(latency);
            }
            if let (PlannedRequest::Own(key), Some(revision)) =
                (request.planned, checked.created_at)
            {
                own_keys.made(key, revision);
            }
            if let (true, Some(revision)) = (calls.keeps_writes(), checked.rewritten_at) {
                tally.writes.push(Written {
                    revision,
                    intended: begun.into_std() + request.intended,
                });
            }
        })
    }

    /// Returns whether nothing more is to be sent.
    fn is_over(&self) -> bool {
        let out_of_time = match &self.source {
            Source::Closed { .. } => self.begun.elapsed() >= self.until,
            // By the schedule, not by the clock: what was due is sent, however late.
            Source::Open { due, .. } => *due >= self.until,
        };
        out_of_time || self.tally.overrun || self.stop.is_cancelled()
    }

    fn in_flight(&self) -> usize {
        self.outstanding.len() - self.free.len()
    }

    /// Counts what was never answered.
    fn give_up(&mut self) {
        let unanswered = self.in_flight() as u64;
        if unanswered > 0 {
            let text = format!("no answer within {} s", DRAIN_WITHIN.as_secs());
            self.live.failed(unanswered);
            self.tally.failed(unanswered, Class::Unanswered, text);
        }
    }
}
