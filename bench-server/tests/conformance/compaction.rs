//! Compact: the revisions that it accepts, what remains after it, and its effect on readers.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::RangeRequest;

use crate::harness::{CURRENT, Target, assert_refused, cases};
use crate::request::{delete, everything, range};

cases![on CURRENT;
    revisions_it_takes, zero_once_on_a_fresh_store, reads_around_it, keeps_what_is_visible,
    physical_compaction, header_tells_the_current_revision,
];

async fn revisions_it_takes(t: Target) {
    for value in ["1", "2", "3", "4"] {
        t.set("k", value).await;
    }
    assert_refused(t.compact(-1, false).await, Refusal::Compacted);
    assert_refused(t.compact(6, false).await, Refusal::FutureRevision);
    t.compact(3, false).await.expect("an older revision");
    for again in [3, 2, 1, 0] {
        assert_refused(t.compact(again, false).await, Refusal::Compacted);
    }
    t.compact(5, false).await.expect("the current revision");
    assert_refused(t.compact(5, false).await, Refusal::Compacted);
    assert_eq!(
        t.range(range("k", "")).await.expect("reading goes on").kvs[0].version,
        4
    );
    assert_eq!(t.set("k", "5").await, 6, "and so does writing");
}

async fn zero_once_on_a_fresh_store(t: Target) {
    t.compact(0, false)
        .await
        .expect("nothing was ever compacted");
    assert_refused(t.compact(0, false).await, Refusal::Compacted);
    t.compact(1, false)
        .await
        .expect("the revision of an empty store");
}

async fn reads_around_it(t: Target) {
    for value in ["1", "2", "3", "4"] {
        t.set("k", value).await;
    }
    t.compact(4, false).await.expect("compact");
    let at = |revision| RangeRequest {
        revision,
        ..range("k", "")
    };
    for gone in [1, 2, 3] {
        assert_refused(t.range(at(gone)).await, Refusal::Compacted);
        assert_refused(
            t.range(RangeRequest {
                count_only: true,
                ..at(gone)
            })
            .await,
            Refusal::Compacted,
        );
        assert_refused(
            t.range(RangeRequest {
                serializable: true,
                ..at(gone)
            })
            .await,
            Refusal::Compacted,
        );
    }
    for (revision, version) in [(4, 3), (5, 4), (0, 4), (-1, 4)] {
        let response = t
            .range(at(revision))
            .await
            .expect("at the compacted revision and after it");
        assert_eq!(response.kvs[0].version, version, "at revision {revision}");
    }
    assert_refused(t.range(at(6)).await, Refusal::FutureRevision);
}

async fn keeps_what_is_visible(t: Target) {
    // untouched at 2; changed at 3 and 5; deleted at 4 → 6; recreated at 7.
    t.set("untouched", "v").await;
    t.set("changed", "old").await;
    t.set("deleted", "v").await;
    t.set("changed", "new").await;
    t.delete(delete("deleted", "")).await.expect("delete");
    t.set("deleted", "back").await;
    t.compact(6, true).await.expect("compact");
    let at = async |revision| {
        let response = t
            .range(RangeRequest {
                revision,
                ..everything()
            })
            .await
            .expect("range");
        response
            .kvs
            .iter()
            .map(|kv| {
                (
                    String::from_utf8_lossy(&kv.key).into_owned(),
                    kv.mod_revision,
                )
            })
            .collect::<Vec<_>>()
    };
    let pair = |key: &str, revision| (key.to_owned(), revision);
    assert_eq!(at(6).await, [pair("changed", 5), pair("untouched", 2)]);
    assert_eq!(
        at(7).await,
        [pair("changed", 5), pair("deleted", 7), pair("untouched", 2)]
    );
    let recreated = t
        .range(range("deleted", ""))
        .await
        .expect("range")
        .kvs
        .remove(0);
    assert_eq!((recreated.create_revision, recreated.version), (7, 1));
}

async fn physical_compaction(t: Target) {
    for i in 0..500 {
        t.set(format!("k{}", i % 10), "v").await;
    }
    t.compact(400, true).await.expect("compact");
    assert_refused(
        t.range(RangeRequest {
            revision: 399,
            ..everything()
        })
        .await,
        Refusal::Compacted,
    );
    let response = t
        .range(RangeRequest {
            revision: 400,
            ..everything()
        })
        .await
        .expect("range");
    assert_eq!(
        response.kvs.iter().map(|kv| kv.mod_revision).max(),
        Some(400)
    );
    assert_eq!(response.count, 10);
}

async fn header_tells_the_current_revision(t: Target) {
    for value in ["1", "2", "3"] {
        t.set("k", value).await;
    }
    assert_eq!(t.compact(2, false).await.expect("compact"), 4);
    assert_eq!(t.revision().await, 4, "compaction is not a revision");
}
