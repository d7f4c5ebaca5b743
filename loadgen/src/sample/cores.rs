//! How far apart the cores are: the time in which a cache line goes from one to another and back.
//!
//! A virtual machine's host may run two virtual CPUs on cores that share a cache at one moment and on cores that do not at the
//! next; whatever goes from core to core, each page of a list among it, is slower then (docs/performance.md, "Where a list's CPU
//! goes").

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use tokio::sync::oneshot;

/// The calling thread, where the kernel asks for a process.
const SELF: Pid = Pid::from_raw(0);
/// Round trips that are timed together, and how many such times are taken: the shortest counts, since any of them may have been
/// interrupted.
const TRIPS: u64 = 100;
const BATCHES: u64 = 5;
/// How often a thread looks for the other's answer before it lets others run: some 50 µs.
const SPINS: u32 = 1_000;
/// Of more cores it cannot be said on which of them the processes of a run were.
const MOST_CORES: usize = 8;
/// How long a look holds. Hosts move cores for tenths of a second and longer.
const HOLDS_FOR: Duration = Duration::from_millis(50);

/// Why it cannot be told how far apart the cores are.
#[derive(Debug, thiserror::Error)]
pub enum CoresError {
    /// There is no distance, or too many.
    #[error("{0} cores may be used; between 2 and {MOST_CORES} can be told apart")]
    Number(usize),
    /// The kernel does not say which cores may be used.
    #[error("which cores may be used: {0}")]
    Unknown(nix::Error),
    /// The kernel does not keep a thread on a core.
    #[error("a thread cannot be kept on core {core}: {source}")]
    Pin {
        /// The core.
        core: usize,
        /// What the kernel said.
        source: nix::Error,
    },
    /// A thread cannot be started.
    #[error("a thread on a core: {0}")]
    Thread(std::io::Error),
}

/// Round trips between the first core and the one that was farthest from it when somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrips {
    /// The shortest of all looks.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
}

impl RoundTrips {
    fn of(one: Duration) -> Self {
        Self {
            shortest: one,
            longest: one,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            shortest: self.shortest.min(other.shortest),
            longest: self.longest.max(other.longest),
        }
    }
}

/// A thread on each core that may be used, at rest until somebody asks. Dropping it ends them.
///
/// A look takes both cores for 30 µs where they share a cache and 150 µs where they do not.
#[derive(Debug)]
pub struct CoreDistance {
    asked: Sender<Question>,
}

#[derive(Debug)]
enum Question {
    /// Look, and go on looking every so often where that is wanted.
    Watch(Option<Duration>, oneshot::Sender<()>),
    /// Look once more, and say what was seen since.
    Seen(oneshot::Sender<RoundTrips>),
}

impl CoreDistance {
    /// Starts the threads.
    ///
    /// # Errors
    /// With one core, with more than eight, and where the kernel does not keep threads on cores: see [`CoresError`].
    pub fn start() -> Result<Self, CoresError> {
        let allowed = sched_getaffinity(SELF).map_err(CoresError::Unknown)?;
        let cores: Vec<usize> = (0..CpuSet::count())
            .filter(|&core| allowed.is_set(core).unwrap_or(false))
            .collect();
        let (&first, others) = match cores.split_first() {
            Some((first, others)) if (2..=MOST_CORES).contains(&cores.len()) => (first, others),
            _ => return Err(CoresError::Number(cores.len())),
        };
        let others: Result<Vec<_>, _> = others.iter().map(|&core| Other::start(core)).collect();
        let others = others?;
        let (asked, questions) = channel();
        // Its end is the others' end: nobody waits for it.
        let _ends_by_itself = pinned(first, move || Looks::new(others).answer(&questions))?;
        Ok(Self { asked })
    }

    /// Looks now, and with `every` so often until asked what was [`seen`](Self::seen). `None` when the threads have ended.
    pub async fn watch(&self, every: Option<Duration>) -> Option<()> {
        let (done, is_done) = oneshot::channel();
        self.asked.send(Question::Watch(every, done)).ok()?;
        is_done.await.ok()
    }

    /// Looks once more and answers what was seen since [`watch`](Self::watch). `None` when the threads have ended.
    pub async fn seen(&self) -> Option<RoundTrips> {
        let (seen, answer) = oneshot::channel();
        self.asked.send(Question::Seen(seen)).ok()?;
        answer.await.ok()
    }
}

/// What the first core's thread keeps.
struct Looks {
    others: Vec<Other>,
    latest: Option<(Instant, Duration)>,
    since: Option<RoundTrips>,
    every: Option<Duration>,
}

impl Looks {
    fn new(others: Vec<Other>) -> Self {
        Self {
            others,
            latest: None,
            since: None,
            every: None,
        }
    }

    fn answer(mut self, questions: &Receiver<Question>) {
        loop {
            let question = match self.every {
                Some(every) => questions.recv_timeout(every),
                None => questions.recv().map_err(RecvTimeoutError::from),
            };
            match question {
                Ok(Question::Watch(every, done)) => {
                    self.since = None;
                    self.every = every;
                    self.look();
                    done.send(()).ok();
                }
                Ok(Question::Seen(answer)) => {
                    self.every = None;
                    let seen = self.look();
                    answer.send(seen).ok();
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// What was seen since watching began, this look included.
    fn look(&mut self) -> RoundTrips {
        let latest = self.latest.filter(|(at, _)| at.elapsed() < HOLDS_FOR);
        let farthest = latest.map_or_else(|| self.farthest(), |(_, farthest)| farthest);
        let now = RoundTrips::of(farthest);
        let seen = self.since.map_or(now, |since| since.and(now));
        self.since = Some(seen);
        seen
    }

    fn farthest(&mut self) -> Duration {
        let each = self.others.iter().map(|other| other.pair.round_trip());
        let farthest = each.max().unwrap_or_default();
        self.latest = Some((Instant::now(), farthest));
        farthest
    }
}

/// The thread of one of the other cores.
#[derive(Debug)]
struct Other {
    pair: Arc<Pair>,
    thread: Option<JoinHandle<()>>,
}

impl Other {
    fn start(core: usize) -> Result<Self, CoresError> {
        let pair = Arc::new(Pair::default());
        let thread = pinned(core, {
            let pair = Arc::clone(&pair);
            move || pair.echo()
        })?;
        Ok(Self {
            pair,
            thread: Some(thread),
        })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.pair.end();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Starts a thread that stays on one core.
fn pinned(core: usize, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, CoresError> {
    let (pinned, is_pinned) = channel();
    let thread = thread::Builder::new()
        .name(format!("core-{core}"))
        .spawn(move || {
            let outcome = pin(core);
            let stays = outcome.is_ok();
            pinned.send(outcome).ok();
            if stays {
                work();
            }
        })
        .map_err(CoresError::Thread)?;
    match is_pinned.recv() {
        Ok(Err(source)) => Err(CoresError::Pin { core, source }),
        Ok(Ok(())) | Err(_) => Ok(thread),
    }
}

/// Keeps the calling thread on one core.
fn pin(core: usize) -> nix::Result<()> {
    let mut only = CpuSet::new();
    only.set(core)?;
    sched_setaffinity(SELF, &only)
}

/// Two threads that write one cache line by turns: an odd number goes there, the next even one comes back.
#[derive(Debug)]
struct Pair {
    line: Line,
    start: Barrier,
    is_over: AtomicBool,
}

/// A cache line by itself, and the one that processors fetch with it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Default for Pair {
    fn default() -> Self {
        Self {
            line: Line::default(),
            start: Barrier::new(2),
            is_over: AtomicBool::new(false),
        }
    }
}

impl Pair {
    fn round_trip(&self) -> Duration {
        self.start.wait();
        let mut shortest = Duration::MAX;
        let mut trip = 0;
        for _ in 0..BATCHES {
            let started = Instant::now();
            for _ in 0..TRIPS {
                trip += 1;
                self.line.put(2 * trip - 1);
                self.line.wait_for(2 * trip);
            }
            shortest = shortest.min(started.elapsed());
        }
        // As it was before the first.
        self.line.put(0);
        shortest / u32::try_from(TRIPS).unwrap_or(u32::MAX)
    }

    fn echo(&self) {
        loop {
            self.start.wait();
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            for trip in 1..=BATCHES * TRIPS {
                self.line.wait_for(2 * trip - 1);
                self.line.put(2 * trip);
            }
        }
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.start.wait();
    }
}

impl Line {
    fn put(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    fn wait_for(&self, value: u64) {
        let mut spins = 0;
        while self.0.load(Ordering::Acquire) != value {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                // The other thread does not run: whoever has work to do shall have this core meanwhile.
                thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Option<Duration> = Some(Duration::from_secs(60));

    #[tokio::test]
    async fn a_line_comes_back_and_a_look_holds_for_a_while() {
        let distance = match CoreDistance::start() {
            Ok(distance) => distance,
            // What else this machine may be: one core, or many.
            Err(CoresError::Number(cores)) => {
                assert!(!(2..=MOST_CORES).contains(&cores));
                return;
            }
            Err(error) => panic!("{error}"),
        };
        distance.watch(EVERY).await.expect("the threads are there");
        let seen = distance.seen().await.expect("the threads are there");
        assert!(seen.shortest > Duration::ZERO);
        assert_eq!(seen.shortest, seen.longest, "the second look was the first");
    }

    #[test]
    fn what_was_seen_since_is_the_shortest_and_the_longest() {
        let mut looks = Looks::new(Vec::new());
        let took = |looks: &mut Looks, ns| {
            looks.latest = Some((Instant::now(), Duration::from_nanos(ns)));
            looks.look()
        };
        took(&mut looks, 62);
        took(&mut looks, 305);
        let seen = took(&mut looks, 64);
        assert_eq!(seen.shortest, Duration::from_nanos(62));
        assert_eq!(seen.longest, Duration::from_nanos(305));
    }
}
