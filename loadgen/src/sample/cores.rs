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
/// How long a look stands for what is there: hosts move cores for tenths of a second and longer.
const STANDS_FOR: Duration = Duration::from_millis(50);
/// How long an answer may take: a look needs both of its cores at once, and has them within some time slices of the others.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Why it cannot be told how far apart the cores are.
#[derive(Debug, thiserror::Error)]
pub enum CoresError {
    /// There is no distance, or too many.
    #[error("this program may use {0} of the cores; from 2 to {MOST_CORES} can be told apart")]
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
    /// A thread is not there any more, or another watch has begun.
    #[error("nobody looks at the cores any more")]
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
    /// Look once more, and say what all looks of the watch of this number found.
    Seen {
        number: u64,
        answer: oneshot::Sender<Vec<Duration>>,
    },
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

    /// Looks now, and with `every` so often from now on. There is one watch at a time: a new one ends the one before it. As in
    /// [`Watch::seen`], a look less than 50 ms old is taken for one of now.
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
    /// Looks once more and answers how long a round trip took at each look, in their order: two of them at least. Where a look is
    /// less than 50 ms old it is taken for this one, so that watches that follow each other fast cost few. Memory is 16 bytes a
    /// look.
    ///
    /// # Errors
    /// [`CoresError::Ended`] and [`CoresError::Late`].
    pub async fn seen(self) -> Result<Vec<Duration>, CoresError> {
        let number = self.number;
        answer(&self.asked, |answer| Question::Seen { number, answer }).await
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
    latest: Option<(Instant, Duration)>,
    seen: Vec<Duration>,
    watch: u64,
    every: Option<Duration>,
}

impl<L: FnMut() -> Duration> Looks<L> {
    fn new(look: L) -> Self {
        Self {
            look,
            latest: None,
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
            let now = Instant::now();
            match question {
                Ok(question) => self.take(question, now),
                Err(RecvTimeoutError::Timeout) => self.look(now),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, question: Question, now: Instant) {
        match question {
            Question::Watch {
                number,
                every,
                done,
            } => {
                self.watch = number;
                self.every = every;
                self.seen.clear();
                self.look(now);
                done.send(()).ok();
            }
            Question::Seen { number, answer } if number == self.watch => {
                self.every = None;
                self.look(now);
                answer.send(std::mem::take(&mut self.seen)).ok();
            }
            // Another one has begun: whoever asks hears that nobody answers.
            Question::Seen { .. } => {}
            Question::Rest(number) if number == self.watch => self.every = None,
            // Another one has begun.
            Question::Rest(_) => {}
        }
    }

    fn look(&mut self, now: Instant) {
        let latest = self
            .latest
            .filter(|(at, _)| now.duration_since(*at) < STANDS_FOR);
        let (at, took) = latest.unwrap_or_else(|| (now, (self.look)()));
        self.latest = Some((at, took));
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
        assert_eq!(seen.len(), 2, "before and after");
        assert!(seen.iter().all(|&took| took > Duration::ZERO), "{seen:?}");
    }

    /// Looks that each take a nanosecond longer than the one before, asked at times that the test says.
    struct Scripted<L> {
        looks: Looks<L>,
        now: Instant,
    }

    fn counting() -> Scripted<impl FnMut() -> Duration> {
        let mut looks = 0;
        let look = move || {
            looks += 1;
            Duration::from_nanos(looks)
        };
        Scripted {
            looks: Looks::new(look),
            now: Instant::now(),
        }
    }

    impl<L: FnMut() -> Duration> Scripted<L> {
        fn after(&mut self, time: Duration) -> &mut Self {
            self.now += time;
            self
        }

        /// What it answers; `None` where it does not.
        fn ask<T>(&mut self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
            let (sender, mut answer) = oneshot::channel();
            self.looks.take(question(sender), self.now);
            answer.try_recv().ok()
        }

        fn watch(&mut self, number: u64) {
            self.ask(|done| Question::Watch {
                number,
                every: EVERY,
                done,
            })
            .expect("word that it has looked");
        }

        fn seen(&mut self, number: u64) -> Option<Vec<u128>> {
            let seen = self.ask(|answer| Question::Seen { number, answer })?;
            Some(seen.iter().map(Duration::as_nanos).collect())
        }
    }

    #[test]
    fn every_look_of_a_watch_is_seen_and_none_of_another() {
        let mut looks = counting();
        looks.watch(0);
        assert_eq!(looks.looks.every, EVERY);
        looks.after(STANDS_FOR).watch(1);
        let now = looks.after(STANDS_FOR).now;
        looks.looks.look(now);
        looks.after(STANDS_FOR);
        assert_eq!(looks.seen(0), None, "it ended with the next");
        assert_eq!(looks.seen(1), Some(vec![2, 3, 4]));
        assert_eq!(looks.looks.every, None, "the watch has ended");
        assert!(looks.looks.seen.is_empty());
    }

    #[test]
    fn watches_that_follow_each_other_fast_share_a_look() {
        let mut looks = counting();
        let millisecond = Duration::from_millis(1);
        looks.watch(0);
        assert_eq!(looks.after(millisecond).seen(0), Some(vec![1, 1]));
        looks.after(STANDS_FOR - 2 * millisecond).watch(1);
        assert_eq!(looks.after(millisecond).seen(1), Some(vec![1, 2]));
        looks.after(STANDS_FOR - millisecond).watch(2);
        assert_eq!(looks.after(millisecond).seen(2), Some(vec![2, 3]));
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
        looks.watch(0);
        looks.watch(1);
        for (watch, every) in [(first, EVERY), (second, None)] {
            drop(watch);
            let word = questions.try_recv().expect("word of its end");
            looks.looks.take(word, looks.now);
            assert_eq!(looks.looks.every, every);
        }
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
        let watch = Question::Watch {
            number: 0,
            every: Some(Duration::from_millis(1)),
            done,
        };
        asked.send(watch).expect("a thread");
        for _ in 0..3 {
            let look = looks.recv_timeout(ANSWERS_WITHIN);
            look.expect("a look that nobody asked for");
        }
        drop(asked);
        thread.join().expect("it ends with the last who could ask");
    }
}
