//! Put and DeleteRange, and the header of every response.

use etcd_api::error::Refusal;
use etcd_api::proto::mvccpb::KeyValue;

use crate::harness::{ONE_ENCODING, Target, assert_refused, cases};
use crate::range::five_keys;
use crate::request::{delete, everything, put, range};

cases![on ONE_ENCODING;

put_overwrites, put_with_prev_kv, put_ignoring_value,
put_ignoring_lease, put_needs_its_lease, delete_range_table, delete_miss_changes_nothing,
delete_returns_previous_in_order, recreated_key_starts_over, header_tells_who_and_when,
];

async fn put_overwrites(t: Target) {
    for (i, value) in ["one", "two", "two"].into_iter().enumerate() {
        assert_eq!(
            t.set("k", value).await,
            2 + i as i64,
            "every put is a revision, an equal value too"
        );
    }
    let kv = t.range(range("k", "")).await.expect("range").kvs.remove(0);
    let expected = KeyValue {
        key: "k".into(),
        value: "two".into(),
        create_revision: 2,
        mod_revision: 4,
        version: 3,
        lease: 0,
    };
    assert_eq!(kv, expected);
}

async fn put_with_prev_kv(t: Target) {
    let mut request = put("k", "one");
    request.prev_kv = true;
    assert_eq!(
        t.put(request.clone()).await.expect("put").prev_kv,
        None,
        "nothing before the first"
    );
    request.value = "two".into();
    let previous = t
        .put(request)
        .await
        .expect("put")
        .prev_kv
        .expect("the first value");
    assert_eq!(
        (&previous.value[..], previous.version, previous.mod_revision),
        (&b"one"[..], 1, 2)
    );
    assert_eq!(
        t.put(put("k", "three")).await.expect("put").prev_kv,
        None,
        "only when asked for"
    );
}

async fn put_ignoring_value(t: Target) {
    let mut ignoring = put("k", "");
    ignoring.ignore_value = true;
    assert_refused(t.put(ignoring.clone()).await, Refusal::KeyNotFound);
    t.set("k", "kept").await;
    let mut contradictory = ignoring.clone();
    contradictory.value = "x".into();
    assert_refused(t.put(contradictory).await, Refusal::ValueProvided);
    t.put(ignoring).await.expect("put");
    let kv = t.range(range("k", "")).await.expect("range").kvs.remove(0);
    assert_eq!(
        (&kv.value[..], kv.version, kv.mod_revision),
        (&b"kept"[..], 2, 3)
    );
}

async fn put_ignoring_lease(t: Target) {
    let id = crate::lease::grant(&t, 600, 0).await;
    let mut ignoring = put("k", "new");
    ignoring.ignore_lease = true;
    assert_refused(t.put(ignoring.clone()).await, Refusal::KeyNotFound);
    let mut leased = put("k", "old");
    leased.lease = id;
    t.put(leased).await.expect("put");
    let mut contradictory = ignoring.clone();
    contradictory.lease = id;
    assert_refused(t.put(contradictory).await, Refusal::LeaseProvided);
    t.put(ignoring).await.expect("put");
    let kv = t.range(range("k", "")).await.expect("range").kvs.remove(0);
    assert_eq!((&kv.value[..], kv.lease, kv.version), (&b"new"[..], id, 2));
    t.set("k", "detached").await;
    let kv = t.range(range("k", "")).await.expect("range").kvs.remove(0);
    assert_eq!(kv.lease, 0, "a put that names no lease detaches the key");
}

async fn put_needs_its_lease(t: Target) {
    for id in [123_456, -5] {
        let mut request = put("k", "v");
        request.lease = id;
        assert_refused(t.put(request).await, Refusal::LeaseNotFound);
    }
    assert_eq!(
        (t.all_keys().await.len(), t.revision().await),
        (0, 1),
        "nothing was written"
    );
}

async fn delete_range_table(t: Target) {
    let rows: &[(&str, &str, &str, i64, &[&str])] = &[
        ("one key", "b", "", 1, &["a", "c", "d", "e"]),
        ("a missing key", "bb", "", 0, &["a", "b", "c", "d", "e"]),
        ("half-open", "b", "d", 2, &["a", "d", "e"]),
        ("empty interval", "d", "d", 0, &["a", "b", "c", "d", "e"]),
        ("inverted interval", "d", "b", 0, &["a", "b", "c", "d", "e"]),
        ("from a key on", "d", "\0", 2, &["a", "b", "c"]),
        ("everything", "\0", "\0", 5, &[]),
    ];
    for (name, key, end, deleted, left) in rows {
        for key in ["a", "b", "c", "d", "e"] {
            t.set(key, "v").await;
        }
        let before = t.revision().await;
        let response = t.delete(delete(*key, *end)).await.expect(name);
        let bump = i64::from(*deleted > 0);
        assert_eq!(response.deleted, *deleted, "deleted: {name}");
        assert_eq!(
            response.prev_kvs,
            [],
            "previous values only when asked for: {name}"
        );
        assert_eq!(
            response.header.expect("header").revision,
            before + bump,
            "one revision for all: {name}"
        );
        assert_eq!(t.all_keys().await, *left, "left: {name}");
    }
}

async fn delete_miss_changes_nothing(t: Target) {
    let before = t.set("k", "v").await;
    let response = t.delete(delete("other", "")).await.expect("delete");
    assert_eq!(
        (response.deleted, response.header.expect("header").revision),
        (0, before)
    );
    assert_eq!(t.revision().await, before);
}

async fn delete_returns_previous_in_order(t: Target) {
    five_keys(&t).await;
    let mut request = delete("b", "e");
    request.prev_kv = true;
    let response = t.delete(request).await.expect("delete");
    let previous: Vec<_> = response
        .prev_kvs
        .iter()
        .map(|kv| (&kv.key[..], &kv.value[..], kv.mod_revision))
        .collect();
    assert_eq!(
        previous,
        [(&b"b"[..], &b"0"[..], 7), (b"c", b"3", 4), (b"d", b"5", 3)]
    );
}

async fn recreated_key_starts_over(t: Target) {
    t.set("k", "v").await;
    t.set("k", "v").await;
    t.delete(delete("k", "")).await.expect("delete");
    t.set("k", "v").await;
    let kv = t.range(range("k", "")).await.expect("range").kvs.remove(0);
    assert_eq!((kv.version, kv.create_revision, kv.mod_revision), (1, 5, 5));
}

async fn header_tells_who_and_when(t: Target) {
    let empty = t
        .range(everything())
        .await
        .expect("range")
        .header
        .expect("header");
    assert_eq!(empty.revision, 1, "an empty store is at revision 1");
    assert!(
        empty.cluster_id != 0 && empty.member_id != 0,
        "identities are never zero: {empty:?}"
    );
    assert!(
        empty.raft_term >= 2,
        "a member that has led is at term 2 or later: {empty:?}"
    );
    let written = t
        .put(put("k", "v"))
        .await
        .expect("put")
        .header
        .expect("header");
    let deleted = t
        .delete(delete("k", ""))
        .await
        .expect("delete")
        .header
        .expect("header");
    for (header, revision) in [(written, 2), (deleted, 3)] {
        assert_eq!(header.revision, revision);
        assert_eq!(
            (header.cluster_id, header.member_id, header.raft_term),
            (empty.cluster_id, empty.member_id, empty.raft_term),
            "who answers stays the same"
        );
    }
}
