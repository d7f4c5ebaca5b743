//! Txn: branches, order, nesting, revisions, responses.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, TargetUnion};
use etcd_api::proto::etcdserverpb::response_op::Response;
use etcd_api::proto::etcdserverpb::{RangeRequest, TxnRequest, TxnResponse};

use crate::harness::{ONE_ENCODING, Target, assert_refused, cases, keys};
use crate::request::{absent, compare, delete, everything, op, put, range, txn};

cases![on ONE_ENCODING;
    failure_branch_runs_otherwise, nested_operations_see_earlier_writes, nested_path,
    revision_is_shared, read_only_changes_nothing, delete_miss_changes_nothing, range_revisions,
    ranges_answer_as_outside, responses_follow_operations,
];

pub(crate) fn responses(response: TxnResponse) -> Vec<Response> {
    response
        .responses
        .into_iter()
        .map(|op| op.response.expect("every response has an arm"))
        .collect()
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

/// Tests every path through three levels of branches, chosen by compares that hold or not.
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
            // Only the path's branch leads to the next level; any other branch writes a key that is
            // checked for below.
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
    crate::range::five_keys(&t).await;
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
