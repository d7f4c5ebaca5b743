//! Clients that watch from the beginning and read nothing: what was missed waits in the store, not
//! in one copy per watch.

use etcd_api::proto::etcdserverpb::PutRequest;

use crate::frames::Attacker;
use crate::victim::{Port, Victim};

const WATCHES: u32 = 1_000;

/// A WatchRequest that creates a watcher of all keys (1 is `key`, 2 `range_end`) from revision 1
/// (3).
const EVERYTHING: &[u8] = b"\x0a\x08\x0a\x01\0\x12\x01\0\x18\x01";

/// Opens watches on a connection, each with a window of `window` bytes.
fn watch(victim: &Victim, port: Port, window: u32) -> Attacker {
    let mut attacker = Attacker::connect(victim.authority(port), window);
    attacker.open_connection_window();
    attacker.request_many(WATCHES, |attacker| {
        match port {
            Port::Etcd => attacker.call("/etcdserverpb.Watch/Watch", Some(EVERYTHING)),
            Port::Kube => attacker.get(
                "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            ),
        };
    });
    attacker
}

/// Watches all of a victim's data without reading, in windows of 0 and of 1.
fn stall(port: Port, seed: impl Fn(&Victim), what: &str) {
    for window in [0, 1] {
        let mut victim = Victim::start(&["--stalled-reader-timeout=1s"]);
        seed(&victim);
        victim.rest();
        let attacker = watch(&victim, port, window);
        let attack = format!("{WATCHES} watches of {what} with a window of {window}");
        victim.outlives_stalled(attacker, &attack, port);
    }
}

#[test]
fn unread_watches_of_small_objects_hold_little_and_are_reset() {
    for port in crate::victim::BOTH {
        stall(port, |victim| victim.seed(5_000_000), "small objects");
    }
}

#[test]
fn unread_watches_of_large_objects_hold_little_and_are_reset() {
    const VALUE: usize = 1_000_000;
    let keys = |victim: &Victim| {
        victim.put((0..20).map(|i| PutRequest {
            key: format!("/large/{i:08}").into(),
            value: vec![b'v'; VALUE].into(),
            ..Default::default()
        }));
    };
    stall(Port::Etcd, keys, "large objects");
    stall(
        Port::Kube,
        |victim| victim.seed_pods(20, VALUE),
        "large objects",
    );
}
