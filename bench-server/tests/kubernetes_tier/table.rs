//! Check 6: the reference's table of resourceVersion × resourceVersionMatch × continue × limit, row by row, with
//! what answers it, by default and with each mechanism switched off.

use kube_api::ContinueToken;

use crate::stage::{ALL, Stage, cases};

cases! {
    by_default on ALL;
    without_snapshots on ALL with ["--feature-gates=ListFromCacheSnapshot=false"];
    without_consistent_reads on ALL with ["--feature-gates=ConsistentListFromCache=false"];
    without_a_cache on ALL with ["--watch-cache=false"];
    one_name_is_one_key on ALL;
    one_object_comes_from_storage_unless_a_revision_is_named on ALL;
}

const PATH: &str = "/api/v1/configmaps";

/// The mechanisms that a row may need to be answered by the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Cache,
    ConsistentReads,
    Snapshots,
}

/// What a list is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Code and reason.
    Refused(u16, &'static str),
    /// As it is now, or as it was: this many objects, and whether a token for more comes with them.
    Now(usize, bool),
    Then(usize, bool),
}

use Expected::{Now, Refused, Then};
use Needs::{Cache, ConsistentReads, Snapshots};

/// A row: the query, the mechanism that has the cache answer it, and the answer. Where storage answers
/// instead, the answer is the same, but for resourceVersion 0, with which a cache knows no limit.
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

/// `then` had three objects, of which `token` leads to the last two; now there are four.
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

async fn served(stage: &Stage, storage: &str) -> f64 {
    let labels = ["resource=\"configmaps\"", storage];
    stage.metric("apiserver_storage_list_total", &labels).await
}

async fn every_row(stage: Stage, has: fn(Needs) -> bool) {
    for name in ["a", "b", "c"] {
        stage.config_map("ns", name).await;
    }
    let first = stage.get(&format!("{PATH}?limit=1")).await.ok();
    let (then, token) = (first.revision(), first.token());
    let now = stage.config_map("ns", "d").await;
    // A cache that need not be current may lag; it has to be current here.
    let current = format!("{PATH}?resourceVersion={now}");
    stage.get(&current).await.ok();
    for row in rows(then, &token) {
        let query = &row.query;
        let before = (
            served(&stage, "storage=\"watchcache\"").await,
            served(&stage, "storage=\"etcd\"").await,
        );
        let reply = stage.get(&format!("{PATH}?{query}")).await;
        let answered = (
            served(&stage, "storage=\"watchcache\"").await - before.0,
            served(&stage, "storage=\"etcd\"").await - before.1,
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

async fn by_default(stage: Stage) {
    every_row(stage, |_| true).await;
}

async fn without_snapshots(stage: Stage) {
    every_row(stage, |needs| needs != Snapshots).await;
}

async fn without_consistent_reads(stage: Stage) {
    every_row(stage, |needs| needs != ConsistentReads).await;
}

async fn without_a_cache(stage: Stage) {
    every_row(stage, |_| false).await;
}

async fn one_name_is_one_key(stage: Stage) {
    let then = stage.config_map("ns", "a").await;
    let now = stage.config_map("ns", "b").await;
    let path = "/api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Db";
    for (query, storage, objects) in [
        (String::new(), "watchcache", 1),
        ("&limit=1".to_owned(), "watchcache", 1),
        ("&resourceVersion=0".to_owned(), "watchcache", 1),
        (format!("&resourceVersion={then}"), "watchcache", 1),
        // Storage is asked for one key, at that revision; of a token only its revision counts.
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
        let before = served(&stage, storage).await;
        let list = stage.get(&format!("{path}{query}")).await.ok();
        assert_eq!(
            (list.names().len(), list.token()),
            (objects, String::new()),
            "{query}"
        );
        assert_eq!(served(&stage, storage).await - before, 1.0, "{query}");
    }
}

async fn one_object_comes_from_storage_unless_a_revision_is_named(stage: Stage) {
    let now = stage.config_map("ns", "a").await;
    stage
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
        let before = stage.metric(count, &labels).await;
        let object = stage.get(&format!("{path}{query}")).await.ok();
        assert_eq!(object.revision(), now, "{query}");
        assert_eq!(
            stage.metric(count, &labels).await - before,
            reads,
            "{query}"
        );
    }
}
