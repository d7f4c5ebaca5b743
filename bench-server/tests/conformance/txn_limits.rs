//! Transactions that are refused: too many operations, duplicate keys, invalid operations inside.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::{RangeRequest, RequestOp, TxnRequest};

use crate::harness::{ONE_ENCODING, Target, assert_refused, cases};
use crate::request::{absent, delete, everything, op, put, range, txn};

cases![on ONE_ENCODING;
    too_many_operations, nested_budget_shrinks, operations_limit_follows_the_flag with ["--max-txn-ops=3"],
    duplicate_keys, duplicate_key_quirks, nothing_is_applied_on_error, untaken_branch_is_not_checked,
];

fn only_puts(n: usize) -> Vec<RequestOp> {
    (0..n).map(|i| op(put(format!("k{i:04}"), "v"))).collect()
}

async fn too_many_operations(t: Target) {
    let compares = |n: usize| (0..n).map(|i| absent(format!("k{i}"))).collect::<Vec<_>>();
    for n in [128, 129] {
        let requests = [
            (
                "compares",
                TxnRequest {
                    compare: compares(n),
                    ..Default::default()
                },
            ),
            (
                "success",
                TxnRequest {
                    success: only_puts(n),
                    ..Default::default()
                },
            ),
            (
                "failure",
                TxnRequest {
                    failure: only_puts(n),
                    ..Default::default()
                },
            ),
            (
                "reads too",
                txn((0..n).map(|_| op(range("k", ""))).collect()),
            ),
        ];
        for (name, request) in requests {
            let result = t.txn(request).await;
            match n {
                128 => assert!(result.is_ok(), "128 {name}: {result:?}"),
                _ => assert_refused(result, Refusal::TooManyOps),
            }
        }
    }
}

async fn nested_budget_shrinks(t: Target) {
    // The limit of a nested txn is that of its parent less the length of the parent's longest list.
    let nested = |n: usize| {
        (0..n)
            .map(|i| op(txn(vec![op(put(format!("k{i:03}"), "v"))])))
            .collect::<Vec<_>>()
    };
    t.txn(txn(nested(127)))
        .await
        .expect("127 nested, each with the one operation left");
    assert_refused(t.txn(txn(nested(128))).await, Refusal::TooManyOps);
    t.txn(txn(vec![op(txn(only_puts(127)))]))
        .await
        .expect("one nested of 127");
    assert_refused(
        t.txn(txn(vec![op(txn(only_puts(128)))])).await,
        Refusal::TooManyOps,
    );
}

async fn operations_limit_follows_the_flag(t: Target) {
    t.txn(txn(only_puts(3))).await.expect("three");
    assert_refused(t.txn(txn(only_puts(4))).await, Refusal::TooManyOps);
}

async fn duplicate_keys(t: Target) {
    let nest = |ops: Vec<RequestOp>| op(txn(ops));
    let branches = |success, failure| {
        op(TxnRequest {
            success,
            failure,
            ..Default::default()
        })
    };
    let p = |key: &'static str| op(put(key, "v"));
    let d = |key: &'static str, end: &'static str| op(delete(key, end));
    let refused = [
        ("two puts", vec![p("a"), p("a")]),
        ("put, then its delete", vec![p("a"), d("a", "")]),
        ("delete, then put", vec![d("a", ""), p("a")]),
        ("put inside a deleted interval", vec![d("a", "c"), p("b")]),
        (
            "put, then the interval around it",
            vec![p("b"), d("a", "c")],
        ),
        ("parent and child put", vec![p("a"), nest(vec![p("a")])]),
        ("child and parent put", vec![nest(vec![p("a")]), p("a")]),
        (
            "parent deletes what the child puts",
            vec![d("a", "c"), nest(vec![p("b")])],
        ),
        ("siblings put", vec![nest(vec![p("a")]), nest(vec![p("a")])]),
        (
            "three levels apart",
            vec![p("a"), nest(vec![nest(vec![p("a")])])],
        ),
        (
            "in the branch not taken",
            vec![p("a"), branches(vec![], vec![p("a")])],
        ),
    ];
    for (name, ops) in refused {
        let Err(status) = t.txn(txn(ops.clone())).await else {
            panic!("{name} was accepted")
        };
        assert_eq!(status.message(), Refusal::DuplicateKey.text(), "{name}");
        assert_refused(
            t.txn(TxnRequest {
                failure: ops,
                ..Default::default()
            })
            .await,
            Refusal::DuplicateKey,
        );
    }
    let accepted = [
        ("two keys", vec![p("a"), p("b")]),
        (
            "overlapping deletes",
            vec![d("a", "c"), d("b", "d"), d("b", "")],
        ),
        ("put at the open end of a delete", vec![d("a", "c"), p("c")]),
        (
            "reads of what is written",
            vec![op(range("a", "")), p("a"), op(range("a", ""))],
        ),
        (
            "then and else of one nested txn",
            vec![branches(vec![p("a")], vec![p("a")])],
        ),
    ];
    for (name, ops) in accepted {
        assert!(t.txn(txn(ops)).await.is_ok(), "{name}");
    }
    let across = TxnRequest {
        success: vec![p("a")],
        failure: vec![p("a")],
        ..Default::default()
    };
    assert!(
        t.txn(across).await.is_ok(),
        "then and else of the outermost txn"
    );
}

/// Two gaps in the check for duplicate keys let one revision change a key twice. Clients of etcd
/// have observed this.
async fn duplicate_key_quirks(t: Target) {
    let before = t.set("m", "v").await;
    t.txn(txn(vec![op(delete("m", "\0")), op(put("x", "v"))]))
        .await
        .expect("delete to the end, then put");
    assert_eq!(t.all_keys().await, ["x"]);
    t.txn(txn(vec![op(put("y", "v")), op(delete("m", "\0"))]))
        .await
        .expect("put, then delete to the end");
    assert_eq!(
        t.all_keys().await,
        [""; 0],
        "the delete takes what the same revision wrote"
    );

    let nest = |ops| op(txn(ops));
    t.txn(txn(vec![
        nest(vec![op(put("a", "v"))]),
        nest(vec![op(delete("a", ""))]),
    ]))
    .await
    .expect("siblings: put, then delete");
    assert_eq!(t.all_keys().await, [""; 0]);
    let reversed = txn(vec![
        nest(vec![op(delete("a", ""))]),
        nest(vec![op(put("a", "v"))]),
    ]);
    assert_refused(t.txn(reversed).await, Refusal::DuplicateKey);
    assert_eq!(t.revision().await, before + 3);
}

async fn nothing_is_applied_on_error(t: Target) {
    let before = t.set("k", "v").await;
    let mut leased = put("z", "v");
    leased.lease = 404;
    let failing = [
        (op(leased), Refusal::LeaseNotFound),
        (
            op(RangeRequest {
                revision: before + 1,
                ..everything()
            }),
            Refusal::FutureRevision,
        ),
        (
            op(RangeRequest {
                revision: before + 5,
                ..everything()
            }),
            Refusal::FutureRevision,
        ),
        (RequestOp::default(), Refusal::KeyNotFound),
        (op(range("", "")), Refusal::EmptyKey),
        (op(put("", "v")), Refusal::EmptyKey),
        (op(delete("", "")), Refusal::EmptyKey),
        (
            op(RangeRequest {
                sort_order: 9,
                ..everything()
            }),
            Refusal::InvalidSortOption,
        ),
    ];
    for (last, refusal) in failing {
        let result = t
            .txn(txn(vec![
                op(put("a", "v")),
                op(delete("k", "")),
                last.clone(),
            ]))
            .await;
        assert_refused(result, refusal);
        assert_refused(
            t.txn(txn(vec![op(put("a", "v")), op(txn(vec![last]))]))
                .await,
            refusal,
        );
    }
    let missing = |ignore: fn(&mut etcd_api::proto::etcdserverpb::PutRequest)| {
        let mut request = put("nowhere", "");
        ignore(&mut request);
        txn(vec![op(put("a", "v")), op(request)])
    };
    assert_refused(
        t.txn(missing(|put| put.ignore_value = true)).await,
        Refusal::KeyNotFound,
    );
    assert_refused(
        t.txn(missing(|put| put.ignore_lease = true)).await,
        Refusal::KeyNotFound,
    );
    assert_refused(
        t.txn(TxnRequest {
            compare: vec![absent("")],
            ..Default::default()
        })
        .await,
        Refusal::EmptyKey,
    );
    assert_eq!(
        (t.all_keys().await, t.revision().await),
        (vec!["k".to_owned()], before)
    );
}

async fn untaken_branch_is_not_checked(t: Target) {
    let mut leased = put("z", "v");
    leased.lease = 404;
    let untaken = vec![
        op(leased),
        op(RangeRequest {
            revision: 99,
            ..everything()
        }),
    ];
    let request = TxnRequest {
        success: vec![op(put("a", "v"))],
        failure: untaken,
        ..Default::default()
    };
    assert!(
        t.txn(request)
            .await
            .expect("what is not run is not looked up")
            .succeeded
    );
}
