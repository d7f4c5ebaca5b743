//! The time to the first chunk of a stream that is then cancelled: 1,000 streams, alone and beside
//! four clients that list continuously.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use etcd_api::client::config::ClientConfig;
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use hdrhistogram::Histogram;

use super::lists::whole;
use super::server::{Server, runtime};
use super::setting;

const STREAMS: usize = 1_000;
const LISTS: usize = 4;

/// The server's histogram of the time from a request's head to the first write of its body. The
/// body is large and there is no TLS, so this is the first write to the socket.
const AT_THE_SERVER: &str = "bench_server_list_first_write_seconds_bucket{le=\"";

pub(crate) fn run() {
    runtime().block_on(table());
}

async fn table() {
    let server = Server::start(&[]);
    server.seed(setting("WIRE_OBJECTS", 150_000), 10_000).await;
    println!("\nfirst data of {STREAMS} cancelled streams, ms");
    println!("{:<22} {:>8} {:>8} {:>8}", "", "p50", "p99", "max");
    first_chunks(&server, "alone").await;
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        let config = server.config.clone();
        // The lists have their own threads and runtimes, which also drive their connections. On
        // this runtime, receiving a list would delay the measured streams, and nothing would drive
        // the lists while their threads are joined at the end.
        lists.push(std::thread::spawn(move || {
            runtime().block_on(list_on(config))
        }));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let before = first_writes(&server).await;
    first_chunks(&server, "beside four lists").await;
    let after = first_writes(&server).await;
    print_at_the_server(&before, &after);
    // Ends the lists.
    drop(server);
    for list in lists {
        list.join().expect("a list ends when its server does");
    }
}

/// Returns the server's current histogram: upper bounds in ms, and the numbers of first writes
/// within them.
async fn first_writes(server: &Server) -> Vec<(f64, u64)> {
    let metrics = server.metrics().await;
    let buckets = metrics
        .lines()
        .filter_map(|l| l.strip_prefix(AT_THE_SERVER));
    let parsed = buckets.filter_map(|line| {
        let (bound, count) = line.split_once("\"} ")?;
        // Rust also parses `+Inf` as a number.
        Some((bound.parse::<f64>().ok()? * 1e3, count.trim().parse().ok()?))
    });
    parsed.collect()
}

/// Prints the bounds of the first writes between two samples of the histogram.
fn print_at_the_server(before: &[(f64, u64)], after: &[(f64, u64)]) {
    let earlier: BTreeMap<u64, u64> = before.iter().map(|(le, n)| (le.to_bits(), *n)).collect();
    let within = |(le, n): &(f64, u64)| (*le, n - earlier.get(&le.to_bits()).unwrap_or(&0));
    let counts: Vec<(f64, u64)> = after.iter().map(within).collect();
    let all = counts.last().map_or(0, |(_, n)| *n);
    let bound = |share: f64| {
        let enough = (all as f64 * share).ceil() as u64;
        let found = counts.iter().find(|(_, n)| *n >= enough);
        found.map_or(f64::INFINITY, |(le, _)| *le)
    };
    println!(
        "at the server, beside four lists: {all} first writes, 99 % within {} ms, all within {} ms",
        bound(0.99),
        bound(1.0)
    );
}

/// Lists until the server ends.
async fn list_on(config: ClientConfig) {
    let connected = RawConnection::connect(&config, None).await;
    let client = connected.expect("it accepts");
    while client
        .read_unchecked(ListRpc::RangeStream, &whole())
        .await
        .is_ok()
    {}
}

async fn first_chunks(server: &Server, what: &str) {
    let client = server.connect().await;
    let mut times = Histogram::<u64>::new_with_max(60_000_000, 3).expect("valid bounds");
    for _ in 0..STREAMS {
        let began = Instant::now();
        let mut list = client
            .open(ListRpc::RangeStream, &whole())
            .await
            .expect("a stream");
        list.data().await.expect("its first chunk");
        times.saturating_record(began.elapsed().as_micros() as u64);
    }
    let at = |q| times.value_at_quantile(q) as f64 / 1e3;
    println!(
        "{what:<22} {:>8.2} {:>8.2} {:>8.2}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}
