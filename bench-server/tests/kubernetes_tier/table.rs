//! Each combination of resourceVersion, resourceVersionMatch, continue and limit, as an apiserver
//! defines it: the result, and whether the cache or storage serves it, by default and with each
//! mechanism disabled.

use kube_api::ContinueToken;

use crate::harness::{ALL, TestCluster, cases};

cases! {
    by_default on ALL;
    without_snapshots on ALL with ["--feature-gates=ListFromCacheSnapshot=false"];
    without_consistent_reads on ALL with ["--feature-gates=ConsistentListFromCache=false"];
    without_a_cache on ALL with ["--watch-cache=false"];
    one_name_is_one_key on ALL;
    one_object_comes_from_storage_unless_a_revision_is_named on ALL;
}

const PATH: &str = "/api/v1/configmaps";

/// The mechanism that a combination needs to be served from the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Cache,
    ConsistentReads,
    Snapshots,
}

/// The expected result of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Code and reason.
    Refused(u16, &'static str),
    /// The current state: the number of objects, and whether there is a token. `Then` is the past
    /// state.
    Now(usize, bool),
    Then(usize, bool),
}

use Expected::{Now, Refused, Then};
use Needs::{Cache, ConsistentReads, Snapshots};

/// A combination: the query, the mechanism by which the cache serves it, and the result. Storage
/// returns the same result, except for resourceVersion 0, for which a cache ignores the limit.
struct Row {
    query: String,
    needs: Needs,
    expected: Expected,
    from_storage: Expected,
}

fn row(query: impl Into<String>, needs: Needs, expected: Expected) -> Row {
    Row {
        query: query.into(),
        needs,
        expected,
        from_storage: expected,
    }
}

const INVALID: Expected = Refused(422, "Invalid");
const BAD: Expected = Refused(400, "BadRequest");

/// Returns the combinations for a collection that had three objects at revision `then`, of which
/// `token` continues with the last two, and that has four now.
fn rows(then: i64, token: &str) -> Vec<Row> {
    let rest = ContinueToken {
        resource_version: -1,
        start: "ns/a\0".to_owned(),
    };
    let rest = rest.encode();
    let n = format!("resourceVersion={then}");
    let (exact, not_older) = (
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
    );
    let zero = "resourceVersion=0";
    let mut rows = vec![
        row("", ConsistentReads, Now(4, false)),
        row("resourceVersion=", ConsistentReads, Now(4, false)),
        row("limit=0", ConsistentReads, Now(4, false)),
        row("limit=-1", ConsistentReads, Now(4, false)),
        row("limit=2", ConsistentReads, Now(2, true)),
        row("limit=4", ConsistentReads, Now(4, false)),
        row("limit=9", ConsistentReads, Now(4, false)),
        row(format!("continue={token}"), Snapshots, Then(2, false)),
        row(
            format!("continue={token}&limit=1"),
            Snapshots,
            Then(1, true),
        ),
        row(format!("continue={rest}"), ConsistentReads, Now(3, false)),
        row(
            format!("continue={rest}&limit=1"),
            ConsistentReads,
            Now(1, true),
        ),
        row(zero, Cache, Now(4, false)),
        row(format!("{zero}&{not_older}"), Cache, Now(4, false)),
        row(
            format!("{zero}&continue={token}"),
            Snapshots,
            Then(2, false),
        ),
        row(&n, Cache, Now(4, false)),
        row(format!("{n}&limit=2"), Snapshots, Then(2, true)),
        row(format!("{n}&{not_older}"), Cache, Now(4, false)),
        row(format!("{n}&{not_older}&limit=2"), Cache, Now(2, true)),
        row(format!("{n}&{exact}"), Snapshots, Then(3, false)),
        row(format!("{n}&{exact}&limit=2"), Snapshots, Then(2, true)),
        row(format!("{n}&{exact}&limit=3"), Snapshots, Then(3, false)),
        row(format!("{n}&continue={token}"), Cache, BAD),
        row(format!("{n}&continue={token}&limit=1"), Cache, BAD),
        row("resourceVersion=one", Cache, BAD),
        row("resourceVersion=-1", Cache, BAD),
        row("limit=one", Cache, BAD),
        row("sendInitialEvents=true", Cache, INVALID),
        row("sendInitialEvents=false", Cache, INVALID),
        row(format!("{n}&resourceVersionMatch=exact"), Cache, INVALID),
        row(format!("{zero}&{exact}&limit=1"), Cache, INVALID),
    ];
    for limit in ["limit=1", &format!("{not_older}&limit=1")] {
        rows.push(Row {
            from_storage: Now(1, true),
            ..row(format!("{zero}&{limit}"), Cache, Now(4, false))
        });
    }
    rows.push(Row {
        from_storage: Then(1, true),
        ..row(
            format!("{zero}&continue={token}&limit=1"),
            Snapshots,
            Then(2, false),
        )
    });
    for matched in [exact, not_older] {
        for rest in ["", "&limit=1", &format!("&continue={token}")] {
            rows.push(row(format!("{matched}{rest}"), Cache, INVALID));
            if matched == exact || rest.starts_with("&continue") {
                rows.push(row(format!("{zero}&{matched}{rest}"), Cache, INVALID));
            }
        }
        let with_token = format!("{n}&{matched}&continue={token}");
        rows.push(row(with_token, Cache, INVALID));
    }
    rows
}

async fn served(cluster: &TestCluster, storage: &str) -> f64 {
    let labels = ["resource=\"configmaps\"", storage];
    cluster
        .metric("apiserver_storage_list_total", &labels)
        .await
}

async fn every_row(cluster: TestCluster, has: fn(Needs) -> bool) {
    for name in ["a", "b", "c"] {
        cluster.config_map("ns", name).await;
    }
    let first = cluster.get(&format!("{PATH}?limit=1")).await.ok();
    let (then, token) = (first.revision(), first.token());
    let now = cluster.config_map("ns", "d").await;
    // The cache may lag unless a request requires a revision. It must be current for the following
    // lists.
    let current = format!("{PATH}?resourceVersion={now}");
    cluster.get(&current).await.ok();
    for row in rows(then, &token) {
        let query = &row.query;
        let before = (
            served(&cluster, "storage=\"watchcache\"").await,
            served(&cluster, "storage=\"etcd\"").await,
        );
        let reply = cluster.get(&format!("{PATH}?{query}")).await;
        let answered = (
            served(&cluster, "storage=\"watchcache\"").await - before.0,
            served(&cluster, "storage=\"etcd\"").await - before.1,
        );
        let expected = match has(row.needs) {
            true => row.expected,
            false => row.from_storage,
        };
        if let Refused(code, reason) = expected {
            assert_eq!(reply.failure(), (code, reason.to_owned()), "{query}");
            assert_eq!(answered, (0.0, 0.0), "{query}");
            continue;
        }
        let by_cache = f64::from(u8::from(has(row.needs)));
        assert_eq!(answered, (by_cache, 1.0 - by_cache), "{query}: who answers");
        let reply = reply.ok();
        let found = (reply.names().len(), !reply.token().is_empty());
        let (revision, count, more) = match expected {
            Now(count, more) => (now, count, more),
            Then(count, more) => (then, count, more),
            Refused(..) => unreachable!("handled above"),
        };
        assert_eq!(found, (count, more), "{query}: objects, and a token");
        assert_eq!(reply.revision(), revision, "{query}");
        if more {
            let token = ContinueToken::decode(&reply.token()).expect("a token");
            assert_eq!(token.resource_version, revision, "{query}");
        }
    }
}

async fn by_default(cluster: TestCluster) {
    every_row(cluster, |_| true).await;
}

async fn without_snapshots(cluster: TestCluster) {
    every_row(cluster, |needs| needs != Snapshots).await;
}

async fn without_consistent_reads(cluster: TestCluster) {
    every_row(cluster, |needs| needs != ConsistentReads).await;
}

async fn without_a_cache(cluster: TestCluster) {
    every_row(cluster, |_| false).await;
}

async fn one_name_is_one_key(cluster: TestCluster) {
    let then = cluster.config_map("ns", "a").await;
    let now = cluster.config_map("ns", "b").await;
    let path = "/api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Db";
    for (query, storage, objects) in [
        (String::new(), "watchcache", 1),
        ("&limit=1".to_owned(), "watchcache", 1),
        ("&resourceVersion=0".to_owned(), "watchcache", 1),
        (format!("&resourceVersion={then}"), "watchcache", 1),
        // Storage reads one key at that revision; only the revision of a token is used.
        (
            format!("&resourceVersion={then}&resourceVersionMatch=Exact"),
            "etcd",
            0,
        ),
        (
            format!("&resourceVersion={now}&resourceVersionMatch=Exact"),
            "etcd",
            1,
        ),
        (
            format!("&continue={}", ContinueToken::after(now, "a").encode()),
            "etcd",
            1,
        ),
        (
            format!("&continue={}", ContinueToken::after(then, "a").encode()),
            "etcd",
            0,
        ),
    ] {
        let before = served(&cluster, storage).await;
        let list = cluster.get(&format!("{path}{query}")).await.ok();
        assert_eq!(
            (list.names().len(), list.token()),
            (objects, String::new()),
            "{query}"
        );
        assert_eq!(served(&cluster, storage).await - before, 1.0, "{query}");
    }
}

async fn one_object_comes_from_storage_unless_a_revision_is_named(cluster: TestCluster) {
    let now = cluster.config_map("ns", "a").await;
    cluster
        .get(&format!("{PATH}?resourceVersion={now}"))
        .await
        .ok();
    let path = "/api/v1/namespaces/ns/configmaps/a";
    for (query, reads) in [
        (String::new(), 1.0),
        ("?resourceVersion=0".to_owned(), 0.0),
        (format!("?resourceVersion={now}"), 0.0),
    ] {
        let labels = ["resource=\"configmaps\"", "operation=\"get\""];
        let count = "etcd_request_duration_seconds_count";
        let before = cluster.metric(count, &labels).await;
        let object = cluster.get(&format!("{path}{query}")).await.ok();
        assert_eq!(object.revision(), now, "{query}");
        assert_eq!(
            cluster.metric(count, &labels).await - before,
            reads,
            "{query}"
        );
    }
}
