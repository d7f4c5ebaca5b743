//! The cost of a server without requests: wake-ups of its threads, and CPU time, with open
//! connections.

use std::collections::BTreeMap;
use std::time::Duration;

use super::server::{Server, runtime};
use super::setting;

const CONNECTIONS: usize = 100;
const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 1024;

pub(crate) fn run() {
    runtime().block_on(table());
}

async fn table() {
    let server = Server::start(&[]);
    server.seed(KEYS, VALUE_BYTES).await;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(server.calls().await);
    }
    server.settle().await;
    // Waits until the work that settling and connecting have caused is done.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seconds = setting("WIRE_MS", 5_000) as f64 / 1e3;
    let (before, cpu) = (server.wake_ups(), server.cpu());
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let (after, cpu) = (server.wake_ups(), server.cpu() - cpu);
    println!("\nan idle server with {CONNECTIONS} open connections, for {seconds} s");
    println!("{:<22} {:>9}", "threads", "wake-ups");
    for (name, count) in &after {
        let count = count - before.get(name).copied().unwrap_or(0);
        println!("{name:<22} {count:>9}");
    }
    println!("CPU {:.2} ms", cpu.as_secs_f64() * 1e3);
    drop(open);
}

impl Server {
    /// Returns the number of times that threads have gone to sleep so far, by thread name without a
    /// number at its end.
    fn wake_ups(&self) -> BTreeMap<String, u64> {
        let mut by_name = BTreeMap::new();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs");
        for task in tasks.flatten() {
            // The thread may have ended.
            let Ok(status) = std::fs::read_to_string(task.path().join("status")) else {
                continue;
            };
            let field = |name| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.map(str::trim).unwrap_or_default()
            };
            let name = field("Name:").trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
            let switches: u64 = field("voluntary_ctxt_switches:").parse().unwrap_or(0);
            *by_name.entry(name.to_owned()).or_default() += switches;
        }
        by_name
    }
}
