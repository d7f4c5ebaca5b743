//! POST, PUT, PATCH and DELETE: their effects, and the fields that the server sets.

use etcd_api::kubernetes::{GetOptions, KubernetesEtcd};
use http::Method;
use kube_api::envelope;
use serde_json::{Value, json};

use crate::harness::{ALL, ONE, TestCluster, cases};
use crate::http::send;

cases! {
    the_server_sets_its_fields on ALL;
    an_update_needs_the_revision_that_the_client_read on ALL;
    each_patch_type_changes_the_object on ONE;
    finalizers_keep_a_deleted_object on ONE;
    preconditions_protect_from_deletion on ONE;
    a_collection_is_deleted_by_selector on ALL;
    a_dry_run_changes_nothing on ONE;
    json_and_protobuf_store_the_same on ONE;
    concurrent_patches_are_all_kept on ALL;
    deleting_a_namespace_deletes_its_objects on ONE;
    a_custom_resource_keeps_unknown_fields on ALL;
    events_expire_by_a_lease on ALL;
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/ns/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/ns/pods";
pub(crate) const WIDGETS: &str = "/apis/bench.example.com/v1/namespaces/ns/widgets";

pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

async fn the_server_sets_its_fields(cluster: TestCluster) {
    let mut sent = pod("");
    sent["metadata"] = json!({"generateName": "web-", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "labels": {"a": "b"}});
    let reply = cluster.post(PODS, &sent).await.ok();
    assert_eq!(reply.code, 201);
    let made = reply.json();
    let metadata = &made["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    assert!(
        text("name").starts_with("web-") && text("name").len() == 9,
        "{metadata}"
    );
    assert_eq!(
        (text("namespace"), text("uid").len()),
        ("ns".to_owned(), 36)
    );
    assert!(text("creationTimestamp").as_str() > "2026", "{metadata}");
    assert_eq!(
        (&metadata["generation"], &made["status"]["phase"]),
        (&json!(1), &json!("Pending"))
    );
    let path = format!("{PODS}/{}", text("name"));
    let read = cluster.get(&path).await.ok();
    assert_eq!(read.body, reply.body, "what was answered is what is read");

    let storage = cluster.storage().await;
    let key = format!("/registry/pods/ns/{}", text("name"));
    let kv = storage
        .get(key.as_bytes(), GetOptions::default())
        .await
        .expect("read")
        .kv
        .expect("stored");
    assert_eq!(kv.mod_revision, reply.revision());
    assert!(kv.value.starts_with(b"k8s\0"));
    let raw = envelope::open(&kv.value).expect("sealed");
    let stored = kube_api::Metadata::read(raw).expect("metadata");
    assert_eq!(
        stored.resource_version, b"",
        "the version is the key's and is not stored"
    );

    let image = json!({"spec": {"containers": [{"name": "c", "image": "i:2"}]}});
    let changed = cluster.patch(&path, &image).await.ok().json();
    assert_eq!(changed["metadata"]["generation"], 2);
    let relabelled = cluster
        .patch(
            &path,
            &json!({"metadata": {"labels": {"c": "d"}, "uid": null}}),
        )
        .await
        .ok()
        .json();
    assert_eq!(
        relabelled["metadata"]["generation"], 2,
        "counts changes of the spec alone"
    );
    assert_eq!(relabelled["metadata"]["uid"], metadata["uid"]);
    let status = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}});
    let main = cluster
        .patch(&path, &json!({"status": {"phase": "Running"}}))
        .await
        .ok()
        .json();
    assert_eq!(
        main["status"]["phase"], "Pending",
        "the status has a URL of its own"
    );
    let running = cluster
        .patch(&format!("{path}/status"), &status)
        .await
        .ok()
        .json();
    assert_eq!(running["status"]["phase"], "Running");
    assert_eq!(
        running["spec"].get("nodeName"),
        None,
        "and that URL changes nothing else"
    );
}

async fn an_update_needs_the_revision_that_the_client_read(cluster: TestCluster) {
    let first = cluster.config_map("ns", "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let object = |version: Option<i64>| {
        let version = version.map(|version| version.to_string());
        json!({"metadata": {"name": "a", "resourceVersion": version}, "data": {"k": "new"}})
    };
    let second = cluster
        .put(&path, &object(Some(first)))
        .await
        .ok()
        .revision();
    assert!(second > first);
    let late = cluster.put(&path, &object(Some(first))).await;
    assert_eq!(late.failure(), (409, "Conflict".to_owned()));
    let text = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(late.json()["message"], text);
    assert_eq!(
        late.json()["details"],
        json!({"name": "a", "kind": "configmaps"})
    );
    let same = cluster.put(&path, &object(None)).await.ok();
    assert_eq!(
        same.revision(),
        second,
        "what changes nothing is not written"
    );
    assert_eq!(
        cluster
            .put(
                &format!("{CONFIG_MAPS}/b"),
                &json!({"metadata": {"name": "b"}})
            )
            .await
            .failure(),
        (404, "NotFound".to_owned())
    );

    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "renewTime": "2026-01-31T09:05:00.123456Z"}});
    let made = cluster.put(&format!("{leases}/l"), &lease).await.ok();
    assert_eq!(made.code, 201, "a lease that is put is made");
    assert_eq!(
        made.json()["spec"]["renewTime"],
        "2026-01-31T09:05:00.123456Z"
    );
    let blind = cluster.put(&format!("{leases}/l"), &lease).await;
    assert_eq!(
        blind.failure(),
        (422, "Invalid".to_owned()),
        "but it must be known to be replaced"
    );
}

async fn each_patch_type_changes_the_object(cluster: TestCluster) {
    cluster.post(PODS, &pod("a")).await.ok();
    let path = format!("{PODS}/a");
    let patch = async |media_type: &str, body: Value| {
        cluster
            .request(Method::PATCH, &path, media_type, body.to_string())
            .await
    };
    let second = json!({"spec": {"containers": [{"name": "d", "image": "i:2"}]}});
    let strategic = patch("application/strategic-merge-patch+json", second.clone())
        .await
        .ok()
        .json();
    assert_eq!(
        strategic["spec"]["containers"].as_array().map(Vec::len),
        Some(2),
        "containers merge by name"
    );
    let operations = json!([{"op": "replace", "path": "/spec/containers/1/image", "value": "i:3"}]);
    let json_patch = patch("application/json-patch+json", operations)
        .await
        .ok()
        .json();
    assert_eq!(json_patch["spec"]["containers"][1]["image"], "i:3");
    let merged = patch("application/merge-patch+json", second)
        .await
        .ok()
        .json();
    assert_eq!(
        merged["spec"]["containers"].as_array().map(Vec::len),
        Some(1),
        "lists are replaced"
    );
    let versioned = patch(
        "application/merge-patch+json",
        json!({"metadata": {"resourceVersion": "1"}}),
    )
    .await;
    assert_eq!(versioned.failure(), (409, "Conflict".to_owned()));
    let failing = patch(
        "application/json-patch+json",
        json!([{"op": "remove", "path": "/spec/nothing"}]),
    )
    .await;
    assert_eq!(failing.failure(), (422, "Invalid".to_owned()));
    for unknown in ["application/apply-patch+yaml", "application/json", ""] {
        assert_eq!(
            patch(unknown, json!({})).await.failure(),
            (415, "UnsupportedMediaType".to_owned()),
            "{unknown}"
        );
    }
}

async fn finalizers_keep_a_deleted_object(cluster: TestCluster) {
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.com/wait"]}});
    cluster.post(CONFIG_MAPS, &object).await.ok();
    let path = format!("{CONFIG_MAPS}/a");
    let marked = cluster.delete(&path).await.ok();
    assert!(marked.json()["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(
        cluster.delete(&path).await.ok().revision(),
        marked.revision(),
        "once is enough"
    );
    cluster
        .patch(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    assert_eq!(
        cluster.get(&path).await.failure(),
        (404, "NotFound".to_owned())
    );
}

async fn preconditions_protect_from_deletion(cluster: TestCluster) {
    let revision = cluster.config_map("ns", "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let uid = cluster.get(&path).await.ok().json()["metadata"]["uid"].clone();
    let delete = async |preconditions: Value| {
        let body =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
        cluster
            .request(Method::DELETE, &path, "application/json", body.to_string())
            .await
    };
    for other in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        assert_eq!(delete(other).await.failure(), (409, "Conflict".to_owned()));
    }
    let gone = delete(json!({"uid": uid, "resourceVersion": revision.to_string()}))
        .await
        .ok()
        .json();
    assert_eq!(
        (&gone["status"], &gone["details"]["uid"]),
        (&json!("Success"), &uid)
    );
    assert_eq!(
        delete(json!({})).await.failure(),
        (404, "NotFound".to_owned())
    );
}

async fn a_collection_is_deleted_by_selector(cluster: TestCluster) {
    for (name, half) in [("a", "0"), ("b", "1"), ("c", "0")] {
        cluster
            .post(
                CONFIG_MAPS,
                &json!({"metadata": {"name": name, "labels": {"half": half}}}),
            )
            .await
            .ok();
    }
    cluster.config_map("other", "a").await;
    let deleted = cluster
        .delete(&format!("{CONFIG_MAPS}?labelSelector=half%3D0"))
        .await
        .ok();
    assert_eq!(
        deleted.names(),
        ["ns/a", "ns/c"],
        "the answer is what was selected"
    );
    assert_eq!(
        cluster.get("/api/v1/configmaps").await.ok().names(),
        ["ns/b", "other/a"]
    );
    assert_eq!(
        cluster.delete("/api/v1/configmaps").await.failure(),
        (405, "MethodNotAllowed".to_owned())
    );
}

async fn a_dry_run_changes_nothing(cluster: TestCluster) {
    let made = cluster
        .post(
            &format!("{CONFIG_MAPS}?dryRun=All"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await
        .ok();
    assert_eq!(
        (
            made.code.as_u16(),
            made.json()["metadata"].get("resourceVersion")
        ),
        (201, None)
    );
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/a")).await.code, 404);
    let revision = cluster.config_map("ns", "a").await;
    let taken = cluster
        .post(
            &format!("{CONFIG_MAPS}?dryRun=All"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(taken.failure(), (409, "AlreadyExists".to_owned()));
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    assert_eq!(
        cluster
            .patch(&path, &json!({"data": {"x": "y"}}))
            .await
            .ok()
            .json()["data"]["x"],
        "y"
    );
    cluster.delete(&path).await.ok();
    assert_eq!(
        cluster
            .get(&format!("{CONFIG_MAPS}/a"))
            .await
            .ok()
            .revision(),
        revision
    );
}

async fn json_and_protobuf_store_the_same(cluster: TestCluster) {
    let media_type = envelope::MEDIA_TYPE;
    let mut raw = Vec::new();
    kube_api::from_json(
        &kube_api::schema::POD,
        pod("by-protobuf").as_object().expect("an object"),
        &mut raw,
    )
    .expect("a pod");
    let headers = [("content-type", media_type), ("accept", media_type)];
    let body = envelope::seal("v1", "Pod", &raw);
    let reply = send(&cluster.url, Method::POST, PODS, &headers, body).await;
    assert_eq!(reply.code, 201, "{}", reply.body.escape_ascii());
    assert_eq!(
        envelope::type_meta(&reply.body),
        Ok((&b"v1"[..], &b"Pod"[..]))
    );
    cluster.post(PODS, &pod("by-json")).await.ok();
    let spec =
        async |name: &str| cluster.get(&format!("{PODS}/{name}")).await.ok().json()["spec"].clone();
    assert_eq!(spec("by-protobuf").await, spec("by-json").await);
    let cut = send(
        &cluster.url,
        Method::POST,
        PODS,
        &headers,
        &b"k8s\0\x12\x7fcut"[..],
    )
    .await;
    assert_eq!(cut.code, 400, "{}", cut.body.escape_ascii());
}

async fn concurrent_patches_are_all_kept(cluster: TestCluster) {
    cluster.config_map("ns", "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let patches = (0..10).map(|i| {
        let (cluster, path) = (&cluster, &path);
        async move {
            let key = format!("k{i}");
            cluster.patch(path, &json!({"data": {key: "v"}})).await.ok();
        }
    });
    futures::future::join_all(patches).await;
    let data = cluster.get(&path).await.ok().json()["data"].clone();
    assert_eq!(
        data.as_object().map(serde_json::Map::len),
        Some(11),
        "{data}"
    );
}

async fn deleting_a_namespace_deletes_its_objects(cluster: TestCluster) {
    cluster
        .post("/api/v1/namespaces", &json!({"metadata": {"name": "ns"}}))
        .await
        .ok();
    cluster.config_map("ns", "a").await;
    cluster.post(PODS, &pod("p")).await.ok();
    cluster.config_map("ns-2", "a").await;
    cluster.delete("/api/v1/namespaces/ns").await.ok();
    assert_eq!(
        cluster.get("/api/v1/configmaps").await.ok().names(),
        ["ns-2/a"]
    );
    assert!(cluster.get("/api/v1/pods").await.ok().names().is_empty());
    let invalid = cluster
        .post("/api/v1/namespaces", &json!({"metadata": {"name": "a.b"}}))
        .await;
    assert_eq!(invalid.failure(), (422, "Invalid".to_owned()));
}

async fn a_custom_resource_keeps_unknown_fields(cluster: TestCluster) {
    let widget = json!({"apiVersion": "bench.example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}}, "spec": {"any": [1, {"thing": null}]}});
    let made = cluster.post(WIDGETS, &widget).await.ok();
    assert_eq!(made.json()["spec"], widget["spec"]);
    let read = cluster.get(&format!("{WIDGETS}/w")).await.ok();
    assert_eq!(read.json(), made.json());
    let changed = cluster
        .patch(&format!("{WIDGETS}/w"), &json!({"spec": {"any": 2}}))
        .await
        .ok()
        .json();
    assert_eq!(
        (&changed["metadata"]["generation"], &changed["spec"]["any"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        cluster
            .get(&format!("{WIDGETS}?labelSelector=a%3Db"))
            .await
            .ok()
            .names(),
        ["ns/w"]
    );
    let strategic = cluster
        .request(
            Method::PATCH,
            &format!("{WIDGETS}/w"),
            "application/strategic-merge-patch+json",
            "{}",
        )
        .await;
    assert_eq!(
        strategic.failure(),
        (415, "UnsupportedMediaType".to_owned())
    );
    let storage = cluster.storage().await;
    let key = b"/registry/bench.example.com/widgets/ns/w";
    let value = storage
        .get(key, GetOptions::default())
        .await
        .expect("read")
        .kv
        .expect("stored")
        .value;
    let stored: Value = serde_json::from_slice(&value).expect("stored as JSON");
    assert_eq!(stored["metadata"].get("resourceVersion"), None);
    cluster.delete(&format!("{WIDGETS}/w")).await.ok();
    assert!(cluster.get(WIDGETS).await.ok().names().is_empty());
}

async fn events_expire_by_a_lease(cluster: TestCluster) {
    let path = "/api/v1/namespaces/ns/events";
    for name in ["a", "b"] {
        let event = json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Seen"});
        cluster.post(path, &event).await.ok();
    }
    let storage = cluster.storage().await;
    let mut leases = Vec::new();
    for name in ["a", "b"] {
        let key = format!("/registry/events/ns/{name}");
        let kv = storage
            .get(key.as_bytes(), GetOptions::default())
            .await
            .expect("read")
            .kv;
        leases.push(kv.expect("stored").lease);
    }
    assert!(leases[0] != 0 && leases[0] == leases[1], "{leases:?}");
    let of_pod = cluster
        .get(&format!(
            "{path}?fieldSelector=involvedObject.name%3Dp,reason%3DSeen"
        ))
        .await
        .ok();
    assert_eq!(of_pod.names().len(), 2);
}
