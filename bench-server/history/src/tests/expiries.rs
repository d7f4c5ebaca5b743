//! Tests of leases that expire.

use super::good::{deleted, done, events, good, kv, operation};
use crate::record::{Call, Change, History, KeyValue, Lease, OpResponse, Outcome, Txn};
use crate::{Checked, Rule, check};

/// The end of the lease's TTL.
const LIVES_UNTIL: u64 = 300;

fn leased(key: &str, revision: i64) -> KeyValue {
    KeyValue {
        lease: 7,
        ..kv(key, &revision.to_string(), revision, revision, 1)
    }
}

fn put(called: u64, key: &str, revision: i64) -> crate::Operation {
    let txn = Txn {
        success: vec![Change::Put(key.into(), revision.to_string(), 7)],
        ..Txn::default()
    };
    operation(
        called,
        Call::Txn(txn, done(revision, vec![OpResponse::Put(None)])),
    )
}

/// Returns a history with two keys of lease 7 at revisions 8 and 9, and later events at time `at`.
fn expiring(at: u64, expiry: Vec<KeyValue>) -> History {
    let mut history = good();
    history.leases.push(Lease {
        id: 7,
        lives_until: LIVES_UNTIL,
    });
    for (called, key, revision) in [(220, "e", 8), (240, "f", 9)] {
        history.operations.push(put(called, key, revision));
        let told = events(called + 12, vec![leased(key, revision)]);
        history.log.responses.push(told);
    }
    if !expiry.is_empty() {
        history.log.responses.push(events(at, expiry));
    }
    history
}

fn both() -> Vec<KeyValue> {
    vec![deleted("e", 10), deleted("f", 10)]
}

fn rules(history: &History) -> Vec<Rule> {
    let found = check(history).err().unwrap_or_default();
    found.into_iter().map(|one| one.rule).collect()
}

#[test]
fn keys_go_with_their_lease_after_its_time() {
    let Checked { expiries, .. } = check(&expiring(310, both())).expect("no violation");
    assert_eq!(expiries, 1);
    // A server may expire a lease late.
    let Checked { expiries, .. } = check(&expiring(0, Vec::new())).expect("no violation");
    assert_eq!(expiries, 0);
}

#[test]
fn keys_that_go_before_their_time_are_noticed() {
    assert_eq!(rules(&expiring(290, both())), [Rule::EarlyExpiry]);
    // The log receives the expiry late; another client saw it earlier.
    let mut history = expiring(400, both());
    let read = crate::RangeRequest::default();
    let seen = crate::RangeResponse {
        revision: 10,
        ..crate::RangeResponse::default()
    };
    assert_eq!(rules(&history), []);
    let call = Call::Range(read, Outcome::Done(seen));
    history.operations.push(operation(270, call));
    assert_eq!(rules(&history), [Rule::EarlyExpiry]);
}

#[test]
fn a_lease_takes_all_its_keys_at_once() {
    let parts = [deleted("e", 10), deleted("f", 11)];
    let mut history = expiring(310, parts[..1].to_vec());
    assert_eq!(rules(&history), [Rule::WriteFromNowhere]);
    history.log.responses.push(events(320, parts[1..].to_vec()));
    // The second revision deletes all remaining keys of the lease, so it could be the expiry.
    assert_eq!(rules(&history), [Rule::WriteFromNowhere]);
    // The key d has no lease.
    let more = [vec![deleted("d", 10)], both()].concat();
    assert_eq!(rules(&expiring(310, more)), [Rule::WriteFromNowhere]);
}

#[test]
fn nothing_is_bound_to_a_lease_that_has_expired() {
    let mut history = expiring(310, both());
    history.operations.push(put(320, "g", 11));
    let told = events(335, vec![leased("g", 11)]);
    history.log.responses.push(told);
    assert_eq!(rules(&history), [Rule::ExpiredLease]);
    // If another request may have deleted those keys, the lease may still exist.
    let txn = Txn {
        success: vec![Change::Delete(super::good::range("e", "g"))],
        ..Txn::default()
    };
    let delete = operation(250, Call::Txn(txn, Outcome::Unknown));
    history.operations.push(delete);
    assert_eq!(rules(&history), []);
}

#[test]
fn a_read_after_the_expiry_has_none_of_its_keys() {
    let mut history = expiring(310, both());
    let read = crate::RangeRequest {
        range: crate::KeyRange::one("e"),
        ..crate::RangeRequest::default()
    };
    for (revision, kvs, expected) in [
        (10, Vec::new(), vec![]),
        (10, vec![leased("e", 8)], vec![Rule::WrongRead]),
        // The key existed at revision 9, but revision 10 was seen before the call of the read.
        (9, vec![leased("e", 8)], vec![Rule::StaleRead]),
    ] {
        let seen = crate::RangeResponse {
            revision,
            count: i64::from(revision == 9),
            kvs,
            more: false,
        };
        let call = Call::Range(read.clone(), Outcome::Done(seen));
        history.operations.push(operation(320, call));
        let found = rules(&history);
        assert_eq!(found, expected, "revision {revision}");
        history.operations.pop();
    }
}
