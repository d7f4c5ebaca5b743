//! Checks each rule with a history that breaks it.

mod expiries;
mod good;
mod leases;
mod watches;

use crate::record::{
    Call, Change, History, KeyRange, OpResponse, Operation, Outcome, RangeRequest, RangeResponse,
    Refusal, TxnResponse,
};
use crate::{Checked, Rule, check};
use good::{
    CREATE_AGAIN, LAST_PUT, LIMITED, MOVE, PAST, PUT_B, UNKNOWN_DELETE, UNKNOWN_PUT, delete,
    deleted, done, events, good, kv, operation, put, range,
};

/// Returns the rules that the good history breaks once `spoil` has changed it, each rule once.
fn broken(spoil: impl FnOnce(&mut History)) -> Vec<Rule> {
    let mut history = good();
    spoil(&mut history);
    let mut rules: Vec<Rule> = Vec::new();
    for violation in check(&history).err().unwrap_or_default() {
        if !rules.contains(&violation.rule) {
            rules.push(violation.rule);
        }
    }
    rules
}

fn range_response(history: &mut History, nth: usize) -> &mut RangeResponse {
    match &mut history.operations[nth].call {
        Call::Range(_, Outcome::Done(response)) => response,
        other => panic!("no range with a response: {other:?}"),
    }
}

fn txn_response(history: &mut History, nth: usize) -> &mut TxnResponse {
    match &mut history.operations[nth].call {
        Call::Txn(_, Outcome::Done(response)) => response,
        other => panic!("no transaction with a response: {other:?}"),
    }
}

fn set_times(operation: &mut Operation, called: u64) {
    operation.called = called;
    operation.settled = called + 10;
    operation.returned = called + 10;
}

#[test]
fn a_good_history_has_no_violation() {
    let expected = Checked {
        revisions: 6,
        writes: 4,
        unknown_applied: 2,
        unknown_lost: 0,
        reads: 3,
        expiries: 0,
        compactions: 1,
        watches: 1,
        events: 6,
    };
    assert_eq!(check(&good()), Ok(expected));
}

#[test]
fn unknown_writes_may_be_lost() {
    let mut history = good();
    let lost = Call::Txn(put("e", "7"), Outcome::Unknown);
    history.operations.push(operation(20, lost));
    let nothing = Call::Txn(delete(KeyRange::one("b")), Outcome::Unknown);
    history.operations.push(operation(20, nothing));
    let checked = check(&history).expect("either may be lost");
    assert_eq!((checked.unknown_applied, checked.unknown_lost), (2, 2));
}

#[test]
fn an_acknowledged_write_that_the_log_lacks() {
    let rules = broken(|history| {
        history.log.responses.pop();
    });
    assert_eq!(rules, [Rule::LostWrite]);
    // Another write has the revision of this one.
    let rules = broken(|history| {
        let lost = Call::Txn(put("e", "7"), done(7, vec![OpResponse::Put(None)]));
        history.operations.push(operation(195, lost));
    });
    assert_eq!(rules, [Rule::LostWrite]);
}

#[test]
fn a_revision_that_the_log_lacks() {
    let rules = broken(|history| {
        history.log.responses.remove(4);
    });
    assert!(rules.starts_with(&[Rule::LogGap]), "{rules:?}");
}

#[test]
fn an_event_that_does_not_follow() {
    let last = |history: &mut History, changed| {
        history.log.responses[5] = events(205, vec![changed]);
    };
    for impossible in [
        kv("d", "5", 7, 7, 2),
        kv("d", "5", 6, 7, 1),
        deleted("d", 7),
    ] {
        let rules = broken(|history| last(history, impossible));
        assert!(rules.contains(&Rule::LogEvent), "{rules:?}");
    }
}

#[test]
fn one_revision_for_two_writes() {
    let rules = broken(|history| {
        let again = history.operations[LAST_PUT].clone();
        history.operations.push(again);
    });
    assert_eq!(rules, [Rule::RevisionTwice]);
}

#[test]
fn one_write_done_twice() {
    let rules = broken(|history| {
        let again = events(220, vec![kv("d", "5", 7, 8, 2)]);
        history.log.responses.push(again);
    });
    assert!(rules.contains(&Rule::WrittenTwice), "{rules:?}");
}

#[test]
fn writes_against_real_time() {
    // Revision 3 is acknowledged to a client that called after revision 4 was seen.
    let rules = broken(|history| set_times(&mut history.operations[PUT_B], 66));
    assert_eq!(rules, [Rule::WriteOrder]);
    // A write of unknown outcome took effect before its call.
    let rules = broken(|history| set_times(&mut history.operations[UNKNOWN_PUT], 150));
    assert_eq!(rules, [Rule::WriteOrder]);
    // A deletion can explain only changes after its call.
    let rules = broken(|history| set_times(&mut history.operations[UNKNOWN_DELETE], 230));
    assert_eq!(rules, [Rule::WriteFromNowhere]);
}

#[test]
fn a_write_that_changes_something_else() {
    let rules = broken(|history| {
        let Call::Txn(txn, _) = &mut history.operations[MOVE].call else {
            panic!("a transaction")
        };
        txn.success.pop();
        txn_response(history, MOVE).responses.pop();
    });
    assert_eq!(rules, [Rule::WrongEffect]);
    let rules = broken(|history| {
        history.operations[UNKNOWN_PUT].call = Call::Txn(put("a", "4"), Outcome::Unknown);
    });
    assert_eq!(rules, [Rule::WrongEffect]);
}

#[test]
fn a_response_that_is_wrong() {
    // A create that succeeds although the key exists would be a controller's lost update.
    let rules = broken(|history| txn_response(history, CREATE_AGAIN).succeeded = true);
    assert_eq!(rules, [Rule::WrongResponse]);
    let rules = broken(|history| {
        let previous = OpResponse::Put(Some(kv("b", "2", 3, 3, 1)));
        txn_response(history, LAST_PUT).responses = vec![previous];
    });
    assert_eq!(rules, [Rule::WrongResponse]);
}

#[test]
fn a_refused_write_that_was_done() {
    let rules = broken(|history| {
        let refused = Outcome::Refused(Refusal::Other("no".into()));
        history.operations[UNKNOWN_PUT].call = Call::Txn(put("b", "4"), refused);
    });
    assert!(rules.contains(&Rule::RefusedWrite), "{rules:?}");
}

#[test]
fn a_change_that_nobody_asked_for() {
    for unknown in [UNKNOWN_PUT, UNKNOWN_DELETE] {
        let rules = broken(|history| {
            history.operations.remove(unknown);
        });
        assert_eq!(rules, [Rule::WriteFromNowhere]);
    }
}

/// Two deletions of b are in the log. For the first, either request fits only through its range.
#[test]
fn unknown_deletions_are_matched() {
    let explained = |ranges: &[KeyRange]| {
        broken(|history| {
            let put_again = Call::Txn(put("b", "8"), done(8, vec![OpResponse::Put(None)]));
            history.operations.push(operation(210, put_again));
            let again = [
                events(225, vec![kv("b", "8", 8, 8, 1)]),
                events(245, vec![deleted("b", 9)]),
            ];
            history.log.responses.extend(again);
            history.operations.remove(UNKNOWN_DELETE);
            for range in ranges {
                let unknown = Call::Txn(delete(range.clone()), Outcome::Unknown);
                history.operations.push(operation(150, unknown));
            }
        })
    };
    let (one, both) = (KeyRange::one("b"), range("a", "c"));
    assert_eq!(explained(&[one.clone(), both.clone()]), []);
    assert_eq!(
        explained(&[both, range("c", "d")]),
        [Rule::WriteFromNowhere]
    );
    // The key c exists and is not deleted.
    assert_eq!(explained(&[one, range("a", "d")]), [Rule::WriteFromNowhere]);
}

#[test]
fn a_stale_read() {
    let stale = |history: &mut History| {
        let response = range_response(history, LIMITED);
        response.revision = 4;
        response.kvs = vec![kv("b", "2", 3, 3, 1)];
    };
    assert_eq!(broken(stale), [Rule::StaleRead]);
    // A client had seen revision 5 on a watch only; before that, 4 was the newest.
    let rules = broken(|history| {
        stale(history);
        set_times(&mut history.operations[LIMITED], 80);
    });
    assert_eq!(rules, []);
    // A transaction that changes nothing is a read, too.
    let rules = broken(|history| txn_response(history, CREATE_AGAIN).revision = 5);
    assert_eq!(rules, [Rule::StaleRead]);
    // So is a revision called future that exists.
    let rules = broken(|history| {
        let request = RangeRequest {
            revision: 7,
            ..RangeRequest::default()
        };
        let refused = Call::Range(request, Outcome::Refused(Refusal::FutureRevision));
        history.operations.push(operation(210, refused));
    });
    assert_eq!(rules, [Rule::StaleRead]);
}

#[test]
fn a_read_from_the_future() {
    let rules = broken(|history| range_response(history, LIMITED).revision = 8);
    assert!(rules.contains(&Rule::FutureRead), "{rules:?}");
    // The write that the read saw was called after the read had returned.
    let rules = broken(|history| {
        let response = range_response(history, LIMITED);
        response.revision = 7;
        response.kvs = vec![kv("c", "3", 4, 4, 1)];
    });
    assert!(rules.contains(&Rule::WriteOrder), "{rules:?}");
}

#[test]
fn a_read_with_wrong_keys() {
    let rules = broken(|history| range_response(history, PAST).kvs[0].value = "9".into());
    assert_eq!(rules, [Rule::WrongRead]);
    let rules = broken(|history| {
        range_response(history, PAST).kvs.pop();
    });
    assert_eq!(rules, [Rule::WrongRead]);
    let rules = broken(|history| range_response(history, PAST).kvs.reverse());
    assert_eq!(rules, [Rule::WrongRead]);
}

#[test]
fn a_read_with_a_wrong_count() {
    let rules = broken(|history| range_response(history, LIMITED).count = 1);
    assert_eq!(rules, [Rule::WrongCount]);
    let rules = broken(|history| range_response(history, LIMITED).more = false);
    assert_eq!(rules, [Rule::WrongCount]);
}

#[test]
fn compaction_ignored_or_made_up() {
    // Reads revision 2 after the compaction to 3.
    let rules = broken(|history| {
        let Call::Range(request, Outcome::Done(response)) = &mut history.operations[PAST].call
        else {
            panic!("a range")
        };
        request.revision = 2;
        response.revision = 6;
        response.kvs.pop();
        response.count = 1;
        set_times(&mut history.operations[PAST], 180);
    });
    assert_eq!(rules, [Rule::Compaction]);
    for (revision, allowed) in [(2, true), (3, false)] {
        let rules = broken(|history| {
            let request = RangeRequest {
                revision,
                ..RangeRequest::default()
            };
            let refused = Call::Range(request, Outcome::Refused(Refusal::Compacted));
            history.operations.push(operation(180, refused));
        });
        assert_eq!(rules.is_empty(), allowed, "{rules:?}");
    }
}

/// The revision to which a stream is pinned is known when its first part arrives.
#[test]
fn a_stream_settles_its_revision_early() {
    let rules = broken(|history| {
        // The stream starts before the last write is called, and ends after it.
        let state = RangeResponse {
            revision: 7,
            kvs: vec![kv("c", "3", 4, 4, 1), kv("d", "5", 7, 7, 1)],
            count: 2,
            more: false,
        };
        let request = RangeRequest {
            range: range("a", "z"),
            stream: true,
            ..RangeRequest::default()
        };
        let mut stream = operation(171, Call::Range(request, Outcome::Done(state)));
        stream.settled = 180;
        stream.returned = 300;
        history.operations.push(stream);
    });
    assert_eq!(rules, [Rule::WriteOrder]);
}

#[test]
fn a_get_in_a_transaction_sees_its_changes() {
    let mut txn = put("d", "9");
    txn.success.push(Change::Get(range("c", "z")));
    let responses = |seen: &str| {
        let before = OpResponse::Put(Some(kv("d", "5", 7, 7, 1)));
        let d = kv("d", seen, 7, 8, 2);
        vec![before, OpResponse::Get(vec![kv("c", "3", 4, 4, 1), d])]
    };
    for (seen, expected) in [("9", vec![]), ("5", vec![Rule::WrongResponse])] {
        let rules = broken(|history| {
            let call = Call::Txn(txn.clone(), done(8, responses(seen)));
            history.operations.push(operation(220, call));
            let event = events(235, vec![kv("d", "9", 7, 8, 2)]);
            history.log.responses.push(event);
        });
        assert_eq!(rules, expected);
    }
}
