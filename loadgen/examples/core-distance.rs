//! How far apart two cores are, while something else runs: the time in which a cache line goes from one to the other and back,
//! and what crosses the loopback interface meanwhile, four lines a second.
//!
//! ```sh
//! cargo run --release -p loadgen --example core-distance [SECONDS]
//! ```
//!
//! A virtual machine's host may run two virtual CPUs on cores that share a cache at one moment and on cores that do not at the
//! next; whatever goes from core to core, each page of a list among it, is slower then (docs/performance.md, "Where a list's CPU
//! goes"). Costs at most 0.5 % of each of two cores.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use loadgen::sample::CoreDistance;

/// How often it is looked, and a line is printed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const INTERVAL: Duration = Duration::from_millis(250);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let seconds = match std::env::args().nth(1) {
        None => 60,
        Some(argument) => argument
            .parse()
            .with_context(|| format!("seconds to watch for: {argument:?}"))?,
    };
    let cores = CoreDistance::start()?;
    println!("seconds     round trips   loopback");
    let begun = Instant::now();
    let (mut last, mut received) = (begun, loopback_bytes()?);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let watch = cores.watch(Some(LOOK_EVERY)).await?;
        tokio::time::sleep(INTERVAL).await;
        let seen = watch.seen().await?;
        let nanoseconds = || seen.iter().map(Duration::as_nanos);
        let (now, bytes) = (Instant::now(), loopback_bytes()?);
        println!(
            "{:7.2}   {:3} … {:3} ns   {:.2} GB/s",
            begun.elapsed().as_secs_f64(),
            nanoseconds().min().unwrap_or_default(),
            nanoseconds().max().unwrap_or_default(),
            (bytes - received) as f64 / (now - last).as_nanos() as f64,
        );
        (last, received) = (now, bytes);
    }
    Ok(())
}

/// Bytes that the loopback interface has received since the machine was started.
fn loopback_bytes() -> anyhow::Result<u64> {
    let devices = procfs::net::dev_status().context("/proc/net/dev")?;
    let loopback = devices.get("lo").context("/proc/net/dev has no lo")?;
    Ok(loopback.recv_bytes)
}
