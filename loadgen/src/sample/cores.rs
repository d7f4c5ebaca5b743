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
use tokio::time::timeout;

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
/// How long an answer may take: a look needs both of its cores at once, and has them within some time slices of the others.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

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
    /// A thread is not there any more.
    #[error("a core's thread has ended")]
    Ended,
    /// A look does not come to its end.
    #[error("a look at the cores took more than {ANSWERS_WITHIN:?}")]
    Late,
}

/// A thread on each core that may be used, at rest until somebody watches. Dropping it ends them.
///
/// A look takes the first core and each other one for 30 µs where they share a cache and 150 µs where they do not. Its result is
/// the longest of these ways: how far the others are from each other is not known.
#[derive(Debug)]
pub struct CoreDistance {
    asked: Sender<Question>,
    watches: AtomicU64,
}

/// Looks that go on until it is asked what was [`seen`](Self::seen), or it is dropped.
#[derive(Debug)]
pub struct Watch {
    asked: Sender<Question>,
    number: u64,
}

#[derive(Debug)]
enum Question {
    /// Look, and go on looking every so often where that is wanted.
    Watch {
        number: u64,
        every: Option<Duration>,
        done: oneshot::Sender<()>,
    },
    /// Look once more, and say what all looks found.
    Seen(oneshot::Sender<Vec<Duration>>),
    /// Nobody wants to know what the watch of this number finds.
    Rest(u64),
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
        let farthest = move || {
            let each = others.iter().map(|other| other.pair.round_trip());
            each.max().unwrap_or_default()
        };
        let (asked, questions) = channel();
        // Its end is the others' end: nobody waits for it.
        let _ends_by_itself = pinned(first, move || Looks::new(farthest).answer(&questions))?;
        Ok(Self {
            asked,
            watches: AtomicU64::new(0),
        })
    }

    /// Looks now, and with `every` so often from now on. There is one watch at a time: a new one ends the one before it.
    ///
    /// # Errors
    /// [`CoresError::Ended`] and [`CoresError::Late`].
    pub async fn watch(&self, every: Option<Duration>) -> Result<Watch, CoresError> {
        let watch = Watch {
            asked: self.asked.clone(),
            number: self.watches.fetch_add(1, Ordering::Relaxed),
        };
        let number = watch.number;
        let question = |done| Question::Watch {
            number,
            every,
            done,
        };
        answer(&self.asked, question).await?;
        Ok(watch)
    }
}

impl Watch {
    /// Looks once more and answers how long a round trip took at each look, in their order: two of them at least. Memory is 16
    /// bytes a look.
    ///
    /// # Errors
    /// [`CoresError::Ended`] and [`CoresError::Late`].
    pub async fn seen(self) -> Result<Vec<Duration>, CoresError> {
        answer(&self.asked, Question::Seen).await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Without a thread there is nothing to end.
        self.asked.send(Question::Rest(self.number)).ok();
    }
}

async fn answer<T>(
    asked: &Sender<Question>,
    question: impl FnOnce(oneshot::Sender<T>) -> Question,
) -> Result<T, CoresError> {
    let (sender, answer) = oneshot::channel();
    let sent = asked.send(question(sender));
    sent.map_err(|_| CoresError::Ended)?;
    let answer = timeout(ANSWERS_WITHIN, answer).await;
    answer
        .map_err(|_| CoresError::Late)?
        .map_err(|_| CoresError::Ended)
}

/// What the first core's thread keeps; `look` takes the time of a round trip.
struct Looks<L> {
    look: L,
    seen: Vec<Duration>,
    watch: u64,
    every: Option<Duration>,
}

impl<L: FnMut() -> Duration> Looks<L> {
    fn new(look: L) -> Self {
        Self {
            look,
            seen: Vec::new(),
            watch: 0,
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
                Ok(question) => self.take(question),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, question: Question) {
        match question {
            Question::Watch {
                number,
                every,
                done,
            } => {
                self.watch = number;
                self.every = every;
                self.seen.clear();
                self.look();
                done.send(()).ok();
            }
            Question::Seen(answer) => {
                self.every = None;
                self.look();
                answer.send(std::mem::take(&mut self.seen)).ok();
            }
            Question::Rest(number) if number == self.watch => self.every = None,
            // Another one has begun.
            Question::Rest(_) => {}
        }
    }

    fn look(&mut self) {
        let took = (self.look)();
        self.seen.push(took);
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
        Ok(Ok(())) => Ok(thread),
        Ok(Err(source)) => Err(CoresError::Pin { core, source }),
        Err(_) => Err(CoresError::Ended),
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
    async fn a_line_comes_back() {
        let distance = match CoreDistance::start() {
            Ok(distance) => distance,
            // What else this machine may be: one core, or many.
            Err(CoresError::Number(cores)) => {
                assert!(!(2..=MOST_CORES).contains(&cores));
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let watch = distance.watch(EVERY).await.expect("the threads are there");
        let seen = watch.seen().await.expect("the threads are there");
        assert_eq!(seen.len(), 2, "right before and right after");
        assert!(seen.iter().all(|&took| took > Duration::ZERO), "{seen:?}");
    }

    /// Each look takes a nanosecond longer than the one before it.
    fn counting() -> Looks<impl FnMut() -> Duration> {
        let mut looks = 0;
        Looks::new(move || {
            looks += 1;
            Duration::from_nanos(looks)
        })
    }

    fn ask<T>(
        looks: &mut Looks<impl FnMut() -> Duration>,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> T {
        let (sender, mut answer) = oneshot::channel();
        looks.take(question(sender));
        answer.try_recv().expect("an answer")
    }

    fn watch(number: u64, every: Option<Duration>) -> impl FnOnce(oneshot::Sender<()>) -> Question {
        move |done| Question::Watch {
            number,
            every,
            done,
        }
    }

    #[test]
    fn every_look_of_a_watch_is_seen_and_none_of_another() {
        let mut looks = counting();
        ask(&mut looks, watch(0, EVERY));
        assert_eq!(looks.every, EVERY);
        looks.look();
        ask(&mut looks, watch(1, EVERY));
        looks.look();
        let seen = ask(&mut looks, Question::Seen);
        assert_eq!(seen, [3, 4, 5].map(Duration::from_nanos));
        assert_eq!(looks.every, None, "the watch has ended");
        assert!(looks.seen.is_empty());
    }

    #[test]
    fn a_watch_that_is_dropped_looks_no_more_and_ends_no_other() {
        let (asked, questions) = channel();
        let first = Watch { asked, number: 0 };
        let second = Watch {
            asked: first.asked.clone(),
            number: 1,
        };
        let mut looks = counting();
        ask(&mut looks, watch(0, EVERY));
        ask(&mut looks, watch(1, EVERY));
        drop(first);
        looks.take(questions.try_recv().expect("word of its end"));
        assert_eq!(looks.every, EVERY);
        drop(second);
        looks.take(questions.try_recv().expect("word of its end"));
        assert_eq!(looks.every, None);
    }

    /// The thread itself: it looks without being asked.
    #[test]
    fn while_watched_it_looks_again_and_again() {
        let (asked, questions) = channel();
        let (looked, looks) = channel();
        let thread = thread::spawn(move || {
            let look = move || {
                looked.send(()).ok();
                Duration::from_nanos(60)
            };
            Looks::new(look).answer(&questions);
        });
        let (done, _is_done) = oneshot::channel();
        let every = Some(Duration::from_millis(1));
        asked.send(watch(0, every)(done)).expect("a thread");
        for _ in 0..3 {
            let look = looks.recv_timeout(ANSWERS_WITHIN);
            look.expect("a look that nobody asked for");
        }
        drop(asked);
        thread.join().expect("it ends with the last who could ask");
    }
}
