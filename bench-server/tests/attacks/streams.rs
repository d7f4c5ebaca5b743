//! A connection that opens streams and ends none (h2spec 5.1.2).

use crate::frames::{Attacker, kind};
use crate::victim::{BOTH, Port, Victim};

const STREAMS: u32 = 50_000;
const AT_A_TIME: u32 = 100;
const REFUSED_STREAM: u32 = 7;

/// Opens a stream that never ends by itself.
fn open(attacker: &mut Attacker, port: Port) {
    match port {
        Port::Etcd => attacker.call("/etcdserverpb.Watch/Watch", None),
        Port::Kube => attacker.get("/api/v1/pods?watch=1"),
    };
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    for port in BOTH {
        let mut victim = Victim::start(&[]);
        victim.rest();
        let (mut opened, mut refused, mut connections) = (0, 0, 0);
        while opened < STREAMS {
            let mut attacker = Attacker::connect(victim.authority(port), 65_535);
            connections += 1;
            for round in 0.. {
                if opened >= STREAMS {
                    break;
                }
                for _ in 0..AT_A_TIME {
                    open(&mut attacker, port);
                }
                opened += AT_A_TIME;
                let lives = attacker.settled(|frame| {
                    let is_refusal =
                        frame.kind == kind::RST_STREAM && frame.number() == REFUSED_STREAM;
                    refused += u32::from(is_refusal);
                });
                if round == 10 {
                    victim.serves(port);
                }
                if !lives {
                    break;
                }
            }
        }
        victim.withstands("streams without end", port);
        let open = STREAMS - refused;
        println!("{refused} refused, {open} opened on {connections} connections");
        assert!(refused > STREAMS / 3, "{refused} were refused");
    }
}

/// Many connections, each within its own limit: the server also limits the sum of their streams.
#[test]
fn streams_of_all_connections_are_limited() {
    for port in BOTH {
        let mut victim = Victim::start(&["--response-memory-bytes=8388608", "--worker-threads=1"]);
        victim.rest();
        let mut attackers = Vec::new();
        for _ in 0..4 {
            let mut attacker = Attacker::connect(victim.authority(port), 65_535);
            for _ in 0..9 {
                for _ in 0..AT_A_TIME {
                    open(&mut attacker, port);
                }
                assert!(attacker.settled(|_| {}), "each is within its own limit");
            }
            attackers.push(attacker);
        }
        // About three quarters of the 3,600 streams are above 1,024, the number that 8 MiB in small
        // frames allow.
        victim.until(port, "bench_server_requests_refused_total", |refused| {
            refused >= 2_500.0
        });
        let health = match port {
            Port::Etcd => "/health",
            Port::Kube => "/readyz",
        };
        let answer = victim.http(port, "GET", health, "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(attackers);
        victim.until(port, "bench_server_connections_open", |open| open <= 1.0);
        victim.withstands("streams of many connections", port);
    }
}
