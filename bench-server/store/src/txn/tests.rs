//! Tests of transactions that the model does not cover: nesting, limits, peculiarities of etcd.

use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::{AlarmType, Compare, DeleteRangeRequest, PutRequest};

use super::*;
use crate::Config;

fn put(key: &str) -> RequestOp {
    op(Request::RequestPut(PutRequest {
        key: key.to_owned().into(),
        ..Default::default()
    }))
}

fn delete(key: &str, range_end: &str) -> RequestOp {
    op(Request::RequestDeleteRange(DeleteRangeRequest {
        key: key.to_owned().into(),
        range_end: range_end.to_owned().into(),
        prev_kv: false,
    }))
}

fn get(key: &str, revision: i64) -> RequestOp {
    op(Request::RequestRange(RangeRequest {
        key: key.to_owned().into(),
        revision,
        ..Default::default()
    }))
}

fn nested(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
    op(Request::RequestTxn(TxnRequest {
        success,
        failure,
        ..Default::default()
    }))
}

fn op(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

fn compare(key: &str, target: CompareTarget, operand: TargetUnion) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: target.into(),
        key: key.to_owned().into(),
        target_union: Some(operand),
        ..Default::default()
    }
}

fn run(store: &Store, success: Vec<RequestOp>) -> Result<TxnResponse, Refusal> {
    store.txn(&TxnRequest {
        success,
        ..Default::default()
    })
}

fn when(store: &Store, compare: Compare) -> bool {
    let request = TxnRequest {
        compare: vec![compare],
        ..Default::default()
    };
    store
        .txn(&request)
        .expect("a transaction without operations")
        .succeeded
}

fn store() -> Store {
    Store::new(Config::default())
}

#[test]
fn duplicates_are_found_across_levels_with_the_exceptions_that_etcd_makes() {
    let x = || put("x");
    let refused = Err(Refusal::DuplicateKey);
    let outcome = |ops| run(&store(), ops).map(|_| ());
    assert_eq!(outcome(vec![x(), x()]), refused);
    assert_eq!(outcome(vec![x(), delete("a", "z")]), refused);
    assert_eq!(outcome(vec![delete("x", ""), x()]), refused);
    assert_eq!(outcome(vec![delete("a", "y"), delete("b", "z")]), Ok(()));
    assert_eq!(outcome(vec![x(), nested(vec![x()], vec![])]), refused);
    assert_eq!(outcome(vec![nested(vec![], vec![x()]), x()]), refused);
    assert_eq!(
        outcome(vec![delete("a", "z"), nested(vec![x()], vec![])]),
        refused
    );
    assert_eq!(
        outcome(vec![nested(vec![x()], vec![x()])]),
        Ok(()),
        "then or else"
    );
    let one = || nested(vec![x()], vec![]);
    assert_eq!(outcome(vec![one(), one()]), refused, "siblings");
    let gone = || nested(vec![delete("x", "")], vec![]);
    assert_eq!(outcome(vec![one(), gone()]), Ok(()), "put, then delete");
    assert_eq!(outcome(vec![gone(), one()]), refused, "delete, then put");
    assert_eq!(
        outcome(vec![delete("m", "\0"), x()]),
        Ok(()),
        "an open end hides it"
    );
    assert_eq!(outcome(vec![x(), delete("m", "\0")]), Ok(()));
}

#[test]
fn operations_are_limited_per_list_and_nested_ones_by_the_rest() {
    let puts = |n: usize| (0..n).map(|i| put(&i.to_string())).collect::<Vec<_>>();
    let outcome = |ops| run(&store(), ops).map(|_| ());
    assert_eq!(outcome(puts(128)), Ok(()));
    assert_eq!(outcome(puts(129)), Err(Refusal::TooManyOps));
    let singles = |n: usize| {
        let single = |i: usize| nested(vec![put(&i.to_string())], vec![]);
        (0..n).map(single).collect::<Vec<_>>()
    };
    assert_eq!(outcome(singles(127)), Ok(()));
    assert_eq!(outcome(singles(128)), Err(Refusal::TooManyOps));
}

#[test]
fn a_missing_key_compares_as_0_and_never_by_value() {
    let store = store();
    let zero = [
        (CompareTarget::Version, TargetUnion::Version(0)),
        (CompareTarget::Create, TargetUnion::CreateRevision(0)),
        (CompareTarget::Mod, TargetUnion::ModRevision(0)),
        (CompareTarget::Lease, TargetUnion::Lease(0)),
    ];
    for (target, operand) in zero {
        assert!(
            when(&store, compare("x", target, operand.clone())),
            "{target:?}"
        );
        let mismatched = TargetUnion::Value("1".into());
        assert!(
            when(&store, compare("x", target, mismatched)),
            "another arm is 0"
        );
    }
    let empty = compare("x", CompareTarget::Value, TargetUnion::Value("".into()));
    assert!(!when(&store, empty.clone()));
    let result = CompareResult::NotEqual.into();
    assert!(
        !when(&store, Compare { result, ..empty }),
        "not even as unequal"
    );
}

#[test]
fn every_key_of_a_range_compare_must_hold() {
    let store = store();
    run(&store, vec![put("a"), put("b")]).expect("puts");
    run(&store, vec![put("b")]).expect("a put");
    let version = |key, end: &str, version| {
        let compare = compare(key, CompareTarget::Version, TargetUnion::Version(version));
        let range_end = end.to_owned().into();
        Compare {
            range_end,
            ..compare
        }
    };
    assert!(!when(&store, version("a", "c", 1)));
    assert!(when(&store, version("b", "\0", 2)));
    assert!(
        when(&store, version("c", "\0", 0)),
        "no key at all is version 0"
    );
}

#[test]
fn compares_read_the_state_before_and_operations_earlier_writes() {
    let store = store();
    let absent = compare("x", CompareTarget::Version, TargetUnion::Version(0));
    let inner = TxnRequest {
        compare: vec![absent],
        success: vec![get("x", 0)],
        failure: vec![],
    };
    let response = run(&store, vec![put("x"), op(Request::RequestTxn(inner))]);
    let response = response.expect("a transaction");
    assert_eq!(response.header.expect("a header").revision, 2);
    let Some(Response::ResponseTxn(inner)) = &response.responses[1].response else {
        panic!("{response:?} answers the nested transaction second");
    };
    assert!(inner.succeeded, "x was not there before");
    assert_eq!(inner.header, Some(header(0)), "etcd leaves it empty");
    let Some(Response::ResponseRange(range)) = &inner.responses[0].response else {
        panic!("{inner:?} answers the range");
    };
    assert_eq!(range.count, 1, "x is there by now");
    assert_eq!(range.header.expect("a header").revision, 2);
}

#[test]
fn revisions_of_nested_ranges_are_checked_against_the_store_before() {
    let store = store();
    run(&store, vec![put("x")]).expect("a put");
    let future = run(&store, vec![put("x"), get("x", 3)]);
    assert_eq!(
        future,
        Err(Refusal::FutureRevision),
        "the one being made is not there"
    );
    let negative = run(&store, vec![put("x"), get("x", -1)]);
    assert!(
        negative.is_ok(),
        "below 0 is the latest until something is compacted"
    );
    store.compact(2).expect("a compaction");
    assert_eq!(
        run(&store, vec![put("x"), get("x", -1)]),
        Err(Refusal::Compacted)
    );
    assert_eq!(
        run(&store, vec![put("x"), get("x", 1)]),
        Err(Refusal::Compacted)
    );
    assert_eq!(
        store.revision(),
        3,
        "nothing of a refused transaction is applied"
    );
    let old = run(&store, vec![put("x"), get("x", 2)]).expect("a transaction");
    let Some(Response::ResponseRange(range)) = &old.responses[1].response else {
        panic!("{old:?} answers the range second");
    };
    assert_eq!(range.kvs[0].mod_revision, 2);
}

#[test]
fn a_branch_needs_its_leases_and_keys_only_when_it_runs() {
    let store = store();
    let leased = |key: &str| {
        op(Request::RequestPut(PutRequest {
            key: key.to_owned().into(),
            lease: 99,
            ..Default::default()
        }))
    };
    let refused = run(&store, vec![put("a"), leased("b")]);
    assert_eq!(refused, Err(Refusal::LeaseNotFound));
    assert_eq!(store.revision(), 1);
    let untaken = store.txn(&TxnRequest {
        success: vec![put("a")],
        failure: vec![leased("b")],
        ..Default::default()
    });
    assert!(untaken.is_ok());
    let keep = op(Request::RequestPut(PutRequest {
        key: "b".into(),
        ignore_value: true,
        ..Default::default()
    }));
    assert_eq!(run(&store, vec![put("c"), keep]), Err(Refusal::KeyNotFound));
    assert_eq!(
        run(&store, vec![RequestOp { request: None }]),
        Err(Refusal::KeyNotFound)
    );
}

#[test]
fn a_key_that_disappears_midway_undoes_the_transaction() {
    // The open end hides the overlap, so the check finds the key and the put does not.
    let store = store();
    run(&store, vec![put("x")]).expect("a put");
    let keep = op(Request::RequestPut(PutRequest {
        key: "x".into(),
        ignore_value: true,
        ..Default::default()
    }));
    let refused = run(&store, vec![put("a"), delete("m", "\0"), keep]);
    assert_eq!(refused, Err(Refusal::KeyNotFound));
    assert_eq!(store.revision(), 2);
    assert!(store.snapshot().get(b"x").is_some());
}

#[test]
fn a_full_store_raises_the_alarm_and_serves_reads_and_deletes() {
    let store = Store::new(Config {
        quota_backend_bytes: 64 * 1024,
        ..Config::default()
    });
    let value = PutRequest {
        key: "x".into(),
        value: vec![0; 20_000].into(),
        ..Default::default()
    };
    let puts = (0..10)
        .map(|_| store.put(&value))
        .take_while(Result::is_ok)
        .count();
    assert_eq!(
        puts, 2,
        "20 KiB of an empty store, two values, and a third is too much"
    );
    assert_eq!(store.alarms(), [AlarmType::Nospace]);
    assert!(store.clear_alarm(AlarmType::Nospace));
    let without_key = PutRequest {
        key: "".into(),
        ..value.clone()
    };
    assert_eq!(
        store.put(&without_key).map(drop),
        Err(Refusal::NoSpace),
        "the quota is looked at first"
    );
    assert_eq!(store.alarms(), [AlarmType::Nospace]);
    assert_eq!(run(&store, vec![put("y")]), Err(Refusal::NoSpace));
    let now = std::time::Instant::now();
    assert_eq!(store.lease_grant(0, 10, now), Err(Refusal::NoSpace));
    assert!(run(&store, vec![get("x", 0)]).is_ok());
    assert!(run(&store, vec![delete("x", "")]).is_ok());
    store.compact(store.revision()).expect("a compaction");
    assert_eq!(
        run(&store, vec![put("y")]),
        Err(Refusal::NoSpace),
        "until it is cleared"
    );
    assert!(store.clear_alarm(AlarmType::Nospace));
    assert!(run(&store, vec![put("y")]).is_ok());
}

#[test]
fn a_response_above_the_limit_is_refused_before_anything_is_written() {
    let store = Store::new(Config {
        max_response_bytes: 2_500,
        ..Config::default()
    });
    let large = |prev_kv| PutRequest {
        key: b"a".to_vec().into(),
        value: vec![7; 1_000].into(),
        prev_kv,
        ..Default::default()
    };
    store.put(&large(false)).expect("a plain put");
    let before = store.revision();
    let overwrite = || op(Request::RequestPut(large(true)));
    let delete = DeleteRangeRequest {
        key: b"a".to_vec().into(),
        prev_kv: true,
        ..Default::default()
    };
    for third in [
        get("a", 0),
        get("a", before),
        overwrite(),
        op(Request::RequestDeleteRange(delete)),
        nested(vec![get("a", 0)], vec![]),
    ] {
        let refused = run(&store, vec![get("a", 0), get("a", 0), third]);
        assert_eq!(refused.unwrap_err(), Refusal::ResponseTooLarge);
        assert_eq!(store.revision(), before);
    }
    let fits = run(&store, vec![get("a", 0), overwrite()]);
    assert_eq!(fits.expect("2,000 bytes").responses.len(), 2);
}
