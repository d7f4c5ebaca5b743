//! The first chunk of a stream that is then cancelled: 1,000 of them, alone and beside four lists that never end.

use std::time::{Duration, Instant};

use etcd_api::client::raw_list::{ListRpc, RawConnection};
use hdrhistogram::Histogram;

use super::lists::whole;
use super::server::{Server, runtime};
use super::setting;

const STREAMS: usize = 1_000;
const LISTS: usize = 4;

/// The server's histogram of the time from a request's head to the first write of its body, which here is the socket's: it is
/// large, and without TLS.
const AT_THE_SERVER: &str = "bench_server_list_first_write_seconds_bucket";

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
        let client = server.connect().await;
        // Threads of their own: whoever waits here for a list to be received would blame the server.
        lists.push(std::thread::spawn(move || {
            runtime().block_on(list_on(client))
        }));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    first_chunks(&server, "beside four lists").await;
    for line in server.metrics().await.lines() {
        if line.starts_with(AT_THE_SERVER) {
            println!("{line}");
        }
    }
    // Ends the lists.
    drop(server);
    for list in lists {
        list.join().expect("a list ends when its server does");
    }
}

/// Lists until the server goes away.
async fn list_on(client: RawConnection) {
    while client.drain(ListRpc::RangeStream, &whole()).await.is_ok() {}
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
