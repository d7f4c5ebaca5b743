//! Small requests at a set rate: latency from the intended start, with small writes gathered and not.
//!
//! The client spins, so its own lateness is microseconds while it has a core; the last columns say how
//! late it was.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use etcd_api::client::calls::{CallConnection, Completion, Rpc};
use hdrhistogram::Histogram;

use super::server::{Server, runtime};
use super::setting;
use super::small::{check, send};

const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 1024;
const CONNECTIONS: usize = 10;

pub(crate) fn run() {
    runtime().block_on(table());
}

async fn table() {
    let servers = [
        ("gathered", Server::start(&[])),
        ("plain", Server::start(&["--gather-writes=false"])),
    ];
    for (_, server) in &servers {
        server.seed(KEYS, VALUE_BYTES).await;
    }
    println!(
        "\n{VALUE_BYTES} B values, open loop on {CONNECTIONS} connections, us from the intended start"
    );
    println!(
        "{:<6} {:>8} {:<9} {:>8} {:>8} {:>8} {:>9} {:>10} {:>9}",
        "", "rate", "writes", "p50", "p99", "p99.9", "max", "server us", "late p99"
    );
    for rpc in [Rpc::Range, Rpc::Put] {
        for rate in [5_000, 20_000, 50_000] {
            for (name, server) in &servers {
                let mut seen = Seen::new();
                let cpu = server.cpu();
                for _ in 0..setting("WIRE_ROUNDS", 5) {
                    paced(server, rpc, rate, &mut seen).await;
                }
                let cpu = (server.cpu() - cpu).as_secs_f64() * 1e6 / seen.latency.len() as f64;
                let at = |q| seen.latency.value_at_quantile(q) as f64 / 1e3;
                println!(
                    "{:<6} {rate:>8} {name:<9} {:>8.0} {:>8.0} {:>8.0} {:>9.0} {cpu:>10.2} {:>9.0}",
                    format!("{rpc:?}").to_lowercase(),
                    at(0.5),
                    at(0.99),
                    at(0.999),
                    at(1.0),
                    seen.lateness.value_at_quantile(0.99) as f64 / 1e3,
                );
            }
        }
    }
}

/// Nanoseconds.
struct Seen {
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
}

impl Seen {
    fn new() -> Self {
        let histogram = || Histogram::new_with_max(60_000_000_000, 3).expect("valid bounds");
        Self {
            latency: histogram(),
            lateness: histogram(),
        }
    }
}

/// One second or so of requests, evenly spaced, each on the next connection. Tokens are positions in the schedule.
async fn paced(server: &Server, rpc: Rpc, rate: u64, seen: &mut Seen) {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(server.calls().await);
    }
    let value = bytes::Bytes::from(vec![7; VALUE_BYTES]);
    let step = Duration::from_nanos(1_000_000_000 / rate);
    let requests = rate * setting("WIRE_MS", 1000) / 1000;
    let began = Instant::now() + Duration::from_millis(1);
    let intended = |token: u64| began + step * token as u32;
    let mut sent = 0;
    let mut answered = 0;
    while answered < requests {
        while sent < requests && intended(sent) <= Instant::now() {
            let late = intended(sent).elapsed().as_nanos() as u64;
            seen.lateness.saturating_record(late);
            let calls: &mut CallConnection = &mut connections[sent as usize % CONNECTIONS];
            send(calls, rpc, sent * 4_231 % KEYS, &value, sent);
            sent += 1;
        }
        let mut note = |done: Completion<'_>| {
            check(rpc, &done);
            let latency = done
                .received
                .saturating_duration_since(intended(done.token));
            seen.latency.saturating_record(latency.as_nanos() as u64);
            answered += 1;
        };
        for calls in &mut connections {
            // Nobody is to be woken: it spins, and the runtime looks at the sockets between.
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready(turn) = calls.poll_turn(&mut cx, &mut note) {
                turn.expect("it lives");
            }
        }
        tokio::task::yield_now().await;
    }
}
