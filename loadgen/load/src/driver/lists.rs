//! Lists of one load that runs with other loads, in a closed loop or on a schedule.
//!
//! On a schedule, a list that is due while every client is busy waits for a client, and its latency
//! includes the wait. Lists that take longer than the schedule allows thus show as latency, not as
//! fewer lists.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use workloads::{Arrivals, GeneratorShard};

use super::alarm::{Alarm, Timer, until};
use super::closed::{Clients, Done, Job};
use crate::arrivals::Pace;
use crate::operation::list::attempts::Restarts;
use crate::record::{Class, Errors, LatencyHistogram, Live};

/// The largest number of lists that wait for a client. A target that exceeds it does not keep up
/// with the rate.
const MAX_WAITING: usize = 1_000;
/// How long outstanding lists may take after the last one was started.
const LIST_DRAIN_TIMEOUT: Duration = Duration::from_secs(120);

/// The results of the lists of a load.
#[derive(Debug, Default)]
pub struct ListTally {
    /// The time from the intended start (open loop) or the call (closed loop) to the end, checks
    /// included.
    pub latency: LatencyHistogram,
    /// The time from the call to the end; only in an open loop.
    pub service: LatencyHistogram,
    /// The time from the intended start to when the generator noticed it; only in an open loop.
    pub lag: LatencyHistogram,
    /// The time from the call to the first object, if lists are checked.
    pub first_object: LatencyHistogram,
    /// The longest time in each list in which no object arrived, after the first one, if lists are
    /// checked.
    pub longest_gap: LatencyHistogram,
    /// The number of lists that have ended, failed ones included.
    pub lists: u64,
    /// The number of lists that failed, or whose response was wrong.
    pub errors: u64,
    /// The reasons of the errors.
    pub reasons: Errors,
    /// The attempts that compaction interrupted, after which lists were restarted.
    pub restarts: Restarts,
    /// Bytes of the latest checked list: keys, values and envelopes.
    pub wire_bytes: u64,
    /// Set when so many lists waited that no more were started.
    pub overrun: bool,
    /// The time from the first list to the end of the last.
    pub elapsed: Duration,
}

/// When a load's lists start.
pub struct Starts {
    /// The intended starts, relative to the start of the run; `None` in a closed loop.
    schedule: Option<Box<dyn Iterator<Item = Duration> + Send>>,
    /// The time from the end of a client's list to its next one, in a closed loop.
    think: Duration,
}

/// Returns the starts of the schedule that belong to the `shard`: the lists of a load are numbered,
/// and a shard has every n-th.
#[must_use]
pub fn starts(pace: &Pace, seed: u64, shard: GeneratorShard) -> Starts {
    match pace {
        Pace::Closed { think, .. } => Starts {
            schedule: None,
            think: *think,
        },
        Pace::Open(profile) => Starts {
            schedule: Some(Box::new(shard.of(Arrivals::new(profile, seed, 0, 0, 1)))),
            think: Duration::ZERO,
        },
    }
}

/// Lists for `duration`, and waits for outstanding lists for at most 120 s. Starts no more when
/// `stop` is cancelled or a list has failed. A cancelled `stop` ends the run without waiting. `job`
/// is a checked or an unchecked list. Ended lists are counted in `live`.
///
/// # Errors
/// The system's error when it cannot create a timer for a schedule.
pub async fn run(
    clients: &Clients,
    job: Job,
    starts: Starts,
    duration: Duration,
    stop: &CancellationToken,
    live: &Live,
) -> io::Result<ListTally> {
    let ask = |client| clients.ask(client, job);
    run_with::<Alarm, _>(clients.count(), ask, starts, duration, stop, live).await
}

/// Runs with `clients` clients, each of which lists when `ask` is called. `T` is the timer of the
/// schedule.
async fn run_with<T: Timer, F: Future<Output = Done>>(
    clients: usize,
    ask: impl Fn(usize) -> F,
    starts: Starts,
    duration: Duration,
    stop: &CancellationToken,
    live: &Live,
) -> io::Result<ListTally> {
    let begun = Instant::now();
    let Starts { schedule, think } = starts;
    let mut schedule = Schedule::<T>::new(schedule, begun, duration)?;
    let mut idle: VecDeque<usize> = VecDeque::new();
    // Clients that think, and until when; the first is next. Their first lists are spread over one
    // think time.
    let first = |client: usize| begun + think.mul_f64(client as f64 / clients as f64);
    let mut thinking: VecDeque<(Instant, usize)> =
        (0..clients).map(|client| (first(client), client)).collect();
    let mut waiting: VecDeque<Instant> = VecDeque::new();
    let mut running = FuturesUnordered::new();
    let mut tally = ListTally::default();
    loop {
        if stop.is_cancelled() {
            // Clients cancel lists that are not awaited any more.
            break;
        }
        let ends = tally.overrun || tally.errors > 0;
        if ends {
            schedule.end();
            waiting.clear();
            thinking.clear();
        }
        while let Some((_, client)) = thinking.pop_front_if(|(until, _)| *until <= Instant::now()) {
            idle.push_back(client);
        }
        while !idle.is_empty() {
            let now = Instant::now();
            let intended = match waiting.pop_front() {
                Some(intended) => Some(intended),
                None if schedule.is_open() || ends || now >= begun + duration => None,
                None => Some(now),
            };
            let (Some(intended), Some(client)) = (intended, idle.front().copied()) else {
                break;
            };
            idle.pop_front();
            let done = ask(client);
            running.push(async move {
                let sent = Instant::now();
                (client, intended, sent, done.await)
            });
        }
        let next_thought = thinking.front().map(|(until, _)| *until);
        let next_thought = next_thought.filter(|until| *until < begun + duration);
        if running.is_empty() && schedule.is_over() && next_thought.is_none() {
            break;
        }
        let drains = schedule.is_over();
        tokio::select! {
            Some((client, intended, sent, done)) = running.next(), if !running.is_empty() => {
                match tally.ended(intended, sent, &done, schedule.is_open()) {
                    Some(latency) => live.ended(latency),
                    None => live.failed(1),
                }
                match think.is_zero() {
                    true => idle.push_back(client),
                    false => thinking.push_back((Instant::now() + think, client)),
                }
            }
            () = sleep_until(next_thought.unwrap_or(begun)), if next_thought.is_some() => {}
            due = schedule.next(), if !schedule.is_over() => {
                let due = due?;
                tally.lag.record(due.elapsed());
                waiting.push_back(due);
                tally.overrun |= waiting.len() >= MAX_WAITING;
            }
            () = stop.cancelled() => {}
            () = sleep_until(begun + duration + LIST_DRAIN_TIMEOUT), if drains => {
                let unanswered = (running.len() + waiting.len()) as u64;
                let text = format!("no end within {} s", LIST_DRAIN_TIMEOUT.as_secs());
                live.failed(unanswered);
                tally.unanswered(unanswered, text);
                break;
            }
        }
    }
    tally.elapsed = begun.elapsed();
    Ok(tally)
}

/// The schedule of the lists.
struct Schedule<T> {
    begun: Instant,
    until: Duration,
    open: Option<(T, Box<dyn Iterator<Item = Duration> + Send>)>,
    /// The next start, relative to `begun`; `None` if there is none.
    due: Option<Duration>,
}

impl<T: Timer> Schedule<T> {
    fn new(
        starts: Option<Box<dyn Iterator<Item = Duration> + Send>>,
        begun: Instant,
        until: Duration,
    ) -> io::Result<Self> {
        let open = match starts {
            Some(starts) => Some((T::new()?, starts)),
            None => None,
        };
        let mut schedule = Self {
            begun,
            until,
            open,
            due: None,
        };
        schedule.advance();
        Ok(schedule)
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns whether nothing more will be due.
    fn is_over(&self) -> bool {
        self.due.is_none()
    }

    fn end(&mut self) {
        self.due = None;
    }

    fn advance(&mut self) {
        let next = self.open.as_mut().and_then(|(_, starts)| starts.next());
        self.due = next.filter(|due| *due < self.until);
    }

    /// Waits for the next intended start. Cancel-safe.
    async fn next(&mut self) -> io::Result<Instant> {
        let (Some((timer, _)), Some(due)) = (&mut self.open, self.due) else {
            return pending().await;
        };
        let due = self.begun + due;
        until(timer, due).await?;
        self.advance();
        Ok(due)
    }
}

impl ListTally {
    /// Records a list that has ended. Returns its latency, or `None` if it failed.
    fn ended(
        &mut self,
        intended: Instant,
        sent: Instant,
        done: &Done,
        is_open: bool,
    ) -> Option<Duration> {
        self.lists += 1;
        self.restarts.count += done.restarts.count;
        self.restarts.time += done.restarts.time;
        match &done.result {
            Ok(listed) => {
                // A caller waits for the interrupted attempts, too.
                let service = done.restarts.time + done.latency;
                let waited = sent.saturating_duration_since(intended);
                let latency = waited + service;
                self.latency.record(latency);
                if is_open {
                    self.service.record(service);
                }
                if let Some(first) = done.objects.first() {
                    self.first_object.record(first);
                }
                if let Some(gap) = done.objects.longest_gap() {
                    self.longest_gap.record(gap);
                }
                if let Some((listed, _)) = listed {
                    self.wire_bytes = listed.wire_bytes;
                }
                Some(latency)
            }
            Err(error) => {
                self.errors += 1;
                self.reasons.add(1, error.class(), error.to_string());
                None
            }
        }
    }

    fn unanswered(&mut self, count: u64, text: String) {
        self.lists += count;
        self.errors += count;
        self.reasons.add(count, Class::TimedOut, text);
    }
}

#[cfg(test)]
mod tests;
