//! Txn: compares, nesting, limits, duplicate keys, revisions.

use bytes::Bytes;
use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, TargetUnion};
use etcd_api::proto::etcdserverpb::response_op::Response;
use etcd_api::proto::etcdserverpb::{Compare, RangeRequest, RequestOp, TxnRequest, TxnResponse};

use crate::harness::{ONE_ENCODING, Target, assert_refused, cases, keys};
use crate::request::{absent, compare, delete, everything, op, put, range, txn};

cases![on ONE_ENCODING;
    compare_table, compare_of_a_missing_key, compare_over_a_range, compares_are_a_conjunction,
    failure_branch_runs_otherwise, too_many_operations, nested_budget_shrinks,
    operations_limit_follows_the_flag with ["--max-txn-ops=3"],
    duplicate_keys, duplicate_key_quirks, nothing_is_applied_on_error, untaken_branch_is_not_checked,
    nested_compares_see_the_state_before, nested_operations_see_earlier_writes, nested_path,
    revision_is_shared, read_only_changes_nothing, delete_miss_changes_nothing, range_revisions,
    ranges_answer_as_outside, responses_follow_operations, create_if_absent_once,
    optimistic_update_and_delete,
];

fn responses(response: TxnResponse) -> Vec<Response> {
    response
        .responses
        .into_iter()
        .map(|op| op.response.expect("every response has an arm"))
        .collect()
}

fn only_puts(n: usize) -> Vec<RequestOp> {
    (0..n).map(|i| op(put(format!("k{i:04}"), "v"))).collect()
}

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
    // The operand's arm does not count where it is not the target's: a missing one is zero.
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

async fn failure_branch_runs_otherwise(t: Target) {
    let request = TxnRequest {
        compare: vec![absent("k")],
        success: vec![op(put("k", "first"))],
        failure: vec![op(range("k", "")), op(put("k", "again"))],
    };
    assert!(t.txn(request.clone()).await.expect("txn").succeeded);
    let second = t.txn(request).await.expect("txn");
    assert!(!second.succeeded);
    let [Response::ResponseRange(found), Response::ResponsePut(_)] = &responses(second)[..] else {
        panic!("the failure branch's range and put")
    };
    assert_eq!(
        &found.kvs[0].value[..],
        b"first",
        "read before it was overwritten"
    );
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
    // What a nested txn may hold is the limit less the longest list of its parent.
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

/// Two holes in the duplicate rule let one revision touch a key twice; clients have seen it.
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

async fn nested_operations_see_earlier_writes(t: Target) {
    let inner = txn(vec![op(range("k", "")), op(range("later", ""))]);
    let response = t
        .txn(txn(vec![
            op(put("k", "v")),
            op(inner),
            op(put("later", "v")),
        ]))
        .await
        .expect("txn");
    let [_, Response::ResponseTxn(inner), _] = &responses(response)[..] else {
        panic!("put, txn, put")
    };
    let [
        Response::ResponseRange(found),
        Response::ResponseRange(not_yet),
    ] = &responses(inner.clone())[..]
    else {
        panic!("two ranges")
    };
    assert_eq!((keys(found), keys(not_yet)), (vec!["k".to_owned()], vec![]));
    assert_eq!((found.kvs[0].mod_revision, found.kvs[0].version), (2, 1));
}

/// Every path through three levels of branches, by which compares hold.
async fn nested_path(t: Target) {
    t.set("set", "v").await;
    let choose = |yes: bool| {
        if yes {
            compare("set", CompareResult::Equal, TargetUnion::Version(1))
        } else {
            absent("set")
        }
    };
    for path in 0..8_u8 {
        let taken = |level: u8| path & (1 << level) != 0;
        let mut request = txn(vec![]);
        for level in (0..3).rev() {
            // Only the branch of the path leads on; a wrong turn would write a key that is found below.
            let on = if level == 2 {
                op(put(format!("end/{path}"), "v"))
            } else {
                op(request)
            };
            let off = op(put("wrong", "v"));
            let (success, failure) = if taken(level) {
                (vec![on], vec![off])
            } else {
                (vec![off], vec![on])
            };
            request = TxnRequest {
                compare: vec![choose(taken(level))],
                success,
                failure,
            };
        }
        let response = t.txn(request).await.expect("txn");
        assert_eq!(response.succeeded, taken(0), "path {path:03b}");
        assert_eq!(
            t.range(range("wrong", "")).await.expect("range").count,
            0,
            "path {path:03b}"
        );
        assert_eq!(
            t.range(range(format!("end/{path}"), ""))
                .await
                .expect("range")
                .count,
            1,
            "path {path:03b}"
        );
    }
}

async fn revision_is_shared(t: Target) {
    let response = t
        .txn(txn(vec![
            op(put("a", "v")),
            op(range("a", "")),
            op(put("b", "v")),
            op(delete("a", "b")),
            op(everything()),
        ]))
        .await;
    // a is put and deleted in one txn: refused. The same without the delete shares revision 2.
    assert_refused(response, Refusal::DuplicateKey);
    let response = t
        .txn(txn(vec![
            op(put("a", "v")),
            op(range("a", "")),
            op(put("b", "v")),
            op(everything()),
        ]))
        .await
        .expect("txn");
    assert_eq!(response.header.as_ref().expect("header").revision, 2);
    let [
        Response::ResponsePut(first),
        Response::ResponseRange(one),
        Response::ResponsePut(_),
        Response::ResponseRange(both),
    ] = &responses(response)[..]
    else {
        panic!("put, range, put, range")
    };
    let inner = first.header.as_ref().expect("an inner header");
    assert_eq!(
        (
            inner.revision,
            inner.cluster_id,
            inner.member_id,
            inner.raft_term
        ),
        (2, 0, 0, 0),
        "only the revision"
    );
    assert_eq!(one.header.as_ref().expect("an inner header").revision, 2);
    let revisions: Vec<_> = both
        .kvs
        .iter()
        .map(|kv| (kv.mod_revision, kv.version))
        .collect();
    assert_eq!(revisions, [(2, 1), (2, 1)]);
    assert_eq!(t.set("c", "v").await, 3);
}

async fn read_only_changes_nothing(t: Target) {
    let revision = t.set("k", "v").await;
    for serializable in [false, true] {
        let read = RangeRequest {
            serializable,
            ..everything()
        };
        let response = t
            .txn(txn(vec![op(read.clone()), op(read)]))
            .await
            .expect("txn");
        assert_eq!(response.header.expect("header").revision, revision);
    }
    let empty = t.txn(TxnRequest::default()).await.expect("an empty txn");
    assert_eq!(
        (empty.succeeded, empty.header.expect("header").revision),
        (true, revision)
    );
    assert_eq!(t.revision().await, revision);
}

async fn delete_miss_changes_nothing(t: Target) {
    let revision = t.set("k", "v").await;
    let response = t
        .txn(txn(vec![
            op(delete("x", "")),
            op(txn(vec![op(delete("y", "z"))])),
        ]))
        .await
        .expect("txn");
    assert_eq!(response.header.expect("header").revision, revision);
    assert_eq!(t.revision().await, revision);
}

async fn range_revisions(t: Target) {
    let mut revision = 0;
    for value in ["1", "2", "3"] {
        revision = t.set("k", value).await;
    }
    let at = |revision| {
        txn(vec![
            op(RangeRequest {
                revision,
                ..range("k", "")
            }),
            op(put("other", "v")),
        ])
    };
    let value = |response: TxnResponse| match responses(response).swap_remove(0) {
        Response::ResponseRange(range) => range.kvs[0].value.clone(),
        other => panic!("a range, not {other:?}"),
    };
    for (asked, expected) in [(0, "3"), (-1, "3"), (2, "1"), (3, "2"), (4, "3")] {
        let response = t
            .txn(at(asked))
            .await
            .unwrap_or_else(|status| panic!("revision {asked}: {status}"));
        assert_eq!(value(response), expected, "at revision {asked}");
    }
    assert_refused(t.txn(at(99)).await, Refusal::FutureRevision);
    t.compact(revision, false).await.expect("compact");
    assert_refused(t.txn(at(3)).await, Refusal::Compacted);
    assert_eq!(
        value(t.txn(at(4)).await.expect("the compacted revision itself")),
        "3"
    );
    assert_refused(t.txn(at(-1)).await, Refusal::Compacted);
    let unary = RangeRequest {
        revision: -1,
        ..range("k", "")
    };
    assert_eq!(
        t.range(unary)
            .await
            .expect("a unary range takes a negative revision always")
            .count,
        1
    );
    let read_only = txn(vec![op(RangeRequest {
        revision: 3,
        ..range("k", "")
    })]);
    assert_refused(t.txn(read_only).await, Refusal::Compacted);
}

async fn ranges_answer_as_outside(t: Target) {
    crate::kv::five_keys(&t).await;
    let request = RangeRequest {
        limit: 2,
        ..everything()
    };
    let response = t
        .txn(txn(vec![
            op(request),
            op(RangeRequest {
                count_only: true,
                ..everything()
            }),
        ]))
        .await
        .expect("txn");
    let [
        Response::ResponseRange(page),
        Response::ResponseRange(count),
    ] = &responses(response)[..]
    else {
        panic!("two ranges")
    };
    assert_eq!(
        (keys(page), page.more, page.count),
        (vec!["a".to_owned(), "b".to_owned()], true, 5)
    );
    assert_eq!((count.kvs.len(), count.count), (0, 5));
}

async fn responses_follow_operations(t: Target) {
    t.set("k", "old").await;
    let mut replacing = put("k", "new");
    replacing.prev_kv = true;
    let mut deleting = delete("x", "z");
    deleting.prev_kv = true;
    t.set("x", "gone").await;
    let ops = vec![
        op(replacing),
        op(deleting),
        op(range("k", "")),
        op(TxnRequest {
            compare: vec![absent("k")],
            ..Default::default()
        }),
    ];
    let response = t.txn(txn(ops)).await.expect("txn");
    let [
        Response::ResponsePut(put),
        Response::ResponseDeleteRange(deleted),
        Response::ResponseRange(found),
        Response::ResponseTxn(nested),
    ] = &responses(response)[..]
    else {
        panic!("put, delete, range, txn")
    };
    assert_eq!(
        put.prev_kv.as_ref().map(|kv| &kv.value[..]),
        Some(&b"old"[..])
    );
    assert_eq!(
        (deleted.deleted, &deleted.prev_kvs[0].value[..]),
        (1, &b"gone"[..])
    );
    assert_eq!(&found.kvs[0].value[..], b"new");
    assert!(!nested.succeeded);
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
