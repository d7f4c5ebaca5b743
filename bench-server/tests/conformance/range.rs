//! Range: intervals, options, sorting, filters, counts, old revisions. Each row is also streamed.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::RangeRequest;
use etcd_api::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::proto::mvccpb::KeyValue;

use crate::harness::{CURRENT, Target, assert_refused, cases, keys};
use crate::range_stream::assert_stream_agrees;
use crate::request::{delete, everything, put, range};

cases![on CURRENT;
    range_table, range_of_odd_bytes, range_at_old_revisions, keys_only_drops_value_and_lease,
    paging_counts_what_remains, values_of_any_size,
];

/// Six writes: the keys e, d, c, b, a at revisions 2 to 6, then b again at 7; values in an order
/// of their own.
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

/// A range and what it must answer over [`five_keys`].
struct Row {
    name: &'static str,
    request: RangeRequest,
    keys: &'static [&'static str],
    more: bool,
    count: i64,
    /// RangeStream's refusal; `None` where it answers as Range does.
    stream: Option<Refusal>,
}

fn row(
    name: &'static str,
    request: RangeRequest,
    keys: &'static [&'static str],
    more: bool,
    count: i64,
) -> Row {
    Row {
        name,
        request,
        keys,
        more,
        count,
        stream: None,
    }
}

fn sorted(order: SortOrder, target: SortTarget, limit: i64) -> RangeRequest {
    RangeRequest {
        sort_order: order.into(),
        sort_target: target.into(),
        limit,
        ..everything()
    }
}

fn table() -> Vec<Row> {
    use SortOrder::{Ascend, Descend};
    use SortTarget::{Create, Key, Mod, Value, Version};
    const ALL: &[&str] = &["a", "b", "c", "d", "e"];
    let limit = |limit| RangeRequest {
        limit,
        ..everything()
    };
    let revision = |revision| RangeRequest {
        revision,
        ..everything()
    };
    let count_only = RangeRequest {
        count_only: true,
        ..everything()
    };

    let mut rows = vec![
        row("one key", range("c", ""), &["c"], false, 1),
        row("one missing key", range("cc", ""), &[], false, 0),
        row("half-open interval", range("b", "d"), &["b", "c"], false, 2),
        row(
            "interval between keys",
            range("aa", "cc"),
            &["b", "c"],
            false,
            2,
        ),
        row("empty interval", range("b", "b"), &[], false, 0),
        row("inverted interval", range("d", "b"), &[], false, 0),
        row(
            "from a key on",
            range("c", "\0"),
            &["c", "d", "e"],
            false,
            3,
        ),
        row("the whole key space", everything(), ALL, false, 5),
        row(
            "from the zero key to a key",
            range("\0", "c"),
            &["a", "b"],
            false,
            2,
        ),
        row("limit below the total", limit(2), &["a", "b"], true, 5),
        row("limit one", limit(1), &["a"], true, 5),
        row("limit at the total", limit(5), ALL, false, 5),
        row("limit above the total", limit(6), ALL, false, 5),
        row("negative limit is none", limit(-1), ALL, false, 5),
        row("an old revision", revision(4), &["c", "d", "e"], false, 3),
        row("the first revision", revision(1), &[], false, 0),
        row("the latest revision, by number", revision(7), ALL, false, 5),
        row(
            "an old revision with a limit",
            RangeRequest {
                limit: 1,
                ..revision(4)
            },
            &["c"],
            true,
            3,
        ),
        row(
            "a negative revision is the latest",
            revision(-1),
            ALL,
            false,
            5,
        ),
        row(
            "serializable",
            RangeRequest {
                serializable: true,
                ..everything()
            },
            ALL,
            false,
            5,
        ),
        row(
            "keys only",
            RangeRequest {
                keys_only: true,
                ..everything()
            },
            ALL,
            false,
            5,
        ),
        row(
            "keys only with a limit",
            RangeRequest {
                keys_only: true,
                ..limit(3)
            },
            &["a", "b", "c"],
            true,
            5,
        ),
        row("count only", count_only.clone(), &[], false, 5),
        row(
            "count only ignores the limit",
            RangeRequest {
                limit: 2,
                ..count_only.clone()
            },
            &[],
            false,
            5,
        ),
        row(
            "count only wins over keys only",
            RangeRequest {
                keys_only: true,
                ..count_only.clone()
            },
            &[],
            false,
            5,
        ),
        row(
            "count only at an old revision",
            RangeRequest {
                revision: 3,
                ..count_only.clone()
            },
            &[],
            false,
            2,
        ),
        row(
            "count only of one key",
            RangeRequest {
                count_only: true,
                ..range("a", "")
            },
            &[],
            false,
            1,
        ),
        row(
            "count only of an empty interval",
            RangeRequest {
                count_only: true,
                ..range("x", "z")
            },
            &[],
            false,
            0,
        ),
        row("ascending by key", sorted(Ascend, Key, 0), ALL, false, 5),
        row(
            "ascending by key with a limit",
            sorted(Ascend, Key, 2),
            &["a", "b"],
            true,
            5,
        ),
    ];

    let by_sort = [
        row(
            "descending by key",
            sorted(Descend, Key, 0),
            &["e", "d", "c", "b", "a"],
            false,
            5,
        ),
        row(
            "descending by key with a limit",
            sorted(Descend, Key, 2),
            &["e", "d"],
            true,
            5,
        ),
        row(
            "descending by version",
            sorted(Descend, Version, 1),
            &["b"],
            true,
            5,
        ),
        row(
            "ascending by create revision",
            sorted(Ascend, Create, 0),
            &["e", "d", "c", "b", "a"],
            false,
            5,
        ),
        row(
            "descending by create revision",
            sorted(Descend, Create, 2),
            &["a", "b"],
            true,
            5,
        ),
        row(
            "ascending by mod revision",
            sorted(Ascend, Mod, 0),
            &["e", "d", "c", "a", "b"],
            false,
            5,
        ),
        row(
            "descending by mod revision",
            sorted(Descend, Mod, 0),
            &["b", "a", "c", "d", "e"],
            false,
            5,
        ),
        row(
            "ascending by value",
            sorted(Ascend, Value, 3),
            &["b", "e", "a"],
            true,
            5,
        ),
        row(
            "descending by value",
            sorted(Descend, Value, 0),
            &["d", "c", "a", "e", "b"],
            false,
            5,
        ),
        row(
            "by value at an old revision",
            RangeRequest {
                revision: 6,
                ..sorted(Descend, Value, 2)
            },
            &["d", "b"],
            true,
            5,
        ),
        row(
            "keys only by value",
            RangeRequest {
                keys_only: true,
                ..sorted(Ascend, Value, 0)
            },
            &["b", "e", "a", "c", "d"],
            false,
            5,
        ),
    ];
    rows.extend(by_sort.map(|row| Row {
        stream: Some(Refusal::StreamSortUnsupported),
        ..row
    }));

    let by_filter = [
        row(
            "min mod",
            RangeRequest {
                min_mod_revision: 4,
                ..everything()
            },
            &["a", "b", "c"],
            false,
            5,
        ),
        row(
            "max mod",
            RangeRequest {
                max_mod_revision: 4,
                ..everything()
            },
            &["c", "d", "e"],
            false,
            5,
        ),
        row(
            "min create",
            RangeRequest {
                min_create_revision: 5,
                ..everything()
            },
            &["a", "b"],
            false,
            5,
        ),
        row(
            "max create",
            RangeRequest {
                max_create_revision: 5,
                ..everything()
            },
            &["b", "c", "d", "e"],
            false,
            5,
        ),
        row(
            "two filters",
            RangeRequest {
                min_mod_revision: 3,
                max_mod_revision: 6,
                ..everything()
            },
            &["a", "c", "d"],
            false,
            5,
        ),
        row(
            "a filter with a limit",
            RangeRequest {
                min_mod_revision: 4,
                ..limit(2)
            },
            &["a", "b"],
            true,
            5,
        ),
        row(
            "a filter with a limit that fits",
            RangeRequest {
                min_mod_revision: 4,
                ..limit(3)
            },
            &["a", "b", "c"],
            false,
            5,
        ),
        row(
            "no survivor still counts all",
            RangeRequest {
                min_mod_revision: 99,
                ..everything()
            },
            &[],
            false,
            5,
        ),
        row(
            "negative maximum drops all",
            RangeRequest {
                max_mod_revision: -1,
                ..everything()
            },
            &[],
            false,
            5,
        ),
        row(
            "negative minimum keeps all",
            RangeRequest {
                min_create_revision: -1,
                ..everything()
            },
            ALL,
            false,
            5,
        ),
        row(
            "count only ignores filters",
            RangeRequest {
                min_mod_revision: 6,
                ..count_only
            },
            &[],
            false,
            5,
        ),
        row(
            "keys only under a filter",
            RangeRequest {
                keys_only: true,
                min_mod_revision: 6,
                ..everything()
            },
            &["a", "b"],
            false,
            5,
        ),
    ];
    rows.extend(by_filter.map(|row| Row {
        stream: Some(Refusal::StreamFilterUnsupported),
        ..row
    }));
    rows
}

async fn range_table(t: Target) {
    five_keys(&t).await;
    for row in table() {
        let response = t.range(row.request.clone()).await.expect(row.name);
        assert_eq!(keys(&response), row.keys, "keys: {}", row.name);
        assert_eq!(
            (response.more, response.count),
            (row.more, row.count),
            "more and count: {}",
            row.name
        );
        let revision = response.header.as_ref().map(|header| header.revision);
        assert_eq!(
            revision,
            Some(7),
            "the header tells the latest revision: {}",
            row.name
        );
        match row.stream {
            None => assert_stream_agrees(&t, &row.request, &response, row.name).await,
            Some(refusal) => {
                assert_refused(crate::range_stream::collect(&t, row.request).await, refusal)
            }
        }
    }

    // Neither ascending nor descending, by something else than the key: etcd cuts first and sorts
    // what it cut, so this is not the two oldest keys.
    let cut_first = t
        .range(sorted(SortOrder::None, SortTarget::Mod, 2))
        .await
        .expect("accepted");
    assert_eq!(
        keys(&cut_first),
        ["c", "a"],
        "a, b and the looked-ahead c, by mod revision, cut to two"
    );
    assert!(cut_first.more);
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
        // Writes between pages stay out of pages that are pinned to a revision.
        t.set(format!("page/{}x", seen.len()), "later").await;
    }
    assert_eq!(counts, [(10, 25, true), (10, 15, true), (5, 5, false)]);
    assert_eq!(
        seen,
        (0..25).map(|i| format!("page/{i:02}")).collect::<Vec<_>>()
    );
}

async fn values_of_any_size(t: Target) {
    // Around the sizes where encoders and HTTP/2 frames change their ways.
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
