//! Range: arbitrary bytes, old revisions, keys only, counts of pages, sizes. `range_table` has the
//! options.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::RangeRequest;
use etcd_api::proto::mvccpb::KeyValue;

use crate::harness::{CURRENT, Target, assert_refused, cases, keys};
use crate::range_stream::assert_stream_agrees;
use crate::request::{delete, everything, put, range};

cases![on CURRENT;
    range_of_odd_bytes, range_at_old_revisions, keys_only_drops_value_and_lease,
    paging_counts_what_remains, values_of_any_size,
];

/// Makes six writes: the keys e, d, c, b, a at revisions 2 to 6, then b again at 7. The values are
/// in another order than the keys.
pub(crate) async fn five_keys(t: &Target) {
    for (key, value) in [
        ("e", "1"),
        ("d", "5"),
        ("c", "3"),
        ("b", "4"),
        ("a", "2"),
        ("b", "0"),
    ] {
        t.set(key, value).await;
    }
}

async fn range_of_odd_bytes(t: Target) {
    let odd: &[&[u8]] = &[
        b"\x00",
        b"\x00\x00",
        b"p",
        b"p\x00",
        b"p\xff",
        b"p\xff\xff",
        b"q",
        b"\xff",
        b"\xff\xff",
    ];
    for key in odd {
        t.put(put(key.to_vec(), "v"))
            .await
            .expect("any non-empty key is legal");
    }
    let found = |response: etcd_api::proto::etcdserverpb::RangeResponse| -> Vec<Vec<u8>> {
        response.kvs.into_iter().map(|kv| kv.key.to_vec()).collect()
    };
    let all = found(t.range(everything()).await.expect("range"));
    assert_eq!(all, odd, "bytewise order");
    let prefix = found(t.range(range("p", "q")).await.expect("range"));
    assert_eq!(prefix, odd[2..6], "the prefix p");
    let under_ff = found(t.range(range(&b"p\xff"[..], "q")).await.expect("range"));
    assert_eq!(under_ff, odd[4..6], "the prefix p, 0xff");
    let top = found(t.range(range(&b"\xff"[..], "\0")).await.expect("range"));
    assert_eq!(top, odd[7..], "the prefix 0xff has no end");
    assert_eq!(
        found(t.range(range("\0", "")).await.expect("range")),
        odd[..1],
        "the zero key by itself"
    );
}

async fn range_at_old_revisions(t: Target) {
    five_keys(&t).await;
    t.delete(delete("c", "")).await.expect("delete");
    let b = |revision| RangeRequest {
        revision,
        ..range("b", "")
    };
    let at = async |revision| {
        let response = t.range(b(revision)).await.expect("range");
        response.kvs.into_iter().next()
    };
    let first = at(6).await.expect("b is there at 6");
    assert_eq!(
        (
            &first.value[..],
            first.version,
            first.create_revision,
            first.mod_revision
        ),
        (&b"4"[..], 1, 5, 5)
    );
    let second = at(7).await.expect("b is there at 7");
    assert_eq!(
        (
            &second.value[..],
            second.version,
            second.create_revision,
            second.mod_revision
        ),
        (&b"0"[..], 2, 5, 7)
    );
    assert_eq!(at(4).await, None, "before it was created");
    let count = async |revision| {
        t.range(RangeRequest {
            revision,
            count_only: true,
            ..everything()
        })
        .await
        .expect("range")
        .count
    };
    assert_eq!(
        (count(7).await, count(8).await, count(0).await),
        (5, 4, 4),
        "c is gone from revision 8 on"
    );
    assert_refused(t.range(b(9)).await, Refusal::FutureRevision);
}

async fn keys_only_drops_value_and_lease(t: Target) {
    let lease = t
        .lease()
        .lease_grant(etcd_api::proto::etcdserverpb::LeaseGrantRequest { ttl: 600, id: 7 })
        .await;
    let lease = lease.expect("grant").into_inner().id;
    let mut request = put("k", "value");
    request.lease = lease;
    t.put(request).await.expect("put");
    let whole = t.range(range("k", "")).await.expect("range").kvs.remove(0);
    assert_eq!((whole.lease, &whole.value[..]), (lease, &b"value"[..]));
    let bare = t
        .range(RangeRequest {
            keys_only: true,
            ..range("k", "")
        })
        .await
        .expect("range")
        .kvs
        .remove(0);
    assert_eq!(
        bare,
        KeyValue {
            value: Default::default(),
            lease: 0,
            ..whole
        }
    );
}

async fn paging_counts_what_remains(t: Target) {
    for i in 0..25 {
        t.set(format!("page/{i:02}"), "v").await;
    }
    let mut next = RangeRequest {
        limit: 10,
        ..range("page/", "page0")
    };
    let mut seen = Vec::new();
    let mut counts = Vec::new();
    loop {
        let page = t.range(next.clone()).await.expect("page");
        counts.push((page.kvs.len(), page.count, page.more));
        seen.extend(keys(&page));
        let Some(last) = page.kvs.last().filter(|_| page.more) else {
            break;
        };
        next.revision = page.header.as_ref().expect("header").revision.min(26);
        next.key = [&last.key[..], b"\0"].concat().into();
        // Writes between pages are not seen by pages that are pinned to a revision.
        t.set(format!("page/{}x", seen.len()), "later").await;
    }
    assert_eq!(counts, [(10, 25, true), (10, 15, true), (5, 5, false)]);
    assert_eq!(
        seen,
        (0..25).map(|i| format!("page/{i:02}")).collect::<Vec<_>>()
    );
}

async fn values_of_any_size(t: Target) {
    // Sizes around those at which encodings and HTTP/2 frames change.
    let sizes = [
        0, 1, 127, 128, 1_023, 16_384, 65_535, 65_536, 262_144, 1_000_000,
    ];
    let byte = |i: usize| b'a' + (i % 26) as u8;
    for (i, size) in sizes.into_iter().enumerate() {
        t.put(put(format!("{i:02}"), vec![byte(i); size]))
            .await
            .expect("put");
    }
    let response = t.range(everything()).await.expect("range");
    for (i, size) in sizes.into_iter().enumerate() {
        let kv = &response.kvs[i];
        assert_eq!(kv.value.len(), size);
        assert!(
            kv.value.iter().all(|&b| b == byte(i)),
            "value {i} came back as it was written"
        );
    }
    assert_stream_agrees(&t, &everything(), &response, "values of any size").await;
    let middle = RangeRequest {
        limit: 3,
        ..range("04", "\0")
    };
    let response = t.range(middle.clone()).await.expect("range");
    assert_eq!(
        (keys(&response), response.count),
        (vec!["04".into(), "05".into(), "06".into()], 6)
    );
    assert_stream_agrees(&t, &middle, &response, "a limited range of large values").await;
}
