//! A thread that samples processes on a fixed schedule, apart from any runtime that carries load.
//!
//! - [`bounded`]: series that do not grow without end
//! - [`steady`]: whether a process held more late than early

mod bounded;
mod steady;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use bounded::BoundedSeries;
pub use steady::EarlyAndLate;

use crate::metrics::AllocatedWatch;
use crate::peaks::{Highest, socket_memory};
use crate::process::Process;

/// The default distance between samples.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// A process at one moment. Sizes are in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Seconds since the series began.
    pub elapsed_s: f64,
    /// Resident size.
    pub rss: u64,
    /// Its anonymous part.
    pub anon: u64,
    /// Its file-mapped part.
    pub file: u64,
    /// CPU time that the process has used since it started, in seconds.
    pub cpu_s: f64,
    /// What its allocator says is allocated, as of the latest answer; `None` where it does not say.
    pub allocated: Option<u64>,
}

/// The samples of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// [`Watched::name`].
    pub process: String,
    /// In order of time; of a long series each is several, with the highest of their sizes.
    pub samples: Vec<Sample>,
}

/// A process to sample.
#[derive(Debug)]
pub struct Watched {
    /// How its series is called: see [`Series::process`].
    pub name: String,
    /// The process.
    pub process: Process,
    /// Where its allocated bytes come from, if anywhere.
    pub allocated: Option<AllocatedWatch>,
}

/// Samples being taken. [`Sampler::stop`] hands them over; dropping it ends the thread too.
#[derive(Debug)]
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Series>>,
    peaks: Arc<Mutex<Peaks>>,
}

/// What was sampled.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampled {
    /// One series for each process, in the order given.
    pub series: Vec<Series>,
    /// Most memory that the kernel had for TCP sockets, in bytes; `None` where it does not tell.
    pub most_socket_memory: Option<u64>,
}

/// The highest that was seen.
#[derive(Debug, Default)]
struct Peaks {
    /// Of each process, since it was last taken.
    processes: Vec<Highest>,
    /// Kernel memory of sockets.
    sockets: Option<u64>,
}

impl Sampler {
    /// Starts looking, at once and then every `every`, until stopped. A process that ends just gets
    /// no further samples.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(watched: Vec<Watched>, every: Duration) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let peaks = Arc::new(Mutex::new(Peaks {
            processes: vec![Highest::default(); watched.len()],
            sockets: None,
        }));
        let seen = Arc::clone(&peaks);
        let thread = thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || run(watched, every, &stopped, &seen))?;
        Ok(Self {
            stop,
            thread,
            peaks,
        })
    }

    /// Returns the highest sizes of each process, in the order given, since this was last called.
    #[must_use]
    pub fn take_highest(&self) -> Vec<Highest> {
        let mut peaks = self.peaks.lock();
        let none = vec![Highest::default(); peaks.processes.len()];
        std::mem::replace(&mut peaks.processes, none)
    }

    /// Takes a last sample and returns what was sampled: also of a phase that was over before the
    /// first one.
    #[must_use]
    pub fn stop(self) -> Sampled {
        drop(self.stop);
        let series = self.thread.join();
        Sampled {
            series: series.expect("the sampler's loop has nothing that panics"),
            most_socket_memory: self.peaks.lock().sockets,
        }
    }
}

fn run(
    watched: Vec<Watched>,
    every: Duration,
    stopped: &Receiver<()>,
    peaks: &Mutex<Peaks>,
) -> Vec<Series> {
    let series = watched.iter().map(|w| BoundedSeries::new(w.name.clone()));
    let mut all: Vec<_> = series.collect();
    let begun = Instant::now();
    let mut next = begun;
    loop {
        look_at_all(&mut all, &watched, begun, peaks);
        // After a stall the schedule goes on from now: samples that were missed are not made up for
        // in a burst.
        next = (next + every).max(Instant::now());
        match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    look_at_all(&mut all, &watched, begun, peaks);
    all.into_iter().map(BoundedSeries::finish).collect()
}

fn look_at_all(
    all: &mut [BoundedSeries],
    watched: &[Watched],
    begun: Instant,
    peaks: &Mutex<Peaks>,
) {
    for (at, (series, watched)) in all.iter_mut().zip(watched).enumerate() {
        if let Some(sample) = look(watched, begun, at, peaks) {
            series.push(sample);
        }
    }
    let sockets = socket_memory();
    let mut peaks = peaks.lock();
    peaks.sockets = peaks.sockets.max(sockets);
}

fn look(watched: &Watched, begun: Instant, at: usize, peaks: &Mutex<Peaks>) -> Option<Sample> {
    let memory = watched.process.memory().ok()?;
    let allocated = watched.allocated.as_ref().map(AllocatedWatch::latest);
    if let Some(highest) = peaks.lock().processes.get_mut(at) {
        highest.see(&memory, allocated);
    }
    let cpu = watched.process.cpu().ok()?;
    Some(Sample {
        elapsed_s: begun.elapsed().as_secs_f64(),
        rss: memory.rss,
        anon: memory.anon,
        file: memory.file,
        cpu_s: cpu.as_secs_f64(),
        allocated,
    })
}
