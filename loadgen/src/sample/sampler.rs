//! A thread that looks at processes on a fixed schedule, apart from any runtime that carries load.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{AllocatedWatch, Process};
use crate::record::{Sample, Series};

/// The default distance between samples.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// A process to look at.
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
    thread: JoinHandle<(Vec<Series>, Vec<Watched>)>,
}

impl Sampler {
    /// Starts looking, at once and then every `every`, until stopped. A process that ends just gets no further samples.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(case: &str, watched: Vec<Watched>, every: Duration) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let case = case.to_owned();
        let thread = thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || run(&case, watched, every, &stopped))?;
        Ok(Self { stop, thread })
    }

    /// Takes a last sample and returns one series per process, in the order given, with the processes.
    #[must_use]
    pub fn stop(self) -> (Vec<Series>, Vec<Watched>) {
        drop(self.stop);
        self.thread
            .join()
            .expect("the sampler's loop has nothing that panics")
    }
}

fn run(
    case: &str,
    watched: Vec<Watched>,
    every: Duration,
    stopped: &Receiver<()>,
) -> (Vec<Series>, Vec<Watched>) {
    let mut all: Vec<Series> = watched
        .iter()
        .map(|w| Series {
            case: case.to_owned(),
            process: w.name.clone(),
            samples: Vec::new(),
        })
        .collect();
    let begun = Instant::now();
    let mut next = begun;
    loop {
        for (series, watched) in all.iter_mut().zip(&watched) {
            series.samples.extend(look(watched, begun));
        }
        // After a stall the schedule goes on from now: samples that were missed are not made up for in a burst.
        next = (next + every).max(Instant::now());
        match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    for (series, watched) in all.iter_mut().zip(&watched) {
        series.samples.extend(look(watched, begun));
    }
    (all, watched)
}

fn look(watched: &Watched, begun: Instant) -> Option<Sample> {
    let memory = watched.process.memory().ok()?;
    let cpu = watched.process.cpu().ok()?;
    Some(Sample {
        elapsed_s: begun.elapsed().as_secs_f64(),
        rss: memory.rss,
        anon: memory.anon,
        file: memory.file,
        cpu_s: cpu.as_secs_f64(),
        allocated: watched.allocated.as_ref().map(AllocatedWatch::latest),
    })
}
