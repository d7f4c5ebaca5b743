//! Clients that request everything and read nothing.

use std::io::Write;
use std::net::TcpStream;

use crate::frames::Attacker;
use crate::victim::{BOTH, Port, Victim};

const SEEDED_BYTES: usize = 5_000_000;

/// Flags for a small response memory, and for no timeout of stalled clients but the kernel's.
const UNREAD: [&str; 3] = [
    "--tcp-user-timeout=1s",
    "--stalled-reader-timeout=0s",
    "--response-memory-bytes=33554432",
];

/// A Range of all keys: `key` is field 1, `range_end` is field 2.
const EVERYTHING: &[u8] = b"\x0a\x01\0\x12\x01\0";

/// Requests everything; returns the stream.
pub(crate) fn list(attacker: &mut Attacker, port: Port) -> u32 {
    match port {
        Port::Etcd => attacker.call("/etcdserverpb.KV/Range", Some(EVERYTHING)),
        Port::Kube => attacker.get("/api/v1/pods"),
    }
}

/// Opens lists on a connection, each with a window of `window` bytes.
fn stall(victim: &Victim, port: Port, lists: u32, window: u32) -> Attacker {
    let mut attacker = Attacker::connect(victim.authority(port), window);
    attacker.open_connection_window();
    attacker.request_many(lists, |attacker| {
        list(attacker, port);
    });
    attacker
}

#[test]
fn streams_with_a_window_that_stays_shut_hold_little_and_are_reset() {
    const LISTS: u32 = 1_000;
    for port in BOTH {
        for window in [0, 1] {
            let mut victim = Victim::start(&["--stalled-reader-timeout=1s"]);
            victim.seed(SEEDED_BYTES);
            victim.rest();
            let attacker = stall(&victim, port, LISTS, window);
            victim.serves(port);
            victim.until(port, "bench_server_stalled_responses_total", |stalled| {
                stalled >= f64::from(LISTS)
            });
            victim.until(port, "bench_server_in_flight_bytes", |bytes| {
                bytes < 65_536.0
            });
            let open = "bench_server_connections_open";
            assert!(victim.metric(port, open) >= 2.0, "the connection goes on");
            drop(attacker);
            victim.withstands(&format!("{LISTS} lists with a window of {window}"), port);
        }
    }
}

/// Objects that are encoded as a whole for each response, on the API that does so.
#[test]
fn responses_with_large_objects_wait_until_earlier_ones_are_taken() {
    const REQUESTS: u32 = 1_000;
    const OBJECT_BYTES: usize = 1_000_000;
    for path in [
        "/api/v1/pods",
        "/api/v1/pods?limit=1",
        "/api/v1/namespaces/a/pods/pod-3",
        "/metrics",
    ] {
        let mut victim = Victim::start(&["--stalled-reader-timeout=1s"]);
        victim.seed_pods(20, OBJECT_BYTES);
        victim.rest();
        let port = Port::Kube;
        let mut attacker = Attacker::connect(victim.authority(port), 0);
        attacker.open_connection_window();
        attacker.request_many(REQUESTS, |attacker| {
            attacker.get(path);
        });
        victim.outlives_stalled(
            attacker,
            &format!("{REQUESTS} GETs of {path}, unread"),
            port,
        );
    }
}

/// The client reads nothing from the connection, so that it does not respond to PINGs either.
#[test]
fn a_connection_that_is_not_read_is_closed() {
    const CONNECTIONS: usize = 20;
    for port in BOTH {
        let mut victim = Victim::start(&UNREAD);
        victim.seed(SEEDED_BYTES);
        victim.rest();
        let mut attackers = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut attacker = Attacker::connect(victim.authority(port), 0x7fff_0000);
            attacker.open_connection_window();
            for _ in 0..10 {
                list(&mut attacker, port);
            }
            attacker.send().expect("it reads");
            attackers.push(attacker);
        }
        victim.serves(port);
        victim.until(port, "bench_server_connections_open", |open| open <= 1.0);
        victim.until(port, "bench_server_in_flight_bytes", |bytes| {
            bytes < 65_536.0
        });
        drop(attackers);
        victim.withstands("connections that are not read", port);
    }
}

/// The same over HTTP/1.1, where a connection carries one response at a time.
#[test]
fn an_http1_client_that_does_not_read_is_closed() {
    const CONNECTIONS: usize = 100;
    let mut victim = Victim::start(&UNREAD);
    victim.seed(SEEDED_BYTES);
    victim.rest();
    let mut attackers = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut socket = TcpStream::connect(victim.authority(Port::Kube)).expect("it listens");
        let ask = b"GET /api/v1/pods HTTP/1.1\r\nhost: victim\r\n\r\n";
        socket.write_all(ask).expect("it reads");
        attackers.push(socket);
    }
    victim.serves(Port::Kube);
    victim.until(Port::Kube, "bench_server_connections_open", |open| {
        open <= 1.0
    });
    drop(attackers);
    victim.withstands("HTTP/1.1 connections that are not read", Port::Kube);
}
