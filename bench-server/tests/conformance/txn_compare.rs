//! The compares of a transaction: targets, results, missing keys, intervals, and idioms that use
//! them.

use bytes::Bytes;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, TargetUnion};
use etcd_api::proto::etcdserverpb::response_op::Response;
use etcd_api::proto::etcdserverpb::{Compare, TxnRequest};

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::request::{absent, compare, delete, op, put, range, txn};
use crate::txn::responses;

cases![on ONE_ENCODING;
    compare_table, compare_of_a_missing_key, compare_over_a_range, compares_are_a_conjunction,
    nested_compares_see_the_state_before, header_revision_agrees_with_compares,
    create_if_absent_once, optimistic_update_and_delete,
];

async fn holds(t: &Target, compare: Compare) -> bool {
    t.txn(TxnRequest {
        compare: vec![compare],
        ..Default::default()
    })
    .await
    .expect("a txn of compares")
    .succeeded
}

async fn compare_table(t: Target) {
    use CompareResult::{Equal, Greater, Less, NotEqual};
    use TargetUnion::{CreateRevision, Lease, ModRevision, Value, Version};
    // k: created at 3, changed at 4 and 5; version 3; lease 77; value "m".
    crate::lease::grant(&t, 600, 77).await;
    t.set("before", "v").await;
    t.set("k", "1").await;
    t.set("k", "2").await;
    let mut last = put("k", "m");
    last.lease = 77;
    t.put(last).await.expect("put");

    let value = |text: &'static str| Value(Bytes::from_static(text.as_bytes()));
    let rows = [
        ("version", [Version(2), Version(3), Version(4)]),
        (
            "create",
            [CreateRevision(2), CreateRevision(3), CreateRevision(4)],
        ),
        ("mod", [ModRevision(4), ModRevision(5), ModRevision(6)]),
        ("value", [value("l"), value("m"), value("mm")]),
        ("lease", [Lease(76), Lease(77), Lease(78)]),
    ];
    for (name, [below, same, above]) in rows {
        for (result, expected) in [
            (Equal, [false, true, false]),
            (NotEqual, [true, false, true]),
            (Greater, [true, false, false]),
            (Less, [false, false, true]),
        ] {
            let found = [
                holds(&t, compare("k", result, below.clone())).await,
                holds(&t, compare("k", result, same.clone())).await,
                holds(&t, compare("k", result, above.clone())).await,
            ];
            assert_eq!(
                found, expected,
                "{name} {result:?} to one below, the same, one above"
            );
        }
    }
    // An operand for another target is ignored; the missing operand counts as zero.
    let mut mismatched = compare("k", Greater, Version(1_000));
    mismatched.target = etcd_api::proto::etcdserverpb::compare::CompareTarget::Mod.into();
    assert!(holds(&t, mismatched).await, "mod revision 5 > 0");
}

async fn compare_of_a_missing_key(t: Target) {
    use CompareResult::{Equal, Greater, Less, NotEqual};
    use TargetUnion::{CreateRevision, Lease, ModRevision, Value, Version};
    for zero in [Version(0), CreateRevision(0), ModRevision(0), Lease(0)] {
        assert!(
            holds(&t, compare("missing", Equal, zero.clone())).await,
            "{zero:?}"
        );
        assert!(
            !holds(&t, compare("missing", NotEqual, zero.clone())).await,
            "{zero:?}"
        );
    }
    assert!(holds(&t, compare("missing", Less, ModRevision(1))).await);
    for result in [Equal, NotEqual, Greater, Less] {
        for value in ["", "x"] {
            let any = compare(
                "missing",
                result,
                Value(Bytes::from_static(value.as_bytes())),
            );
            assert!(
                !holds(&t, any).await,
                "a missing key has no value to compare: {result:?} {value:?}"
            );
        }
    }
}

async fn compare_over_a_range(t: Target) {
    let over = |key: &'static str, end: &'static str, result, operand| Compare {
        range_end: end.into(),
        ..compare(key, result, operand)
    };
    for key in ["a", "b", "c"] {
        t.set(key, "same").await;
    }
    t.set("d", "other").await;
    let same = TargetUnion::Value("same".into());
    let rows = [
        (
            "all of them",
            over("a", "d", CompareResult::Equal, same.clone()),
            true,
        ),
        (
            "one of them not",
            over("a", "e", CompareResult::Equal, same.clone()),
            false,
        ),
        (
            "to the end",
            over("a", "\0", CompareResult::Equal, same.clone()),
            false,
        ),
        (
            "the whole key space",
            over("\0", "\0", CompareResult::Greater, TargetUnion::Version(0)),
            true,
        ),
        (
            "all old enough",
            over("a", "d", CompareResult::Less, TargetUnion::ModRevision(5)),
            true,
        ),
        (
            "an empty interval is a missing key",
            over("x", "z", CompareResult::Equal, TargetUnion::Version(0)),
            true,
        ),
        (
            "which has no value",
            over("x", "z", CompareResult::Equal, same),
            false,
        ),
    ];
    for (name, compare, expected) in rows {
        assert_eq!(holds(&t, compare).await, expected, "{name}");
    }
}

async fn compares_are_a_conjunction(t: Target) {
    t.set("k", "v").await;
    let yes = compare("k", CompareResult::Equal, TargetUnion::Version(1));
    let no = absent("k");
    for (compares, expected) in [
        (vec![], true),
        (vec![yes.clone(), yes.clone()], true),
        (vec![yes, no.clone()], false),
        (vec![no], false),
    ] {
        let response = t
            .txn(TxnRequest {
                compare: compares,
                ..Default::default()
            })
            .await
            .expect("txn");
        assert_eq!(
            (response.succeeded, response.responses.len()),
            (expected, 0)
        );
    }
}

async fn nested_compares_see_the_state_before(t: Target) {
    let inner = TxnRequest {
        compare: vec![absent("k")],
        success: vec![op(put("was-absent", "v"))],
        failure: vec![op(put("was-there", "v"))],
    };
    t.txn(txn(vec![op(put("k", "v")), op(inner)]))
        .await
        .expect("txn");
    assert_eq!(t.all_keys().await, ["k", "was-absent"]);
}

/// The result of a compare must be that of the revision in the header.
async fn header_revision_agrees_with_compares(t: Target) {
    for i in 0..20 {
        let key = format!("k{i}");
        let asking = TxnRequest {
            compare: vec![absent(key.clone())],
            success: vec![op(range("k0", ""))],
            ..Default::default()
        };
        let (written, asked) = futures::future::join(t.set(key, "v"), t.txn(asking)).await;
        let asked = asked.expect("txn");
        let told = asked.header.expect("header").revision;
        assert_eq!(
            asked.succeeded,
            told < written,
            "written at {written}, asked at {told}"
        );
    }
}

async fn create_if_absent_once(t: Target) {
    let create = |value: String| TxnRequest {
        compare: vec![compare(
            "lock",
            CompareResult::Equal,
            TargetUnion::ModRevision(0),
        )],
        success: vec![op(put("lock", value))],
        failure: vec![op(range("lock", ""))],
    };
    let contenders = (0..20).map(|i| t.txn(create(i.to_string())));
    let won = futures::future::join_all(contenders)
        .await
        .into_iter()
        .filter(|r| r.as_ref().expect("txn").succeeded)
        .count();
    assert_eq!(won, 1, "one of twenty at once creates the key");
    assert_eq!(
        t.range(range("lock", "")).await.expect("range").kvs[0].version,
        1
    );
}

/// The two transactions that kube-apiserver writes with (KEP-4743).
async fn optimistic_update_and_delete(t: Target) {
    let at = |revision| {
        compare(
            "obj",
            CompareResult::Equal,
            TargetUnion::ModRevision(revision),
        )
    };
    let update = |revision, value: &'static str| TxnRequest {
        compare: vec![at(revision)],
        success: vec![op(put("obj", value))],
        failure: vec![op(range("obj", ""))],
    };
    let created = t
        .txn(update(0, "1"))
        .await
        .expect("create")
        .header
        .expect("header")
        .revision;
    assert!(t.txn(update(created, "2")).await.expect("update").succeeded);
    let stale = t.txn(update(created, "3")).await.expect("a stale update");
    assert!(!stale.succeeded);
    let Response::ResponseRange(current) = responses(stale).swap_remove(0) else {
        panic!("the current object")
    };
    assert_eq!(
        (&current.kvs[0].value[..], current.kvs[0].version),
        (&b"2"[..], 2)
    );
    let remove = |revision| TxnRequest {
        compare: vec![at(revision)],
        success: vec![op(delete("obj", ""))],
        failure: vec![op(range("obj", ""))],
    };
    assert!(
        !t.txn(remove(created))
            .await
            .expect("a stale delete")
            .succeeded
    );
    let removed = t
        .txn(remove(current.kvs[0].mod_revision))
        .await
        .expect("delete");
    assert!(removed.succeeded);
    assert_eq!(removed.header.expect("header").revision, created + 2);
}
