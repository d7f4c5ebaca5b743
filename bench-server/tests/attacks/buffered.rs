//! Buffered responses to more clients than the server's response memory has room for.

use std::time::Duration;

use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest};
use prost::Message;

use crate::frames::Attacker;
use crate::stalled::list;
use crate::victim::{Port, Victim, runtime};

const ROOM: &str = "--response-memory-bytes=25165824";
const SEEDED_BYTES: usize = 10_000_000;
const LISTS: usize = 15;

/// The key that a transaction reads many times. A value of [`KEY_BYTES`] is stored in two pieces,
/// so that each response has a copy of it.
const KEY: &[u8] = b"k";
const KEY_BYTES: usize = 10_300;
/// Number of transactions nested in one, each of which reads the key [`ASKED`] times.
const NESTED: usize = 10;
const ASKED: usize = 100;

#[test]
fn buffered_responses_wait_for_room() {
    let single = RangeRequest {
        key: KEY.into(),
        ..Default::default()
    };
    let nested = txn(vec![Request::RequestRange(single); ASKED]);
    let txn = txn(vec![Request::RequestTxn(nested); NESTED]);
    const BUFFERED: &str = "--range-encoding=buffered";
    const WITHOUT_CACHE: &str = "--watch-cache=false";
    attack("ranges", Port::Etcd, BUFFERED, |attacker| {
        list(attacker, Port::Etcd)
    });
    attack("transactions", Port::Etcd, BUFFERED, |attacker| {
        attacker.call("/etcdserverpb.KV/Txn", Some(&txn.encode_to_vec()))
    });
    attack("lists", Port::Kube, WITHOUT_CACHE, |attacker| {
        list(attacker, Port::Kube)
    });
    attack("pages of any size", Port::Kube, WITHOUT_CACHE, |attacker| {
        attacker.get("/api/v1/pods?limit=1000000000")
    });
}

fn txn(requests: Vec<Request>) -> TxnRequest {
    let operations = requests.into_iter().map(|request| RequestOp {
        request: Some(request),
    });
    TxnRequest {
        success: operations.collect(),
        ..Default::default()
    }
}

fn attack(name: &str, port: Port, flag: &str, send: impl Fn(&mut Attacker) -> u32) {
    let mut victim = victim(flag);
    victim.rest();
    let attackers = stall(&victim, port, send);
    victim.withstands(name, port);
    drop(attackers);
    victim.until(port, "bench_server_buffered_response_bytes", |bytes| {
        bytes == 0.0
    });
    victim.serves(port);
}

/// Starts a server with room for two responses of everything.
fn victim(flag: &str) -> Victim {
    let victim = Victim::start(&[ROOM, flag]);
    victim.seed(SEEDED_BYTES);
    victim.put([PutRequest {
        key: KEY.into(),
        value: vec![b'v'; KEY_BYTES].into(),
        ..Default::default()
    }]);
    victim
}

/// Sends requests whose responses are not read, until they hold all of the room.
fn stall(victim: &Victim, port: Port, send: impl Fn(&mut Attacker) -> u32) -> Vec<Attacker> {
    let attackers = (0..LISTS).map(|_| stalled(victim, port, &send)).collect();
    // There is room for two responses of 10 MB.
    victim.until(port, "bench_server_buffered_response_bytes", |bytes| {
        bytes > 19e6
    });
    attackers
}

/// Sends one request whose response is not read.
fn stalled(victim: &Victim, port: Port, send: impl Fn(&mut Attacker) -> u32) -> Attacker {
    let mut attacker = Attacker::connect(victim.authority(port), 0);
    send(&mut attacker);
    assert!(attacker.settled(|_| {}));
    attacker
}

/// What a list of the seeded pods holds at least once it is complete, bytes.
const LIST_BYTES: f64 = 10e6;
/// Maximum time until a client without room has its refusal: the 15 s for which it waits, and time
/// for a slow machine.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(25);

#[test]
fn a_client_without_room_is_told_by_etcds_code_when_to_try_again() {
    let victim = victim("--range-encoding=buffered");
    let _attackers = stall(&victim, Port::Etcd, |attacker| list(attacker, Port::Etcd));
    let range = RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..Default::default()
    };
    let refused = runtime().block_on(async {
        let client = victim.client().await;
        let mut kv = client.kv();
        let answer = tokio::time::timeout(REFUSED_TIMEOUT, kv.range(range)).await;
        let answer = answer.expect("an answer in time");
        answer.expect_err("there is no room")
    });
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(refused.message(), "etcdserver: too many requests");
    let pause = refused.metadata().get("grpc-retry-pushback-ms");
    assert_eq!(pause.expect("a pause"), "1000");
}

#[test]
fn a_client_without_room_is_told_by_429_when_to_try_again() {
    let victim = victim("--watch-cache=false");
    // One after the other: lists that arrive together share the room, and all are refused.
    let mut attackers = Vec::new();
    for lists in 1..=2 {
        attackers.push(stalled(&victim, Port::Kube, |attacker| {
            list(attacker, Port::Kube)
        }));
        victim.until(
            Port::Kube,
            "bench_server_buffered_response_bytes",
            |bytes| bytes >= f64::from(lists) * LIST_BYTES,
        );
    }
    let answer = victim.http_within(REFUSED_TIMEOUT, Port::Kube, "GET", "/api/v1/pods", "");
    let answer = answer.get(..1000).unwrap_or(&answer);
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(answer.contains(r#""reason":"TooManyRequests""#), "{answer}");
}
