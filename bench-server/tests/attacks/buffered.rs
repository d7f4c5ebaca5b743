//! Buffered responses to more clients than the server's response memory has room for.

use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest};
use prost::Message;

use crate::frames::Attacker;
use crate::victim::{Port, Victim};

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
    let range = RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..Default::default()
    };
    let single = RangeRequest {
        key: KEY.into(),
        ..Default::default()
    };
    let nested = txn(vec![Request::RequestRange(single); ASKED]);
    let txn = txn(vec![Request::RequestTxn(nested); NESTED]);
    const BUFFERED: &str = "--range-encoding=buffered";
    const WITHOUT_CACHE: &str = "--watch-cache=false";
    attack("ranges", Port::Etcd, BUFFERED, |attacker| {
        attacker.call("/etcdserverpb.KV/Range", Some(&range.encode_to_vec()))
    });
    attack("transactions", Port::Etcd, BUFFERED, |attacker| {
        attacker.call("/etcdserverpb.KV/Txn", Some(&txn.encode_to_vec()))
    });
    attack("lists", Port::Kube, WITHOUT_CACHE, |attacker| {
        attacker.get("/api/v1/pods")
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
    let mut victim = Victim::start(&[ROOM, flag]);
    victim.seed(SEEDED_BYTES);
    victim.put([PutRequest {
        key: KEY.into(),
        value: vec![b'v'; KEY_BYTES].into(),
        ..Default::default()
    }]);
    victim.rest();
    let mut attackers = Vec::new();
    for _ in 0..LISTS {
        let mut attacker = Attacker::connect(victim.authority(port), 0);
        send(&mut attacker);
        assert!(attacker.settled(|_| {}));
        attackers.push(attacker);
    }
    // There is room for two responses of 10 MB.
    victim.until(port, "bench_server_buffered_response_bytes", |bytes| {
        bytes > 19e6
    });
    victim.withstands(name, port);
    drop(attackers);
    victim.until(port, "bench_server_buffered_response_bytes", |bytes| {
        bytes == 0.0
    });
    victim.serves(port);
}
