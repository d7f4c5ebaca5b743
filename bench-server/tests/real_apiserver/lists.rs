//! Lists: the table of resourceVersion, resourceVersionMatch, limit and continue, row by row;
//! selectors; tokens of one server at the other; single objects.

use ::http::Method;
use base64::Engine as _;
use etcd_api::kubernetes::KubernetesEtcd;

use crate::case::{CaseContext, cases, put};
use crate::compare::Question;
use crate::data::{LEASES, NAMESPACES, WIDGETS};
use crate::http::send;

cases! {
    every_collection_as_a_whole everywhere;
    a_tier_that_starts_later_lists_the_same over_each_etcd;
    every_row_of_the_table everywhere;
    pages_to_the_end_by_each_others_tokens everywhere;
    label_selectors once;
    field_selectors once;
    one_object everywhere;
    compacted_revisions once;
}

/// Returns the path of every collection of the data, across all namespaces.
pub(crate) fn collections() -> Vec<String> {
    let core = [
        "pods",
        "configmaps",
        "secrets",
        "nodes",
        "namespaces",
        "events",
    ];
    let mut paths: Vec<String> = core.iter().map(|name| format!("/api/v1/{name}")).collect();
    paths.extend([format!("{LEASES}/leases"), format!("{WIDGETS}/widgets")]);
    paths
}

/// Returns the path of a collection in one namespace, if its kind is namespaced.
fn inside(collection: &str, namespace: &str) -> String {
    let (root, name) = collection.rsplit_once('/').expect("a path");
    match name {
        "nodes" | "namespaces" => collection.to_owned(),
        _ => format!("{root}/namespaces/{namespace}/{name}"),
    }
}

async fn every_collection_as_a_whole(context: &CaseContext<'_>) {
    for collection in collections() {
        context.get(&collection, &[]).await.ok();
        for namespace in NAMESPACES.iter().chain(&["none"]) {
            context.get(&inside(&collection, namespace), &[]).await.ok();
        }
    }
}

/// The later tier fills its caches by lists of what a real server wrote, not by watching the
/// writes.
async fn a_tier_that_starts_later_lists_the_same(context: &CaseContext<'_>) {
    let later = context.world.ours().another().await;
    for path in collections() {
        for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
            let question = Question {
                method: &Method::GET,
                path: &path,
                headers: &[("accept", accept)],
                body: "",
            };
            let real = put(&context.world.real.url, question).await;
            context.compare(question, &real, &put(&later.url, question).await);
        }
    }
}

async fn every_row_of_the_table(context: &CaseContext<'_>) {
    let revisions = &context.world.data.revisions;
    let (early, late) = (revisions[2], revisions[revisions.len() - 2]);
    let versions = [
        String::new(),
        "0".to_owned(),
        early.to_string(),
        late.to_string(),
    ];
    for collection in [
        "/api/v1/pods",
        "/api/v1/namespaces/a/configmaps",
        "/api/v1/nodes",
        &format!("{WIDGETS}/widgets"),
    ] {
        let token = context
            .get(&format!("{collection}?limit=2"), &[])
            .await
            .ok()
            .token();
        for version in &versions {
            for matched in ["", "Exact", "NotOlderThan", "exact"] {
                for limit in ["0", "1", "7", "500"] {
                    for token in ["", &token] {
                        let query = format!(
                            "resourceVersion={version}&resourceVersionMatch={matched}&limit={limit}&continue={token}"
                        );
                        context.get(&format!("{collection}?{query}"), &[]).await;
                    }
                }
            }
        }
    }
}

/// The tokens of each server are used on both servers.
async fn pages_to_the_end_by_each_others_tokens(context: &CaseContext<'_>) {
    let selectors = [
        "",
        "&labelSelector=app%3Dapp-1",
        "&fieldSelector=spec.nodeName%3Dnode-2",
        "&labelSelector=none",
    ];
    for collection in ["/api/v1/pods", "/api/v1/namespaces/a-b/pods"] {
        for limit in [1, 7, 64, 500] {
            for selector in selectors {
                let query = format!("limit={limit}{selector}");
                let mut page = context
                    .get(&format!("{collection}?{query}"), &[])
                    .await
                    .ok();
                for turn in 0..40 {
                    let token = page.token();
                    if token.is_empty() {
                        break;
                    }
                    let next = format!("{collection}?continue={token}&{query}");
                    page = context.get(&next, &[]).await;
                    if turn % 2 == 1 {
                        let (url, headers) = (context.world.our_url(), &[]);
                        page = send(url, Method::GET, &next, headers, "").await;
                    }
                }
            }
        }
    }
}

async fn label_selectors(context: &CaseContext<'_>) {
    for selector in [
        "app%3Dapp-1",
        "app%3D%3Dapp-1,tier!%3Dfront",
        "app+in+(app-0,app-2),tier",
        "app+notin+(app-3)",
        "!solo",
        "solo",
        "solo%3D",
        "step%3E5",
        "step%3C10,app",
        "none",
        "%20app%20=%20app-1%20,%20tier%20",
        "a%20b",
        "app+in+(app-0",
        "app+in+()",
        "app+in",
        "%3Dx",
        "app%3D%3D%3Dx",
        "app%3Da/b",
        "-app",
        "app,,tier",
        ",",
        "x/y/z",
        "step%3Ex",
        "app%3D%22app-1%22",
    ] {
        for collection in ["/api/v1/pods", "/api/v1/namespaces/a/configmaps"] {
            context
                .get(&format!("{collection}?labelSelector={selector}"), &[])
                .await;
            context
                .get(
                    &format!("{collection}?labelSelector={selector}&resourceVersion=0"),
                    &[],
                )
                .await;
        }
    }
}

async fn field_selectors(context: &CaseContext<'_>) {
    for selector in [
        "metadata.name%3Dpod-004",
        "metadata.name!%3Dpod-004",
        "metadata.namespace%3Da-b",
        "metadata.name%3Dpod-004,metadata.namespace%3Da",
        "spec.nodeName%3Dnode-1",
        "spec.nodeName%3D%3Dnode-1",
        "spec.nodeName!%3Dnode-1",
        "spec.nodeName%3D",
        "spec.nodeName%3Dnode-1,status.phase%3DRunning",
        "spec.restartPolicy%3DNever",
        "spec.schedulerName%3Ddefault-scheduler",
        "spec.serviceAccountName%3Drunner",
        "spec.hostNetwork%3Dtrue",
        "spec.hostNetwork%3Dfalse",
        "status.phase!%3DRunning",
        "status.podIP%3D10.0.0.8",
        "status.podIPs%3D10.0.0.8",
        "status.nominatedNodeName%3Dnode-5",
        "spec.unschedulable%3Dtrue",
        "spec.unschedulable%3Dfalse",
        "type%3Dkubernetes.io/basic-auth",
        "status.phase%3DActive",
        "reason%3DPulled",
        "involvedObject.name%3Dpod-001",
        "involvedObject.kind%3DPod,type!%3DNormal",
        "reportingComponent%3Dscheduler",
        "source%3Dkubelet",
        "name%3Dpod-004",
        "spec.unknown%3D1",
        "x",
        "metadata.name",
        "metadata.name%3Da%3Db",
        "metadata.name%3E1",
        "%3D",
        ",",
        "metadata.name%3Da\\%3Db",
        "metadata.labels%3Da",
        "holder%3Dx",
    ] {
        for collection in collections() {
            context
                .get(&format!("{collection}?fieldSelector={selector}"), &[])
                .await;
            let one = inside(&collection, "a");
            context
                .get(&format!("{one}?fieldSelector={selector}&limit=1"), &[])
                .await;
        }
    }
}

async fn one_object(context: &CaseContext<'_>) {
    let now = context.world.data.revisions.last().expect("revisions");
    for (collection, name) in [
        ("/api/v1/namespaces/a/pods", "pod-004"),
        ("/api/v1/namespaces/a/pods", "pod-005"),
        ("/api/v1/namespaces/b/configmaps", "map-14"),
        ("/api/v1/namespaces/b/configmaps", "map-02"),
        ("/api/v1/namespaces/a-b/secrets", "secret-1"),
        ("/api/v1/nodes", "node-0"),
        ("/api/v1/namespaces", "a-b"),
        ("/api/v1/namespaces/a/events", "event-3"),
        (&*format!("{LEASES}/namespaces/a/leases"), "lease-2"),
        (&*format!("{WIDGETS}/namespaces/a/widgets"), "widget-3"),
    ] {
        for query in [
            "",
            "?resourceVersion=0",
            &format!("?resourceVersion={now}"),
            "?resourceVersion=x",
            "?resourceVersionMatch=Exact",
            "?watch=true",
            "?limit=1&continue=x",
            "?pretty=1",
        ] {
            context
                .get(&format!("{collection}/{name}{query}"), &[])
                .await;
            context.get(&format!("{collection}/none{query}"), &[]).await;
        }
        context
            .get(&format!("{collection}/{name}/status"), &[])
            .await;
    }
}

/// Revision 2 is older than any cache; storage refuses a token and an exact list of it.
async fn compacted_revisions(context: &CaseContext<'_>) {
    let storage = context.world.ours().storage().await;
    let before = context.world.data.revisions[0] - 100;
    storage.compact(before).await.expect("storage compacts");
    // The cache of this tier has no state from before the compaction.
    let later = context.world.ours().another().await;
    let token = |revision: i64, start: &str| {
        let text =
            format!("{{\"v\":\"meta.k8s.io/v1\",\"rv\":{revision},\"start\":\"{start}\\u0000\"}}");
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    };
    for collection in ["/api/v1/pods", "/api/v1/configmaps"] {
        for query in [
            "resourceVersion=2&resourceVersionMatch=Exact".to_owned(),
            "resourceVersion=2&limit=3".to_owned(),
            format!("limit=3&continue={}", token(2, "a/pod-003")),
            format!("continue={}", token(2, "node-1")),
            format!("limit=3&continue={}", token(-1, "a/pod-003")),
            format!("limit=3&continue={}", token(-1, "zzz")),
        ] {
            let path = format!("{collection}?{query}");
            let question = Question {
                method: &Method::GET,
                path: &path,
                headers: &[],
                body: "",
            };
            let real = put(&context.world.real.url, question).await;
            context.compare(question, &real, &put(&later.url, question).await);
        }
    }
}
