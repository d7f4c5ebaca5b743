//! Small requests at a constant rate: latency from the intended start, with and without coalescing
//! of small writes.
//!
//! The tail of one second has little significance, so both variants are interleaved in
//! `WIRE_ROUNDS` rounds (default 9) of `WIRE_MS` each, in alternating order. A tail is the median
//! of the tails of its rounds, printed with the lowest and the highest. The effect of coalescing is
//! the ratio of the two within a round, which does not change if the machine slows down between
//! rounds.
//!
//! The client spins, so its own delay is microseconds while it has a core; a column has this delay.
//! If the delay is as large as the tail, the tail is caused by the client.

use std::fmt;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use etcd_api::client::pipelined::{Completion, PipelinedConnection, Rpc};
use hdrhistogram::Histogram;

use super::server::{Server, runtime};
use super::small::{check, send};
use super::{median, setting};

const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 1024;
const CONNECTIONS: usize = 10;

pub(crate) fn run() {
    runtime().block_on(table());
}

/// The default number of rounds.
const ROUNDS: u64 = 9;

async fn table() {
    let servers = [
        Server::start(&[]),
        Server::start(&["--gather-writes=false"]),
    ];
    for server in &servers {
        server.seed(KEYS, VALUE_BYTES).await;
    }
    let rounds = setting("WIRE_ROUNDS", ROUNDS);
    println!(
        "\n{VALUE_BYTES} B values, open loop on {CONNECTIONS} connections, us from the intended start: medians of {rounds} rounds (lowest to highest)"
    );
    println!(
        "{:<6} {:>8} {:<9} {:>7} {:>7} {:>16} {:>8} {:>9} {:>9} {:>8}",
        "", "rate", "writes", "p50", "p99", "", "p99.9", "server us", "late p99", "highest"
    );
    for rpc in [Rpc::Range, Rpc::Put] {
        for rate in [5_000, 20_000, 50_000] {
            let mut figures = [Rounds::default(), Rounds::default()];
            for round in 0..rounds {
                for side in [round % 2, (round + 1) % 2].map(|side| side as usize) {
                    let server = &servers[side];
                    let (mut seen, cpu) = (Seen::new(), server.cpu());
                    paced(server, rpc, rate, &mut seen).await;
                    figures[side].add(&seen, server.cpu() - cpu);
                }
            }
            let name = format!("{rpc:?}").to_lowercase();
            for (how, figures) in ["gathered", "plain"].into_iter().zip(&mut figures) {
                println!("{name:<6} {rate:>8} {how:<9} {figures}");
            }
            let [gathered, plain] = &figures;
            let ratios = |of: fn(&Rounds) -> &Vec<f64>| {
                let each = of(gathered).iter().zip(of(plain));
                Middle::of(each.map(|(gathered, plain)| gathered / plain).collect())
            };
            println!(
                "{name:<6} {rate:>8} gathered/plain by round: p50 {:.2}, p99 {:.2}",
                ratios(|rounds| &rounds.p50),
                ratios(|rounds| &rounds.p99),
            );
        }
    }
}

/// The values of each round in order, in microseconds.
#[derive(Debug, Default)]
struct Rounds {
    p50: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    server: Vec<f64>,
    late: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, seen: &Seen, server_cpu: Duration) {
        let of = |histogram: &Histogram<u64>, q| histogram.value_at_quantile(q) as f64 / 1e3;
        self.p50.push(of(&seen.latency, 0.5));
        self.p99.push(of(&seen.latency, 0.99));
        self.p999.push(of(&seen.latency, 0.999));
        self.late.push(of(&seen.lateness, 0.99));
        let requests = seen.latency.len() as f64;
        self.server.push(server_cpu.as_secs_f64() * 1e6 / requests);
    }
}

impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middle = |values: &[f64]| Middle::of(values.to_vec());
        let (p99, late) = (middle(&self.p99), middle(&self.late));
        write!(
            f,
            "{:>7.0} {:>7.0} {:>16} {:>8.0} {:>9.2} {:>9.0} {:>8.0}",
            middle(&self.p50).median,
            p99.median,
            format!("({:.0} to {:.0})", p99.lowest, p99.highest),
            middle(&self.p999).median,
            middle(&self.server).median,
            late.median,
            late.highest,
        )
    }
}

/// The median and the range of some values.
struct Middle {
    lowest: f64,
    median: f64,
    highest: f64,
}

impl Middle {
    fn of(mut values: Vec<f64>) -> Self {
        Self {
            median: median(&mut values),
            lowest: values[0],
            highest: values[values.len() - 1],
        }
    }
}

impl fmt::Display for Middle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let Self {
            lowest,
            median,
            highest,
        } = self;
        write!(
            f,
            "{median:.digits$} ({lowest:.digits$} to {highest:.digits$})"
        )
    }
}

/// Recorded times, in nanoseconds.
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

/// Sends about one second of evenly spaced requests, each on the next connection. Tokens are
/// positions in the schedule.
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
            let calls: &mut PipelinedConnection = &mut connections[sent as usize % CONNECTIONS];
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
            // No waker is needed: this loop spins, and the runtime polls the sockets between its
            // iterations.
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready(turn) = calls.poll_drive(&mut cx, &mut note) {
                turn.expect("it lives");
            }
        }
        tokio::task::yield_now().await;
    }
}
