//! Writes: makes the same steps in each server's own namespace, and compares each response.
//!
//! Objects are written with all fields that a real server would default, so that the effects of
//! writes are compared and not the defaults.

use ::http::Method;
use serde_json::{Value, json};

use crate::case::{CaseContext, cases, put};
use crate::compare::Question;
use crate::steps::{
    EVENTS, JSON, LEASES, MAPS, MERGE, OPERATIONS, OURS, PODS, SECRETS, STRATEGIC, Steps, WIDGETS,
    pod,
};

cases! {
    objects_live_and_die_the_same everywhere;
    refusals_are_the_same once;
    names_and_versions_are_refused_the_same once;
    custom_resources_are_refused_the_same once;
    patches_do_the_same once;
    collections_are_deleted_the_same everywhere;
    what_one_writes_the_other_reads over_each_etcd;
}

async fn objects_live_and_die_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"k": "v"}});
    let secret = json!({"metadata": {"name": "m"}, "stringData": {"k": "v"}});
    let lease = json!({"metadata": {"name": "m"}, "spec": {"holderIdentity": "h", "leaseDurationSeconds": 10, "renewTime": "2026-01-02T03:04:05.000006Z"}});
    let event = json!({"metadata": {"name": "m"}, "involvedObject": {"namespace": "{NS}", "name": "x"}, "reason": "r", "message": "t", "type": "Normal",
        "source": {}, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z", "count": 1});
    let widget = json!({"kind": "Widget", "apiVersion": "bench.example.com/v1", "metadata": {"name": "m"}, "spec": {"size": 1}});
    for (path, object) in [
        (MAPS, map),
        (SECRETS, secret),
        (LEASES, lease),
        (EVENTS, event),
        (WIDGETS, widget),
        (PODS, pod("m")),
    ] {
        let one = format!("{path}/m");
        steps.post(path, &object).await;
        steps.post(path, &object).await;
        steps.get(&one).await;
        let mut changed = object.clone();
        changed["metadata"]["labels"] = json!({"new": "label"});
        steps.put(&one, &changed).await;
        changed["metadata"]["resourceVersion"] = "{RV}".into();
        steps.put(&one, &changed).await;
        steps.put(&one, &changed).await;
        changed["metadata"]["resourceVersion"] = "1".into();
        steps.put(&one, &changed).await;
        changed["metadata"]["resourceVersion"] = "".into();
        changed["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
        steps.put(&one, &changed).await;
        steps
            .step(
                Method::PATCH,
                &one,
                MERGE,
                &json!({"metadata": {"annotations": {"a": "<&>"}}}),
            )
            .await;
        steps
            .step(
                Method::PATCH,
                &one,
                MERGE,
                &json!({"metadata": {"resourceVersion": "1"}}),
            )
            .await;
        steps
            .step(
                Method::PATCH,
                &one,
                MERGE,
                &json!({"metadata": {"finalizers": ["example.com/held"]}}),
            )
            .await;
        for query in ["?dryRun=All", "?dryRun=Some"] {
            steps.delete(&format!("{one}{query}"), &Value::Null).await;
        }
        steps
            .delete(&one, &json!({"preconditions": {"uid": "other"}}))
            .await;
        steps
            .delete(&one, &json!({"preconditions": {"resourceVersion": "1"}}))
            .await;
        steps.delete(&one, &json!({"gracePeriodSeconds": 0})).await;
        steps.delete(&one, &json!({"gracePeriodSeconds": 0})).await;
        steps
            .step(
                Method::PATCH,
                &one,
                MERGE,
                &json!({"metadata": {"finalizers": null}}),
            )
            .await;
        steps.get(&one).await;
        steps.delete(&one, &Value::Null).await;
        steps.put(&one, &object).await;
        steps
            .delete(
                &one,
                &json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}),
            )
            .await;
    }
    let status = json!({"metadata": {"name": "s"}, "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "qosClass": "BestEffort"}});
    steps.post(PODS, &pod("s")).await;
    let path = format!("{PODS}/s/status");
    steps.step(Method::PATCH, &path, MERGE, &status).await;
    steps.step(Method::PATCH, &path, STRATEGIC, &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"nodeName": "other"}})).await;
    steps.get(&path).await;
    steps
        .delete(&format!("{PODS}/s"), &json!({"gracePeriodSeconds": 0}))
        .await;
}

async fn refusals_are_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    for body in [
        json!("{"),
        json!(""),
        json!("[]"),
        json!("null"),
        json!({}),
        json!({"metadata": {}}),
        json!({"metadata": {"name": "UPPER"}}),
        json!({"metadata": {"name": "a/b"}}),
        json!({"metadata": {"name": "x".repeat(254)}}),
        json!({"metadata": {"name": "m", "namespace": "other"}}),
        json!({"metadata": {"name": "m", "resourceVersion": "7"}}),
        json!({"metadata": {"name": "m", "labels": {"a b": "c"}}}),
        json!({"metadata": {"name": "m"}, "data": {"k": 1}}),
        json!({"metadata": {"name": "m"}, "data": []}),
        json!({"metadata": []}),
        json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "m"}}),
        json!({"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "m"}}),
        json!({"apiVersion": "v2", "metadata": {"name": "m"}}),
        json!({"kind": "Other", "metadata": {"name": "m"}}),
    ] {
        let dry_run = if body.pointer("/metadata/labels").is_some() {
            "?dryRun=All"
        } else {
            ""
        };
        steps.post(&format!("{MAPS}{dry_run}"), &body).await;
    }
    let map = json!({"metadata": {"name": "m"}, "data": {"k": "v"}});
    for media_type in [
        "text/plain",
        "application/xml",
        "application/json;charset=utf-8",
        "application/vnd.kubernetes.protobuf",
    ] {
        steps
            .step(
                Method::POST,
                &format!("{MAPS}?dryRun=All"),
                media_type,
                &map,
            )
            .await;
    }
    for query in [
        "dryRun=All&fieldValidation=Strict",
        "fieldValidation=None",
        "dryRun=",
        "dryRun=None",
        "dryRun=All&dryRun=All",
        "fieldManager=x&dryRun=All",
    ] {
        steps.post(&format!("{MAPS}?{query}"), &map).await;
    }
    let mut unknown = map.clone();
    unknown["extra"] = json!(1);
    unknown["metadata"]["nmae"] = json!("x");
    for validation in ["Strict", "Warn", "Ignore", ""] {
        steps
            .post(
                &format!("{MAPS}?dryRun=All&fieldValidation={validation}"),
                &unknown,
            )
            .await;
    }
    steps
        .put(
            &format!("{MAPS}/none"),
            &json!({"metadata": {"name": "none"}}),
        )
        .await;
    steps
        .put(
            &format!("{MAPS}/none"),
            &json!({"metadata": {"name": "other"}}),
        )
        .await;
    steps
        .put(&format!("{MAPS}/none"), &json!({"metadata": {}}))
        .await;
    steps.delete(&format!("{MAPS}/none"), &Value::Null).await;
    steps.delete(&format!("{MAPS}/none"), &json!("[")).await;
    steps.post(&format!("{MAPS}/none"), &map).await;
    steps.put(MAPS, &map).await;
    steps.post("/api/v1/configmaps", &map).await;
    steps.delete("/api/v1/configmaps/x", &Value::Null).await;
    steps
        .step(Method::PATCH, &format!("{MAPS}/none"), MERGE, &json!({}))
        .await;
    for media_type in ["application/json", "text/plain", ""] {
        steps
            .step(
                Method::PATCH,
                &format!("{MAPS}/none"),
                media_type,
                &json!({}),
            )
            .await;
    }
    steps
        .step(
            Method::PATCH,
            "/apis/bench.example.com/v1/namespaces/{NS}/widgets/none",
            STRATEGIC,
            &json!({}),
        )
        .await;
}

async fn names_and_versions_are_refused_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    for metadata in [
        json!({"name": "ok", "generateName": "UP-", }),
        json!({"name": "UPPER", "generateName": "a_b"}),
        json!({"name": "X".repeat(300)}),
        json!({"name": "both", "generateName": "both-"}),
        json!({"name": "both", "generateName": "both-"}),
        json!({"name": "UPPER", "resourceVersion": "7"}),
        json!({"name": "v", "namespace": "other", "resourceVersion": "7"}),
        json!({"name": "v", "resourceVersion": "0"}),
        json!({"name": "w", "resourceVersion": "abc"}),
        json!({"name": "g", "generation": 7}),
    ] {
        steps.post(MAPS, &json!({"metadata": metadata})).await;
    }
    for version in ["abc", "-1", "99999999999999999999"] {
        let one = json!({"metadata": {"name": "v", "resourceVersion": version}});
        steps.put(&format!("{MAPS}/v"), &one).await;
        steps
            .step(Method::PATCH, &format!("{MAPS}/v"), MERGE, &one)
            .await;
    }
    for name in ["system:node.17a3", "UPPER_case", "..", "a%b"] {
        let event = json!({"metadata": {"name": name}, "involvedObject": {"namespace": "{NS}", "name": "x"}, "reason": "r", "message": "t", "type": "Normal",
            "source": {}, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z", "count": 1});
        steps.post(EVENTS, &event).await;
    }
    for name in ["a.b", "UP", "a..b"] {
        let namespace = json!({"metadata": {"name": name}});
        steps
            .post("/api/v1/namespaces?dryRun=All", &namespace)
            .await;
    }
    let map = json!({"metadata": {"name": "o"}});
    let long = "m".repeat(129);
    for query in [
        format!("fieldManager={long}"),
        format!("fieldManager={long}&dryRun=None"),
        "fieldManager=a%20b".to_owned(),
        "force=true".to_owned(),
    ] {
        steps
            .post(&format!("{MAPS}?dryRun=All&{query}"), &map)
            .await;
        let path = format!("{MAPS}/v?dryRun=All&{query}");
        steps.step(Method::PATCH, &path, MERGE, &json!({})).await;
    }
    let path = format!("{MAPS}/v?force=false");
    steps.step(Method::PATCH, &path, MERGE, &json!({})).await;
    let path = format!("{MAPS}?dryRun=None");
    steps.step(Method::POST, &path, "text/plain", &map).await;
    let path = format!("{MAPS}/none?dryRun=None");
    steps.step(Method::PATCH, &path, "text/plain", &map).await;
    for (media_type, patch) in [
        (OPERATIONS, json!({})),
        (MERGE, json!([])),
        (MERGE, json!("{")),
        (OPERATIONS, json!("not JSON")),
        (STRATEGIC, json!([])),
    ] {
        let path = format!("{MAPS}/none");
        steps.step(Method::PATCH, &path, media_type, &patch).await;
    }
    for query in ["export=true", "export", "export=false"] {
        steps.get(&format!("{MAPS}/v?{query}")).await;
    }
    for method in [Method::GET, Method::DELETE] {
        let path = format!("{MAPS}/a%25b");
        steps.step(method, &path, JSON, &Value::Null).await;
    }
}

async fn custom_resources_are_refused_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    const VERSION: &str = "bench.example.com/v1";
    for body in [
        json!({"metadata": {"name": "w"}}),
        json!({"apiVersion": VERSION, "metadata": {"name": "w"}, "spec": {"a-long-field": "and a long value"}}),
        json!({"kind": "Widget", "metadata": {"name": "w"}}),
        json!({"kind": "Other", "apiVersion": VERSION, "metadata": {"name": "w"}}),
        json!({"kind": "Widget", "apiVersion": "bench.example.com/v2", "metadata": {"name": "w"}}),
        json!({"kind": "Other", "apiVersion": VERSION, "metadata": {"name": "UPPER"}}),
        json!({"kind": "Other", "apiVersion": VERSION}),
        json!({"kind": "Other", "apiVersion": "bench.example.com/v2", "metadata": {"name": "w"}}),
        json!({"kind": "Other", "apiVersion": VERSION, "metadata": {"name": "w", "namespace": "x"}}),
        json!("null"),
        json!(" {}"),
    ] {
        steps.post(&format!("{WIDGETS}?dryRun=All"), &body).await;
    }
    let widget = json!({"kind": "Widget", "apiVersion": VERSION, "metadata": {"name": "w"}});
    steps.post(WIDGETS, &widget).await;
    let mut other = widget.clone();
    other["kind"] = "Other".into();
    steps.put(&format!("{WIDGETS}/none"), &other).await;
    steps.put(&format!("{WIDGETS}/w"), &other).await;
    other["metadata"]["resourceVersion"] = "{RV}".into();
    steps.put(&format!("{WIDGETS}/w"), &other).await;
}

async fn patches_do_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    steps.post(PODS, &pod("p")).await;
    let one = format!("{PODS}/p");
    for patch in [
        json!({"metadata": {"labels": {"app": null, "new": "1"}}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"labels": {"new": 1}}}),
        json!({"metadata": {"name": "other"}}),
        json!({"metadata": {"namespace": "other"}}),
        json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}}),
        json!({"metadata": {"creationTimestamp": null, "generation": 77}}),
        json!({"status": {"phase": "Failed"}}),
        json!({"unknown": 1}),
        json!({"kind": "Secret"}),
        json!({"apiVersion": "v2"}),
        json!([]),
        json!("{"),
        json!("7"),
        json!(""),
    ] {
        for media_type in [MERGE, STRATEGIC] {
            steps.step(Method::PATCH, &one, media_type, &patch).await;
        }
    }
    for patch in [
        json!({"spec": {"containers": [{"name": "c", "image": "registry.invalid/i:2"}]}}),
        json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]}}),
        json!({"metadata": {"labels": {"$patch": "replace", "only": "1"}}}),
        json!({"metadata": {"labels": {"$patch": "delete"}}}),
        json!({"metadata": {"finalizers": ["example.com/a"]}}),
        json!({"metadata": {"finalizers": ["example.com/b"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/b"]}}),
        json!({"metadata": {"$setElementOrder/finalizers": ["example.com/c", "example.com/d"], "finalizers": ["example.com/d", "example.com/c"]}}),
        json!({"metadata": {"finalizers": null}}),
        json!({"$patch": "mangle"}),
        json!({"spec": {"containers": {"name": "c"}}}),
        json!({"spec": {"containers": [{"image": "i"}]}}),
    ] {
        steps.step(Method::PATCH, &one, STRATEGIC, &patch).await;
    }
    for patch in [
        json!([{"op": "add", "path": "/metadata/labels/j", "value": "1"}]),
        json!([{"op": "test", "path": "/metadata/labels/j", "value": "1"}, {"op": "remove", "path": "/metadata/labels/j"}]),
        json!([{"op": "test", "path": "/metadata/labels/j", "value": "2"}]),
        json!([{"op": "remove", "path": "/metadata/labels/none"}]),
        json!([{"op": "replace", "path": "/metadata/labels/none", "value": "x"}]),
        json!([{"op": "add", "path": "/metadata/nothing/x", "value": "x"}]),
        json!([{"op": "mangle", "path": "/metadata"}]),
        json!([{"op": "replace", "path": "", "value": 7}]),
        json!({}),
        json!("["),
        json!([]),
    ] {
        steps.step(Method::PATCH, &one, OPERATIONS, &patch).await;
    }
    steps
        .step(
            Method::PATCH,
            &one,
            "application/apply-patch+yaml",
            &json!({}),
        )
        .await;
    steps.delete(&one, &json!({"gracePeriodSeconds": 0})).await;
}

async fn collections_are_deleted_the_same(context: &CaseContext<'_>) {
    let mut steps = Steps::begin(context).await;
    for i in 0..6 {
        let object = json!({"metadata": {"name": format!("d-{i}"), "labels": {"odd": (i % 2).to_string()}}, "data": {"k": "v"}});
        steps.post(MAPS, &object).await;
    }
    steps
        .delete(
            &format!("{MAPS}?labelSelector=odd%3D1&dryRun=All"),
            &Value::Null,
        )
        .await;
    steps
        .delete(&format!("{MAPS}?labelSelector=odd%3D1"), &Value::Null)
        .await;
    steps.get(&format!("{MAPS}?labelSelector=odd")).await;
    steps
        .delete(
            &format!("{MAPS}?fieldSelector=metadata.name%3Dd-2"),
            &Value::Null,
        )
        .await;
    steps
        .delete(&format!("{MAPS}?labelSelector=a%20b"), &Value::Null)
        .await;
    steps
        .delete(&format!("{MAPS}?labelSelector=odd&limit=1"), &Value::Null)
        .await;
    steps
        .delete(&format!("{MAPS}?resourceVersionMatch=Exact"), &Value::Null)
        .await;
    steps
        .delete(
            &format!("{MAPS}?labelSelector=odd"),
            &json!({"dryRun": ["All"]}),
        )
        .await;
    steps
        .delete(
            &format!("{MAPS}?labelSelector=odd"),
            &json!({"propagationPolicy": "Background"}),
        )
        .await;
    steps.get(&format!("{MAPS}?labelSelector=odd")).await;
    steps.delete("/api/v1/configmaps", &Value::Null).await;
}

/// An object that one server wrote can be read from the other immediately.
async fn what_one_writes_the_other_reads(context: &CaseContext<'_>) {
    let _steps = Steps::begin(context).await;
    let (real, ours) = (context.world.real.url.as_str(), context.world.our_url());
    let maps = MAPS.replace("{NS}", OURS);
    for turn in 0..20_u32 {
        let (writer, reader) = if turn.is_multiple_of(2) {
            (real, ours)
        } else {
            (ours, real)
        };
        let object = json!({"metadata": {"name": format!("w-{turn:02}")}, "data": {"turn": turn.to_string()}}).to_string();
        let headers = [("content-type", JSON)];
        let write = Question {
            method: &Method::POST,
            path: &maps,
            headers: &headers,
            body: &object,
        };
        let revision = put(writer, write).await.ok().revision();
        let list = format!("{maps}?fieldSelector=metadata.name!%3Dx");
        let read = Question {
            method: &Method::GET,
            path: &list,
            headers: &[],
            body: "",
        };
        let seen = put(reader, read).await.ok();
        if seen.revision() < revision || !seen.names().contains(&format!("{OURS}/w-{turn:02}")) {
            context.finding(format!(
                "a list of revision {} lacks what was written at {revision}",
                seen.revision()
            ));
        }
        context.get(&format!("{maps}/w-{turn:02}"), &[]).await.ok();
        context
            .get(&maps, &[("accept", "application/vnd.kubernetes.protobuf")])
            .await
            .ok();
    }
}
