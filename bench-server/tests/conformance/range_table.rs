//! Range: intervals, options, sorting, filters, counts. Each row is also requested by RangeStream.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::RangeRequest;
use etcd_api::proto::etcdserverpb::range_request::{SortOrder, SortTarget};

use crate::harness::{CURRENT, Target, assert_refused, cases, keys};
use crate::range::five_keys;
use crate::range_stream::assert_stream_agrees;
use crate::request::{everything, range};

cases![on CURRENT; range_table];

/// A range and its expected response over [`five_keys`].
struct Row {
    name: &'static str,
    request: RangeRequest,
    keys: &'static [&'static str],
    more: bool,
    count: i64,
    /// RangeStream's error; `None` if it returns the same as Range.
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

    // Without an order and with a target other than the key, etcd applies the limit first and then
    // sorts, so these are not the two oldest keys.
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
