//! Responses that are gathered as a whole, by more clients than there is memory for.

use crate::frames::Attacker;
use crate::victim::{Port, Victim};

const ROOM: &str = "--response-memory-bytes=25165824";
const SEEDED_BYTES: usize = 10_000_000;
const LISTS: usize = 15;

/// Everything: key 1, range_end 2.
const EVERYTHING: &[u8] = b"\x0a\x01\0\x12\x01\0";

#[test]
fn buffered_responses_wait_for_room() {
    for (port, flag) in [
        (Port::Etcd, "--range-encoding=buffered"),
        (Port::Kube, "--watch-cache=false"),
    ] {
        let mut victim = Victim::start(&[ROOM, flag]);
        victim.seed(SEEDED_BYTES);
        victim.rest();
        let mut attackers = Vec::new();
        for _ in 0..LISTS {
            let mut attacker = Attacker::connect(victim.authority(port), 0);
            match port {
                Port::Etcd => attacker.call("/etcdserverpb.KV/Range", Some(EVERYTHING)),
                Port::Kube => attacker.get("/api/v1/pods"),
            };
            assert!(attacker.settled(|_| {}));
            attackers.push(attacker);
        }
        // Room for two lists of 10 MB.
        victim.until(port, "bench_server_buffered_response_bytes", |bytes| {
            bytes > 19e6
        });
        victim.withstands("buffered responses", port);
        drop(attackers);
        victim.until(port, "bench_server_buffered_response_bytes", |bytes| {
            bytes == 0.0
        });
        victim.serves(port);
    }
}
