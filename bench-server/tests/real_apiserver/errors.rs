//! Errors: invalid options, tokens, revisions, URLs and methods.

use ::http::Method;
use base64::Engine as _;

use crate::case::{CaseContext, cases};
use crate::compare::Question;
use crate::data::WIDGETS;

cases! {
    options_of_lists once;
    options_of_watches once;
    tokens_that_cannot_be_read once;
    revisions_ahead_of_storage everywhere;
    urls_and_methods once;
    deadlines once;
}

const PODS: &str = "/api/v1/namespaces/a/pods";

async fn options_of_lists(context: &CaseContext<'_>) {
    for query in [
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=Newest",
        "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
        "resourceVersionMatch=Newest&continue=x",
        "sendInitialEvents=true",
        "sendInitialEvents=false",
        "sendInitialEvents=true&resourceVersionMatch=Newest",
        "sendInitialEvents=",
        "sendInitialEvents=maybe",
        "resourceVersion=x",
        "resourceVersion=-1",
        "resourceVersion=+1",
        "resourceVersion=1.5",
        "resourceVersion=99999999999999999999",
        "resourceVersion=x&resourceVersionMatch=Exact",
        "resourceVersion=00",
        "limit=x",
        "limit=1.5",
        "limit=-7",
        "limit=99999999999999999999",
        "limit=",
        "timeoutSeconds=x",
        "timeoutSeconds=-1",
        "timeoutSeconds=1",
        "timeout=soon",
        "timeout=-1s",
        "timeout=5",
        "timeout=0",
        "timeout=0s",
        "timeout=1m30s",
        "timeout=10h",
        "allowWatchBookmarks=x",
        "allowWatchBookmarks=true",
        "unknown=1",
        "&limit=2",
        "limit=2&limit=3",
        "watch=0&limit=1",
        "watch=FALSE&limit=1",
        "shardSelector=x&limit=1",
        "limit=1&labelSelector=a%20b&fieldSelector=x",
        "includeObject=All",
    ] {
        context.get(&format!("{PODS}?{query}"), &[]).await;
        context
            .get(&format!("{WIDGETS}/widgets?{query}"), &[])
            .await;
    }
}

async fn options_of_watches(context: &CaseContext<'_>) {
    for query in [
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=Exact&resourceVersion=1",
        "sendInitialEvents=true",
        "sendInitialEvents=false",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "sendInitialEvents=true&resourceVersionMatch=Newest",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
        "sendInitialEvents=maybe&resourceVersionMatch=Newest",
        "resourceVersion=x",
        "labelSelector=a%20b",
        "fieldSelector=x",
        "fieldSelector=spec.unknown%3D1",
    ] {
        context.get(&format!("{PODS}?watch=1&{query}"), &[]).await;
        context
            .get(&format!("/api/v1/configmaps?watch=true&{query}"), &[])
            .await;
        context
            .get(&format!("{WIDGETS}/widgets?watch=1&{query}"), &[])
            .await;
    }
}

async fn tokens_that_cannot_be_read(context: &CaseContext<'_>) {
    let sealed = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let token = |version: &str, revision: &str, start: &str| {
        sealed(&format!(
            "{{\"v\":\"{version}\",\"rv\":{revision},\"start\":\"{start}\"}}"
        ))
    };
    let now = context
        .world
        .data
        .revisions
        .last()
        .expect("revisions")
        .to_string();
    let v1 = "meta.k8s.io/v1";
    let early = context.world.data.revisions[2].to_string();
    let good = token(v1, &now, "pod-003\\u0000");
    for bad in [
        "x".to_owned(),
        "%20".to_owned(),
        format!("{good}%3D%3D"),
        sealed("nothing"),
        sealed("[]"),
        sealed("{}"),
        sealed("{\"v\":1}"),
        sealed("{\"v\":\"meta.k8s.io/v1\",\"rv\":\"7\",\"start\":\"a\"}"),
        token("meta.k8s.io/v2", &now, "a"),
        token(v1, "0", "a"),
        token(v1, &now, ""),
        token(v1, &now, "../b/pod"),
        token(v1, &now, "a//b"),
        token(v1, &now, "a/./b"),
        token(v1, &now, "/a"),
        token(v1, &now, "a/"),
        token(v1, "-2", "pod-003\\u0000"),
        token(v1, "9007199254740993", "pod-003\\u0000"),
        token(v1, &early, "pod-003\\u0000"),
        token(v1, &early, "pod-050\\u0000"),
        token(v1, "-1", "pod-050\\u0000"),
        good.clone(),
    ] {
        context
            .get(&format!("{PODS}?limit=2&continue={bad}"), &[])
            .await;
        context
            .get(&format!("{PODS}?continue={bad}&resourceVersion=0"), &[])
            .await;
        context
            .get(
                &format!("{PODS}?continue={bad}&fieldSelector=metadata.name%3Dpod-004"),
                &[],
            )
            .await;
    }
    for version in ["1", &now, "x"] {
        context
            .get(
                &format!("{PODS}?limit=2&continue={good}&resourceVersion={version}"),
                &[],
            )
            .await;
    }
}

/// Each of these requests waits for three seconds.
async fn revisions_ahead_of_storage(context: &CaseContext<'_>) {
    let ahead = context.world.data.revisions.last().expect("revisions") + 1_000_000;
    let version = format!("resourceVersion={ahead}");
    let by_list =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let asked = [
        format!("{PODS}?{version}"),
        format!("{PODS}?{version}&limit=3"),
        format!("{PODS}?{version}&resourceVersionMatch=Exact"),
        format!("{PODS}?{version}&resourceVersionMatch=NotOlderThan&limit=3"),
        format!("{PODS}/pod-004?{version}"),
        format!("{PODS}?watch=1&{version}&{by_list}"),
        format!("{PODS}?watch=1&{version}&timeoutSeconds=1"),
        format!("{PODS}?{version}&timeout=500ms"),
        format!("{PODS}?{version}&fieldSelector=metadata.name%3Dpod-004"),
        format!("{WIDGETS}/widgets?{version}"),
    ];
    let asked = asked.iter().map(|path| context.get(path, &[]));
    futures::future::join_all(asked).await;
}

async fn urls_and_methods(context: &CaseContext<'_>) {
    for path in [
        "/api/v2/pods",
        "/api/v1/nothing",
        "/api/v1/namespaces/a/nothing",
        "/nothing",
        "/apis/nothing.example.com/v1/things",
        "/api/v1/pods/pod-001",
        "/api/v1/namespaces/a/nodes",
        "/api/v1/namespaces/a/nodes/node-1",
        "/api/v1/namespaces/a/pods/pod-001/nothing",
        "/api/v1/namespaces/a/pods/pod-001/log/b",
        "/api/v1/namespaces/a/pods/",
        "/api/v1/pods/",
        "/api//v1/pods",
        "/api/v1/namespaces/a",
        "/api/v1/namespaces/a/",
        "/api/v1/namespaces/none/pods/x",
        "/api/v1/namespaces/a%2Fb/pods",
        "/api/v1/namespaces/a/pods/pod%2D001",
        "/api/v1/namespaces/a/configmaps/map-01/status",
        "/api/v1/watch/namespaces/a/pods/pod-001?fieldSelector=spec.nodeName%3Dnode-1",
        "/api/v1/watch/namespaces/a/pods/pod-001?fieldSelector=metadata.name%3Dother",
    ] {
        context.get(path, &[]).await;
    }
    let methods = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    let json = [("content-type", "application/json")];
    let text = [("content-type", "text/plain")];
    for path in [
        "/api/v1/pods",
        "/api/v1/namespaces/a/pods/none/status",
        "/api/v1/namespaces/a/pods/none",
        "/nothing",
        "/version",
    ] {
        for method in &methods {
            for headers in [&json, &text] {
                let safe = path != "/version" || headers == &json;
                let question = Question {
                    method,
                    path,
                    headers,
                    body: "{",
                };
                if safe {
                    context.ask(question).await;
                }
            }
        }
    }
    for path in ["/api/v1/namespaces/a/pods", "/api/v1/nodes"] {
        for method in [&Method::PUT, &Method::PATCH] {
            context
                .ask(Question {
                    method,
                    path,
                    headers: &json,
                    body: "{}",
                })
                .await;
        }
    }
}

async fn deadlines(context: &CaseContext<'_>) {
    let ahead = context.world.data.revisions.last().expect("revisions") + 1_000_000;
    for path in [PODS.to_owned(), format!("{PODS}/pod-004")] {
        context
            .get(
                &format!("{path}?resourceVersion={ahead}&timeout=300ms"),
                &[],
            )
            .await;
    }
}
