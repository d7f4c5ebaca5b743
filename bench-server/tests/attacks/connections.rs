//! More connections than there are file descriptors.

use crate::frames::Attacker;
use crate::victim::{BOTH, Victim, metric};

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    /// File descriptors of the process, of which the server reserves 150.
    const DESCRIPTORS: u32 = 250;
    const CONNECTIONS: usize = 300;
    for port in BOTH {
        let metrics = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let health = metrics.local_addr().expect("bound").to_string();
        drop(metrics);
        let listen = format!("--listen-metrics-urls=http://{health}");
        let mut victim = Victim::start_with_descriptors(Some(DESCRIPTORS), &[&listen]);
        victim.rest();
        let mut earlier = Attacker::connect(victim.authority(port), 65_535);
        assert!(earlier.settled(|_| {}), "there is room");
        let (mut open, mut refused) = (Vec::new(), 0);
        for _ in 0..CONNECTIONS {
            let mut attacker = Attacker::connect(victim.authority(port), 65_535);
            match attacker.settled(|_| {}) {
                true => open.push(attacker),
                false => refused += 1,
            }
        }
        assert!((80..100).contains(&open.len()), "{} are open", open.len());
        // Health and metrics are served, and so is the earlier connection.
        let counted = metric(&health, "bench_server_connections_refused_total");
        assert_eq!(counted, f64::from(refused));
        assert!(earlier.settled(|_| {}), "it is served");
        drop(open);
        while metric(&health, "bench_server_connections_open") > 50.0 {
            std::thread::yield_now();
        }
        victim.withstands("connections", port);
    }
}
