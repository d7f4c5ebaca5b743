//! Representations of responses: tables, partial objects, protobuf, indented and compressed, for
//! lists and single objects.

use crate::case::{CaseContext, cases};
use crate::data::{LEASES, WIDGETS};
use crate::lists::collections;

cases! {
    every_kind_in_every_form everywhere;
    pages_in_every_form once;
    what_a_client_accepts once;
    compression once;
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const FORMS: [&str; 9] = [
    "application/json",
    PROTOBUF,
    TABLE,
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    PARTIAL_LIST,
    PARTIAL,
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
];

async fn every_kind_in_every_form(context: &CaseContext<'_>) {
    let one = [
        "/api/v1/namespaces/a/pods/pod-008".to_owned(),
        "/api/v1/namespaces/a/configmaps/map-02".to_owned(),
        "/api/v1/nodes/node-0".to_owned(),
        format!("{LEASES}/namespaces/a/leases/lease-1"),
        format!("{WIDGETS}/namespaces/a/widgets/widget-1"),
        "/api/v1/namespaces/a/pods/none".to_owned(),
    ];
    for path in collections().iter().chain(&one) {
        for form in FORMS {
            for query in ["", "?pretty=true", "?pretty=false"] {
                context
                    .get(&format!("{path}{query}"), &[("accept", form)])
                    .await;
            }
        }
        for include in ["None", "Metadata", "Object", "", "All"] {
            let path = format!("{path}?includeObject={include}");
            context.get(&path, &[("accept", TABLE)]).await;
            context.get(&path, &[]).await;
        }
    }
}

async fn pages_in_every_form(context: &CaseContext<'_>) {
    for form in FORMS {
        for query in [
            "limit=3",
            "limit=3&labelSelector=tier",
            "limit=500&labelSelector=none",
            "resourceVersion=0",
        ] {
            for collection in ["/api/v1/pods", &format!("{WIDGETS}/widgets")] {
                let accept = [("accept", form)];
                context.get(&format!("{collection}?{query}"), &accept).await;
                let token = context
                    .get(&format!("{collection}?limit=2"), &[])
                    .await
                    .ok()
                    .token();
                context
                    .get(&format!("{collection}?{query}&continue={token}"), &accept)
                    .await;
            }
        }
    }
}

async fn what_a_client_accepts(context: &CaseContext<'_>) {
    for accept in [
        "",
        "*/*",
        "application/*",
        "application/json, */*",
        "text/html",
        "text/html, image/gif, *; q=.2, */*; q=.2",
        "application/yaml",
        "application/cbor",
        "application/json;charset=utf-8",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
        "application/json;as=Table",
        "application/json;as=Nothing;v=v1;g=meta.k8s.io",
        "application/json;pretty=1",
        "application/json;q=0.1,application/vnd.kubernetes.protobuf;q=0.9",
        "application/vnd.kubernetes.protobuf,application/json",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/json;stream=watch",
        "garbage",
        "application/json;;",
    ] {
        for path in [
            "/api/v1/nodes",
            "/api/v1/nodes/node-1",
            "/api/v1/nodes/none",
            &format!("{WIDGETS}/namespaces/a/widgets"),
        ] {
            context.get(path, &[("accept", accept)]).await;
        }
    }
    for agent in ["curl/8.0", "Mozilla/5.0", "Wget/1", "kubectl"] {
        for path in [
            "/api/v1/nodes/node-1",
            "/api/v1/nodes",
            "/api/v1/nodes/none",
        ] {
            context.get(path, &[("user-agent", agent)]).await;
            context
                .get(&format!("{path}?pretty=0"), &[("user-agent", agent)])
                .await;
        }
    }
}

async fn compression(context: &CaseContext<'_>) {
    for accept in [
        "gzip",
        "gzip, deflate, br",
        "deflate",
        "gzip;q=0",
        "identity",
    ] {
        let headers = [("accept-encoding", accept)];
        for path in [
            "/api/v1/pods",
            "/api/v1/pods?limit=3",
            "/api/v1/namespaces/a/configmaps/map-14",
            "/api/v1/namespaces/a/configmaps/map-01",
            "/api/v1/nodes",
            "/api/v1/nodes/none",
        ] {
            context.get(path, &headers).await;
            context.get(path, &[headers[0], ("accept", PROTOBUF)]).await;
            context.get(path, &[headers[0], ("accept", TABLE)]).await;
        }
    }
}
