//! Connections that send nothing, or an incomplete request, one byte or one frame at a time.

use std::io::Write;
use std::net::TcpStream;

use crate::frames::Attacker;
use crate::victim::{BOTH, Victim};

/// Number of silent connections: more than [`NEWCOMERS`], the number for whose first request the
/// server waits.
const CONNECTIONS: usize = 1_500;
const NEWCOMERS: f64 = 1_024.0;

#[test]
fn those_who_say_nothing_keep_nobody_out() {
    for port in BOTH {
        let mut victim = Victim::start(&[]);
        victim.rest();
        let connect = |_| TcpStream::connect(victim.authority(port)).expect("it listens");
        let mut silent: Vec<_> = (0..CONNECTIONS).map(connect).collect();
        let least = CONNECTIONS as f64 - NEWCOMERS;
        victim.until(port, "bench_server_newcomers_closed_total", |closed| {
            closed >= least
        });
        // The closed connections are gone, not only shut down. The connection that reads the metric
        // is one more.
        victim.until(port, "bench_server_connections_open", |open| {
            open <= NEWCOMERS + 1.0
        });
        // The beginnings of an HTTP/2 preface and of an HTTP/1.1 head.
        for (i, socket) in silent.iter_mut().enumerate().skip(CONNECTIONS - 100) {
            for byte in [&b"PRI * HT"[..], b"GET / HT"][i % 2] {
                socket.write_all(&[*byte]).expect("it is waited for");
            }
        }
        victim.withstands("silence", port);
    }
}

/// Heads of requests in fragments, the last of which never comes.
#[test]
fn heads_that_do_not_end_share_little_memory() {
    const CONNECTIONS: usize = 300;
    const FRAME_BYTES: usize = 16_384;
    // Within the limit of a single head on either port.
    const FRAMES: usize = 50;
    for port in BOTH {
        let mut victim = Victim::start(&[]);
        victim.rest();
        let mut attackers = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut attacker = Attacker::connect(victim.authority(port), 65_535);
            for frame in 0..FRAMES {
                // A literal field whose value is longer than all frames.
                let mut fragment = vec![b'v'; FRAME_BYTES];
                if frame == 0 {
                    fragment[..8].copy_from_slice(b"\x00\x01a\x7f\xff\xff\xff\x07");
                }
                attacker.head_fragment(frame == 0, &fragment);
            }
            // The server may close the connection before it has read everything.
            attacker.send().ok();
            attackers.push(attacker);
        }
        victim.until(port, "bench_server_heads_closed_total", |closed| {
            closed >= CONNECTIONS as f64 / 2.0
        });
        victim.withstands("heads that do not end", port);
    }
}
