//! How far apart two cores are, while something else runs: the time in which a cache line goes from one to the other and back,
//! and what crosses the loopback interface meanwhile, four times a second.
//!
//! ```sh
//! cargo run --release -p loadgen --example core-distance [SECONDS]
//! ```
//!
//! A virtual machine's host may run two virtual CPUs on cores that share a cache at one moment and on cores that do not at the
//! next; whatever goes from core to core, each page of a list among it, is slower then (docs/performance.md, "Where a list's CPU
//! goes"). Costs 0.2 ms of both cores for each line.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const SELF: Pid = Pid::from_raw(0);
const INTERVAL: Duration = Duration::from_millis(250);
/// Round trips that are timed together, and how many such times are taken for one line: the smallest counts, since any of them
/// may have been interrupted.
const TRIPS: u64 = 200;
const BATCHES: u64 = 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let seconds = match std::env::args().nth(1) {
        None => 60,
        Some(argument) => argument
            .parse()
            .with_context(|| format!("seconds to watch for: {argument:?}"))?,
    };
    let (here, there) = two_cores()?;
    let pair = Arc::new(Pair::default());
    // A thread begins on the cores of the one that starts it.
    pin(there)?;
    let echo = thread::spawn({
        let pair = Arc::clone(&pair);
        move || pair.echo()
    });
    pin(here)?;
    let watched = watch(&pair, Duration::from_secs(seconds));
    pair.end();
    echo.join()
        .map_err(|_| anyhow!("the thread on core {there} failed"))?;
    watched
}

/// Prints a line every [`INTERVAL`].
fn watch(pair: &Pair, length: Duration) -> anyhow::Result<()> {
    println!("seconds   round trip   loopback");
    let begun = Instant::now();
    let (mut last, mut received) = (begun, loopback_bytes()?);
    while begun.elapsed() < length {
        thread::sleep(INTERVAL);
        let round_trip = pair.round_trip();
        let (now, bytes) = (Instant::now(), loopback_bytes()?);
        println!(
            "{:7.2}   {:7.0} ns   {:.2} GB/s",
            begun.elapsed().as_secs_f64(),
            round_trip.as_nanos(),
            (bytes - received) as f64 / (now - last).as_nanos() as f64,
        );
        (last, received) = (now, bytes);
    }
    Ok(())
}

/// Two threads that write one cache line by turns: an odd number goes there, the next even one comes back.
struct Pair {
    line: Line,
    start: Barrier,
    is_over: AtomicBool,
}

#[derive(Default)]
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
        let mut best = Duration::MAX;
        let mut trip = 0;
        for _ in 0..BATCHES {
            let started = Instant::now();
            for _ in 0..TRIPS {
                trip += 1;
                self.line.put(2 * trip - 1);
                self.line.wait_for(2 * trip);
            }
            best = best.min(started.elapsed());
        }
        // As it was before the first.
        self.line.put(0);
        best / u32::try_from(TRIPS).unwrap_or(u32::MAX)
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
        while self.0.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    }
}

/// The first two cores that this process may use.
fn two_cores() -> anyhow::Result<(usize, usize)> {
    let allowed = sched_getaffinity(SELF).context("the cores that may be used")?;
    let mut cores = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false));
    cores
        .next()
        .zip(cores.next())
        .context("only one core may be used: there is no distance to measure")
}

/// Keeps the calling thread on one core.
fn pin(core: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(core).context("set of cores")?;
    sched_setaffinity(SELF, &only).with_context(|| format!("core {core}"))
}

/// Bytes that the loopback interface has received since the machine was started.
fn loopback_bytes() -> anyhow::Result<u64> {
    let devices = procfs::net::dev_status().context("/proc/net/dev")?;
    let loopback = devices.get("lo").context("/proc/net/dev has no lo")?;
    Ok(loopback.recv_bytes)
}
