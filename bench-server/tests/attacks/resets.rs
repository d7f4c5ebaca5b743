//! Streams that are reset as soon as they are opened, before or after the server has accepted them
//! (CVE-2023-44487).

use crate::frames::Attacker;
use crate::victim::{BOTH, Port, Victim};

/// Queues a request that takes long to serve; returns its stream.
fn ask(attacker: &mut Attacker, port: Port) -> u32 {
    // Everything, sorted by value: key 1, range_end 2, sort order 5, sort target 6.
    const EVERYTHING_SORTED: &[u8] = b"\x0a\x01\0\x12\x01\0\x28\x02\x30\x04";
    match port {
        Port::Etcd => attacker.call("/etcdserverpb.KV/Range", Some(EVERYTHING_SORTED)),
        Port::Kube => attacker.get("/api/v1/pods?labelSelector=a%3Db"),
    }
}

#[test]
fn a_burst_of_resets_before_acceptance_ends_the_connection() {
    const BURST: u32 = 20_000;
    for port in BOTH {
        let mut victim = Victim::start(&[]);
        victim.seed(4_000_000);
        victim.rest();
        let mut closed = 0;
        for _ in 0..3 {
            let mut attacker = Attacker::connect(victim.authority(port), 65_535);
            for _ in 0..BURST {
                let stream = ask(&mut attacker, port);
                attacker.reset(stream);
            }
            // The server closes the connection before it has read everything, so that its GOAWAY
            // may be lost.
            let lives = attacker.send().is_ok() && attacker.settled(|_| {});
            closed += u32::from(!lives);
            victim.serves(port);
        }
        victim.withstands("resets before acceptance", port);
        assert_eq!(closed, 3, "each connection was closed");
    }
}

#[test]
fn resets_after_acceptance_leave_nothing_behind() {
    const ROUNDS: u32 = 100;
    const AT_A_TIME: u32 = 50;
    for port in BOTH {
        let mut victim = Victim::start(&[]);
        victim.seed(4_000_000);
        victim.rest();
        let mut attacker = Attacker::connect(victim.authority(port), 65_535);
        for round in 0..ROUNDS {
            let streams: Vec<_> = (0..AT_A_TIME).map(|_| ask(&mut attacker, port)).collect();
            // The response to a PING shows that the server has accepted the streams.
            if !attacker.settled(|_| {}) {
                attacker = Attacker::connect(victim.authority(port), 65_535);
                continue;
            }
            for stream in streams {
                attacker.reset(stream);
            }
            if round % 25 == 0 {
                victim.serves(port);
            }
        }
        victim.withstands("resets after acceptance", port);
    }
}
