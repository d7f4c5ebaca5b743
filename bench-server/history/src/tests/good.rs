//! A small history without violations, which tests modify.

use crate::record::*;

pub(super) fn kv(key: &str, value: &str, create: i64, modified: i64, version: i64) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: value.into(),
        create_revision: create,
        mod_revision: modified,
        version,
        lease: 0,
    }
}

pub(super) fn deleted(key: &str, revision: i64) -> KeyValue {
    kv(key, "", 0, revision, 0)
}

pub(super) fn range(from: &str, end: &str) -> KeyRange {
    KeyRange {
        from: from.into(),
        end: end.into(),
    }
}

pub(super) fn put(key: &str, value: &str) -> Txn {
    Txn {
        success: vec![Change::Put(key.into(), value.into(), 0)],
        ..Txn::default()
    }
}

pub(super) fn delete(range: KeyRange) -> Txn {
    Txn {
        success: vec![Change::Delete(range)],
        ..Txn::default()
    }
}

pub(super) fn done(revision: i64, responses: Vec<OpResponse>) -> Outcome<TxnResponse> {
    Outcome::Done(TxnResponse {
        revision,
        succeeded: true,
        responses,
    })
}

/// Returns an operation that takes ten nanoseconds.
pub(super) fn operation(called: Nanoseconds, call: Call) -> Operation {
    Operation {
        client: 1,
        called,
        settled: called + 10,
        returned: called + 10,
        call,
    }
}

pub(super) fn events(at: Nanoseconds, kvs: Vec<KeyValue>) -> WatchResponse {
    let event = |kv| Event { kv, previous: None };
    WatchResponse {
        at,
        message: Message::Events(kvs.into_iter().map(event).collect()),
    }
}

pub(super) fn progress(at: Nanoseconds, revision: i64) -> WatchResponse {
    let message = Message::Progress(revision);
    WatchResponse { at, message }
}

/// Positions in `History::operations`.
pub(super) const PUT_B: usize = 1;
pub(super) const MOVE: usize = 2;
pub(super) const UNKNOWN_PUT: usize = 3;
pub(super) const LIMITED: usize = 4;
pub(super) const PAST: usize = 5;
pub(super) const UNKNOWN_DELETE: usize = 7;
pub(super) const CREATE_AGAIN: usize = 8;
pub(super) const LAST_PUT: usize = 9;

/// Returns a history of seven revisions, made by one client after the other.
pub(super) fn good() -> History {
    let a = kv("a", "1", 2, 2, 1);
    let b = kv("b", "2", 3, 3, 1);
    let b_again = kv("b", "4", 3, 5, 2);
    let c = kv("c", "3", 4, 4, 1);
    let create = |key: &str, value: &str| Txn {
        compares: vec![Compare {
            key: key.into(),
            mod_revision: 0,
        }],
        success: vec![Change::Put(key.into(), value.into(), 0)],
        failure: vec![Change::Get(KeyRange::one(key))],
    };
    let mut rename = create("c", "3");
    rename.success.push(Change::Delete(KeyRange::one("a")));
    let limited = RangeRequest {
        range: range("a", "z"),
        limit: 1,
        ..RangeRequest::default()
    };
    let limited_response = RangeResponse {
        revision: 5,
        kvs: vec![b_again.clone()],
        count: 2,
        more: true,
    };
    let past = RangeRequest {
        range: range("a", "z"),
        revision: 3,
        ..RangeRequest::default()
    };
    let past_response = RangeResponse {
        revision: 5,
        kvs: vec![a.clone(), b.clone()],
        count: 2,
        more: false,
    };
    let exists = TxnResponse {
        revision: 6,
        succeeded: false,
        responses: vec![OpResponse::Get(vec![c.clone()])],
    };
    let moved = vec![OpResponse::Put(None), OpResponse::Delete(vec![a.clone()])];
    let delete_b = delete(KeyRange::one("b"));
    let calls = vec![
        Call::Txn(put("a", "1"), done(2, vec![OpResponse::Put(None)])),
        Call::Txn(put("b", "2"), done(3, vec![OpResponse::Put(None)])),
        Call::Txn(rename, done(4, moved)),
        Call::Txn(put("b", "4"), Outcome::Unknown),
        Call::Range(limited, Outcome::Done(limited_response)),
        Call::Range(past, Outcome::Done(past_response)),
        Call::Compact(3, Outcome::Done(5)),
        Call::Txn(delete_b, Outcome::Unknown),
        Call::Txn(create("c", "6"), Outcome::Done(exists)),
        Call::Txn(put("d", "5"), done(7, vec![OpResponse::Put(None)])),
    ];
    let times = (0..).map(|nth| 10 + 20 * nth);
    let operations = calls.into_iter().zip(times);
    let operations = operations.map(|(call, called)| operation(called, call));
    let log = vec![
        events(25, vec![a.clone()]),
        events(45, vec![b.clone()]),
        events(65, vec![c.clone(), deleted("a", 4)]),
        events(85, vec![b_again.clone()]),
        events(165, vec![deleted("b", 6)]),
        events(205, vec![kv("d", "5", 7, 7, 1)]),
    ];
    let mut told = vec![
        events(25, vec![a]),
        events(45, vec![b.clone()]),
        events(65, vec![c, deleted("a", 4)]),
        events(85, vec![b_again]),
        progress(100, 5),
        events(165, vec![deleted("b", 6)]),
        progress(210, 7),
    ];
    if let Message::Events(events) = &mut told[3].message {
        events[0].previous = Some(b);
    }
    History {
        log: Watch {
            range: range("", "~"),
            start: 2,
            responses: log,
            ..Watch::default()
        },
        operations: operations.collect(),
        watches: vec![Watch {
            client: 2,
            range: range("a", "d"),
            start: 2,
            responses: told,
        }],
        leases: Vec::new(),
    }
}
