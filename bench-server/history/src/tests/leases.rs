//! Tests of revoked leases.

use super::good::{deleted, done, events, good, kv, operation};
use crate::record::{Call, Change, History, KeyValue, OpResponse, Outcome, Txn};
use crate::{Rule, check};

fn one(change: Change) -> Txn {
    Txn {
        success: vec![change],
        ..Txn::default()
    }
}

/// Returns a history with a key of lease 7 at revision 8, and the revocation of that lease.
fn revoking(response: Option<i64>) -> History {
    let mut history = good();
    let put = one(Change::Put("e".into(), "8".into(), 7));
    let put = Call::Txn(put, done(8, vec![OpResponse::Put(None)]));
    history.operations.push(operation(220, put));
    let leased = KeyValue {
        lease: 7,
        ..kv("e", "8", 8, 8, 1)
    };
    history.log.responses.push(events(235, vec![leased]));
    let outcome = response.map(|revision| done(revision, vec![OpResponse::Revoke]));
    let revoke = Call::Txn(one(Change::Revoke(7)), outcome.unwrap_or(Outcome::Unknown));
    history.operations.push(operation(240, revoke));
    history
}

fn rules(history: &History) -> Vec<Rule> {
    let found = check(history).err().unwrap_or_default();
    found.into_iter().map(|one| one.rule).collect()
}

#[test]
fn a_revocation_deletes_the_keys_of_its_lease() {
    for response in [Some(9), None] {
        let mut history = revoking(response);
        history
            .log
            .responses
            .push(events(255, vec![deleted("e", 9)]));
        assert_eq!(rules(&history), [], "{response:?}");
        // The key d has no lease.
        history.log.responses.pop();
        let both = vec![deleted("d", 9), deleted("e", 9)];
        history.log.responses.push(events(255, both));
        assert!(rules(&history).contains(&Rule::WriteFromNowhere));
    }
}

#[test]
fn a_revocation_that_leaves_keys_is_lost() {
    assert_eq!(rules(&revoking(Some(8))), [Rule::LostWrite]);
    assert_eq!(rules(&revoking(None)), []);
}

#[test]
fn a_revocation_without_keys_is_a_read() {
    let mut history = good();
    for (called, revision, expected) in [(220, 7, vec![]), (240, 6, vec![Rule::StaleRead])] {
        let revoke = Call::Txn(
            one(Change::Revoke(7)),
            done(revision, vec![OpResponse::Revoke]),
        );
        history.operations.push(operation(called, revoke));
        assert_eq!(rules(&history), expected);
    }
}

#[test]
fn an_event_with_another_lease_is_noticed() {
    let mut history = revoking(Some(8));
    history.operations.pop();
    history.log.responses.pop();
    let unleased = kv("e", "8", 8, 8, 1);
    history.log.responses.push(events(235, vec![unleased]));
    assert_eq!(rules(&history), [Rule::WrongEffect]);
}
