//! Small requests in a closed loop: CPU time of each side per request, by number of callers.
//!
//! Results are comparable only at the same concurrency: with fewer callers, each request costs
//! more, since fewer are processed together. `WIRE_TLS=1` uses TLS.

use std::time::{Duration, Instant};

use etcd_api::client::pipelined::{
    Completion, Framing, PipelinedConnection, Rpc, parse_put_response, parse_range_response,
};
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};

use super::server::{Server, key, own_cpu, runtime};
use super::{median, setting};

const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 1024;

pub(crate) fn run() {
    runtime().block_on(async {
        let local = tokio::task::LocalSet::new();
        local.run_until(table()).await;
    });
}

/// A row of the table: the request and its concurrency.
#[derive(Debug, Clone, Copy)]
struct Row {
    rpc: Rpc,
    framing: Framing,
    connections: usize,
    callers: usize,
}

async fn table() {
    let server = match setting("WIRE_TLS", 0) {
        0 => Server::start(&[]),
        _ => Server::start_tls(),
    };
    server.seed(KEYS, VALUE_BYTES).await;
    let mut rows = Vec::new();
    for (connections, callers) in [(10, 100), (10, 10), (1, 1)] {
        for framing in [Framing::Minimal, Framing::H2Crate] {
            for rpc in [Rpc::Range, Rpc::Put] {
                rows.push(Row {
                    rpc,
                    framing,
                    connections,
                    callers,
                });
            }
        }
    }
    println!(
        "\n{VALUE_BYTES} B values, closed loop: median of {} rounds",
        rounds()
    );
    println!(
        "{:<8} {:<8} {:>12} {:>8} {:>10} {:>10} {:>10}",
        "", "client", "connections", "callers", "requests/s", "server us", "client us"
    );
    let mut figures = vec![[const { Vec::new() }; 3]; rows.len()];
    for _ in 0..rounds() {
        for (row, figures) in rows.iter().zip(&mut figures) {
            for (column, figure) in figures.iter_mut().zip(measure(&server, *row).await) {
                column.push(figure);
            }
        }
    }
    for (row, mut figures) in rows.iter().zip(figures) {
        let [rate, server, client] = &mut figures;
        println!(
            "{:<8} {:<8} {:>12} {:>8} {:>10.0} {:>10.2} {:>10.2}",
            format!("{:?}", row.rpc).to_lowercase(),
            format!("{:?}", row.framing).to_lowercase(),
            row.connections,
            row.callers,
            median(rate),
            median(server),
            median(client)
        );
    }
}

fn rounds() -> u64 {
    setting("WIRE_ROUNDS", 5)
}

/// Returns requests per second, and the CPU time of server and client per request in microseconds.
async fn measure(server: &Server, row: Row) -> [f64; 3] {
    let mut connections = Vec::new();
    for _ in 0..row.connections {
        let calls = PipelinedConnection::connect_as(row.framing, &server.config, None)
            .await
            .expect("it accepts");
        connections.push(calls);
    }
    let (began, server_cpu, client_cpu) = (Instant::now(), server.cpu(), own_cpu());
    let until = began + Duration::from_millis(setting("WIRE_MS", 1000));
    let mut tasks = Vec::new();
    for (index, calls) in connections.into_iter().enumerate() {
        let callers = row.callers / row.connections;
        tasks.push(tokio::task::spawn_local(drive(
            calls,
            row.rpc,
            callers,
            index as u64,
            until,
        )));
    }
    let mut requests = 0;
    for task in tasks {
        requests += task.await.expect("no task panics");
    }
    let wall = began.elapsed();
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / requests as f64;
    [
        requests as f64 / wall.as_secs_f64(),
        each(server.cpu() - server_cpu),
        each(own_cpu() - client_cpu),
    ]
}

/// Keeps `callers` requests outstanding until the time is over; returns the number of responses.
async fn drive(
    mut calls: PipelinedConnection,
    rpc: Rpc,
    callers: usize,
    index: u64,
    until: Instant,
) -> u64 {
    let value = bytes::Bytes::from(vec![7; VALUE_BYTES]);
    let mut next = index * 7919;
    let mut answered = 0;
    let mut free: Vec<u64> = (0..callers as u64).collect();
    loop {
        if Instant::now() < until {
            for token in free.drain(..) {
                next = (next + 4_231) % KEYS;
                send(&mut calls, rpc, next, &value, token);
            }
        } else if calls.outstanding() == 0 {
            return answered;
        }
        let mut note = |done: Completion<'_>| {
            check(rpc, &done);
            answered += 1;
            free.push(done.token);
        };
        calls.drive(&mut note).await.expect("it lives");
    }
}

/// Sends one request for key `i`.
pub(crate) fn send(
    calls: &mut PipelinedConnection,
    rpc: Rpc,
    i: u64,
    value: &bytes::Bytes,
    token: u64,
) {
    let sent = match rpc {
        Rpc::Range => {
            let get = RangeRequest {
                key: key(i).into(),
                ..RangeRequest::default()
            };
            calls.send(rpc, &get, token)
        }
        _ => {
            let put = PutRequest {
                key: key(i).into(),
                value: value.clone(),
                ..PutRequest::default()
            };
            calls.send(rpc, &put, token)
        }
    };
    sent.expect("it lives");
}

/// Checks a response, as the generator does.
pub(crate) fn check(rpc: Rpc, done: &Completion<'_>) {
    let message = done.response.as_ref().expect("an answer");
    match rpc {
        Rpc::Range => {
            let answer = parse_range_response(message).expect("well-formed");
            assert!(answer.object.is_some_and(|o| o.value.len() == VALUE_BYTES));
        }
        _ => assert!(parse_put_response(message).is_some_and(|revision| revision > 0)),
    }
}
