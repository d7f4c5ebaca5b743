//! Options of writes, the objects that a path accepts, and values that are checked before they are
//! stored.

use ::http::Method;
use serde_json::{Value, json};

use crate::case::{CaseContext, cases};
use crate::steps::{JSON, LEASES, MAPS, MERGE, OPERATIONS, PODS, SECRETS, Steps, WIDGETS, pod};

cases! {
    deletions_are_asked_for_the_same once;
    writes_go_where_they_may_the_same once;
    values_are_stored_the_same once;
}

async fn deletions_are_asked_for_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    let one = format!("{MAPS}/o");
    steps
        .post(
            MAPS,
            &json!({"metadata": {"name": "o", "finalizers": ["example.com/held"]}}),
        )
        .await;
    for (query, options) in [
        ("?resourceVersion=1", Value::Null),
        ("?uid=other", Value::Null),
        ("?propagationPolicy=Bogus", Value::Null),
        ("?propagationPolicy=Orphan&orphanDependents=1", Value::Null),
        ("?gracePeriodSeconds=x", Value::Null),
        ("?dryRun=All&fieldValidation=bogus", Value::Null),
        ("?dryRun=All&limit=abc", Value::Null),
        ("", json!({"dryRun": ["Some"]})),
        ("", json!({"dryRun": ["All", "Some"]})),
        ("", json!({"propagationPolicy": "Bogus"})),
        (
            "",
            json!({"propagationPolicy": "Orphan", "orphanDependents": false}),
        ),
        ("", json!({"kind": "Pod", "apiVersion": "v1"})),
        ("", json!({"preconditions": null, "dryRun": ["All"]})),
        ("?dryRun=Some&uid=other", json!({"dryRun": ["All"]})),
        ("", json!({"orphanDependents": false, "dryRun": ["All"]})),
    ] {
        steps.delete(&format!("{one}{query}"), &options).await;
    }
    steps.delete(&one, &Value::Null).await;
    steps.post(MAPS, &json!({"metadata": {"name": "o"}})).await;
    let let_go = json!({"metadata": {"finalizers": null}});
    steps.step(Method::PATCH, &one, MERGE, &let_go).await;
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        steps.delete(&path, &Value::Null).await;
    }
}

async fn writes_go_where_they_may_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    steps
        .get(&format!("{MAPS}/none?limit=abc&timeoutSeconds=x"))
        .await;
    steps.get("/api/v1/namespaces/{NS}/finalize").await;
    let old = "/api/v1/watch/namespaces/{NS}/configmaps";
    steps.delete(&format!("{old}/o"), &Value::Null).await;
    steps.post(old, &json!({"metadata": {"name": "o"}})).await;

    let one = format!("{LEASES}/o");
    steps
        .put(
            &one,
            &json!({"metadata": {"name": "o", "uid": "00000000-0000-4000-8000-000000000000"}}),
        )
        .await;
    steps
        .put(
            &one,
            &json!({"metadata": {"name": "o", "resourceVersion": "7"}}),
        )
        .await;
    steps.delete(&one, &Value::Null).await;

    let widget = json!({
        "kind": "Widget", "apiVersion": "bench.example.com/v1", "metadata": {"name": "o", "labels": {"a": "b"}}, "spec": {"size": 1},
    });
    steps.post(WIDGETS, &widget).await;
    let one = format!("{WIDGETS}/o");
    let other = json!({"metadata": {"labels": {"a": "c"}, "finalizers": ["x.example.com/y"]}, "spec": {"size": 2}, "status": {"ready": true}});
    steps
        .step(Method::PATCH, &format!("{one}/status"), MERGE, &other)
        .await;
    steps
        .step(Method::PATCH, &one, MERGE, &json!({"spec": {"size": 3}}))
        .await;
    steps
        .step(
            Method::PATCH,
            &one,
            MERGE,
            &json!({"metadata": {"labels": {"a": 1}}}),
        )
        .await;
    steps.delete(&one, &Value::Null).await;

    steps.post(PODS, &pod("o")).await;
    let copies: Value = (0..35)
        .map(|i| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/a{i}")}))
        .collect();
    let one = format!("{PODS}/o");
    steps.step(Method::PATCH, &one, OPERATIONS, &copies).await;
    let many = vec![json!({"op": "test", "path": "/kind", "value": "Pod"}); 10_001];
    steps
        .step(Method::PATCH, &one, OPERATIONS, &many.into())
        .await;
    let status = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}, "status": {"qosClass": null}});
    steps
        .step(Method::PATCH, &format!("{one}/status"), MERGE, &status)
        .await;
    steps.delete(&one, &json!({"gracePeriodSeconds": 0})).await;
}

async fn values_are_stored_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    for (i, cpu) in [
        "0.5", "100.0350", "1e3", "0.0001", "1000m", "1.5k", "+1", "1.", ".5",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("q-{i}");
        let mut sent = pod(&name);
        sent["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": cpu, "memory": "0.5Gi"}});
        sent["status"]["qosClass"] = "Burstable".into();
        steps.post(PODS, &sent).await;
        steps
            .delete(&format!("{PODS}/{name}"), &json!({"gracePeriodSeconds": 0}))
            .await;
    }
    for cpu in ["abc", "1 Ki", "1K", ""] {
        let mut sent = pod("q");
        sent["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        steps.post(PODS, &sent).await;
    }
    let mut sent = pod("q");
    sent["spec"]["containers"][0]["ports"][0]["containerPort"] = 5_000_000_000_i64.into();
    steps.post(PODS, &sent).await;
    let secret = json!({"metadata": {"name": "o"}, "data": null, "stringData": {"a": "b"}});
    steps.post(SECRETS, &secret).await;
    steps.delete(&format!("{SECRETS}/o"), &Value::Null).await;
    let widget = r#"{"kind":"Widget","apiVersion":"bench.example.com/v1","metadata":{"name":"f"},"spec":{"size":1,"ratio":1.0,"large":1e21,"small":1e-7}}"#;
    steps
        .step(Method::POST, WIDGETS, JSON, &json!(widget))
        .await;
    steps.delete(&format!("{WIDGETS}/f"), &Value::Null).await;
}
