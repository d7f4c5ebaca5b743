//! A thread that samples processes on a fixed schedule, separate from any runtime that carries
//! load.
//!
//! - [`bounded`]: a series of samples whose size is limited
//! - [`steady`]: compares a process's memory late in a phase with its memory early in it

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

/// The default interval between samples.
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
    /// Allocated bytes by its allocator's latest report; `None` if it has none.
    pub allocated: Option<u64>,
}

/// The samples of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// [`Watched::name`].
    pub process: String,
    /// In order of time. In a long series, each sample combines several neighbours and has the
    /// highest of their sizes.
    pub samples: Vec<Sample>,
}

/// A process to sample.
#[derive(Debug)]
pub struct Watched {
    /// The name of its series: see [`Series::process`].
    pub name: String,
    /// The process.
    pub process: Process,
    /// The source of its allocated bytes, if any.
    pub allocated: Option<AllocatedWatch>,
}

/// A running sampler. [`Sampler::stop`] returns the samples; dropping it ends the thread too.
#[derive(Debug)]
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Series>>,
    peaks: Arc<Mutex<Peaks>>,
}

/// The samples of all processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampled {
    /// One series for each process, in the order given.
    pub series: Vec<Series>,
    /// The highest kernel memory of TCP sockets, in bytes; `None` if the kernel does not report it.
    pub most_socket_memory: Option<u64>,
}

/// The highest samples.
#[derive(Debug, Default)]
struct Peaks {
    /// The peaks of each process since they were last taken.
    processes: Vec<Highest>,
    /// Kernel memory of sockets.
    sockets: Option<u64>,
}

impl Sampler {
    /// Starts sampling, at once and then every `every`, until stopped. A process that has ended
    /// gets no further samples.
    ///
    /// # Errors
    /// If the thread cannot be started.
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

    /// Takes a last sample and returns all samples, so that even a phase shorter than one interval
    /// has some.
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
        // After a stall the schedule continues from now: missed samples are not made up for in a
        // burst.
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
