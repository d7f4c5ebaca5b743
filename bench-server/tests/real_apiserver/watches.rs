//! Watches that end at their own timeout: from a revision, from the current state, with initial
//! events, filtered, and in each representation.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::Value;

use crate::case::{CaseContext, cases};
use crate::data::{LEASES, WIDGETS};
use crate::http::Reply;

cases! {
    from_revisions everywhere;
    from_the_state everywhere;
    filtered everywhere;
    in_every_form everywhere;
    of_the_old_path once;
}

const BY_LIST: &str =
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
const NOT_BY_LIST: &str = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

/// Sends the requests to both servers and compares; returns the real server's responses.
async fn ask(context: &CaseContext<'_>, questions: &[(String, Vec<(&str, &str)>)]) -> Vec<Reply> {
    let mut replies = Vec::new();
    for some in questions.chunks(12) {
        let asked = some
            .iter()
            .map(|(path, headers)| context.get(path, headers));
        replies.extend(join_all(asked).await);
    }
    replies
}

/// Returns the types of a watch's events in JSON.
fn types(reply: &Reply) -> BTreeSet<String> {
    let events = serde_json::Deserializer::from_slice(&reply.body).into_iter::<Value>();
    let types = events
        .map_while(Result::ok)
        .map(|event| event["type"].clone());
    types
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

fn watched() -> [String; 5] {
    [
        "/api/v1/pods".to_owned(),
        "/api/v1/namespaces/a/pods".to_owned(),
        "/api/v1/namespaces/b/configmaps".to_owned(),
        "/api/v1/nodes".to_owned(),
        format!("{WIDGETS}/widgets"),
    ]
}

async fn from_revisions(context: &CaseContext<'_>) {
    let data = &context.world.data;
    let revisions: BTreeSet<_> = [&data.revisions, &data.watched]
        .into_iter()
        .flat_map(|revisions| [0, 3, 15, revisions.len() - 1].map(|i| revisions[i]))
        .collect();
    let mut questions = Vec::new();
    for path in watched() {
        for revision in &revisions {
            let query = format!("watch=1&timeoutSeconds=1&resourceVersion={revision}");
            questions.push((format!("{path}?{query}"), Vec::new()));
            questions.push((format!("{path}?{query}&{NOT_BY_LIST}"), Vec::new()));
        }
    }
    let replies = ask(context, &questions).await;
    // Every watched kind was changed while both servers watched it; pods were also deleted.
    let mut of_paths: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for ((question, _), reply) in questions.iter().zip(&replies) {
        let (path, _) = question.split_once('?').expect("it has a query");
        of_paths.entry(path).or_default().extend(types(reply));
    }
    for (path, found) in &of_paths {
        let deleted = path.ends_with("/pods").then_some("DELETED");
        for expected in deleted.into_iter().chain(["MODIFIED"]) {
            if !found.contains(expected) {
                context.finding(format!("{path}: no event is {expected}: {found:?}"));
            }
        }
    }
    // The first watch is of pods, from the oldest revision.
    if context.world.is_pair() && types(&replies[0]) != BTreeSet::from(["ERROR".to_owned()]) {
        context.finding("watches from before both caches are not refused".to_owned());
    }
}

async fn from_the_state(context: &CaseContext<'_>) {
    let late = context.world.data.watched[20];
    let mut questions = Vec::new();
    for path in watched() {
        for query in [
            String::new(),
            "resourceVersion=0".to_owned(),
            "allowWatchBookmarks=true".to_owned(),
            "resourceVersion=0&allowWatchBookmarks=true".to_owned(),
            BY_LIST.to_owned(),
            format!("resourceVersion=0&{BY_LIST}"),
            format!("resourceVersion={late}&{BY_LIST}"),
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
            NOT_BY_LIST.to_owned(),
            format!("resourceVersion=0&{NOT_BY_LIST}"),
            "limit=2&timeout=1ms".to_owned(),
        ] {
            questions.push((
                format!("{path}?watch=1&timeoutSeconds=1&{query}"),
                Vec::new(),
            ));
        }
    }
    ask(context, &questions).await;
}

async fn filtered(context: &CaseContext<'_>) {
    let first = context.world.data.watched[0];
    let mut questions = Vec::new();
    for selector in [
        "labelSelector=app%3Dapp-1",
        "labelSelector=step",
        "labelSelector=!step,app+in+(app-0,app-3)",
        "fieldSelector=spec.nodeName%3Dnode-2",
        "fieldSelector=status.phase%3DRunning",
        "fieldSelector=status.phase!%3DRunning,spec.nodeName%3Dnode-1",
        "fieldSelector=metadata.name%3Dpod-024",
        "fieldSelector=metadata.namespace%3Da-b",
    ] {
        for path in ["/api/v1/pods", "/api/v1/namespaces/a/pods"] {
            for start in [format!("resourceVersion={first}"), BY_LIST.to_owned()] {
                let query = format!("watch=1&timeoutSeconds=1&{start}&{selector}");
                questions.push((format!("{path}?{query}"), Vec::new()));
            }
        }
    }
    ask(context, &questions).await;
}

async fn in_every_form(context: &CaseContext<'_>) {
    let first = context.world.data.watched[0];
    let mut questions = Vec::new();
    for accept in [
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "text/html",
    ] {
        for path in [
            "/api/v1/namespaces/a/pods",
            "/api/v1/nodes",
            &format!("{LEASES}/leases"),
            &format!("{WIDGETS}/namespaces/a/widgets"),
        ] {
            for start in [
                format!("resourceVersion={first}"),
                BY_LIST.to_owned(),
                "resourceVersion=2".to_owned(),
            ] {
                // The real server's cache of a custom resource starts after its objects were
                // written.
                if path.starts_with(WIDGETS) && start == "resourceVersion=2" {
                    continue;
                }
                let path = format!("{path}?watch=1&timeoutSeconds=1&{start}");
                questions.push((path.clone(), vec![("accept", accept)]));
                questions.push((format!("{path}&pretty=1"), vec![("accept", accept)]));
                questions.push((path, vec![("accept", accept), ("accept-encoding", "gzip")]));
            }
        }
    }
    ask(context, &questions).await;
}

async fn of_the_old_path(context: &CaseContext<'_>) {
    let first = context.world.data.watched[0];
    let paths = [
        "pods",
        "namespaces/a/pods",
        "namespaces/a/pods/pod-024",
        "nodes/node-1",
        "namespaces/a",
        "namespaces",
    ];
    let questions: Vec<_> = paths
        .iter()
        .flat_map(|path| {
            ["", "resourceVersion=0", &format!("resourceVersion={first}")].map(|start| {
                (
                    format!("/api/v1/watch/{path}?timeoutSeconds=1&{start}"),
                    Vec::new(),
                )
            })
        })
        .collect();
    ask(context, &questions).await;
}
