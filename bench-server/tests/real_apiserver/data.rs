//! The data in the etcd of both servers: objects of every kind, with a history, written through the
//! real server.

use ::http::Method;
use futures::StreamExt;
use serde_json::{Value, json};

use crate::apiserver::Apiserver;
use crate::http::{Reply, send};

/// The namespaces, in an order that is not that of their storage keys.
pub(crate) const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];
pub(crate) const WIDGETS: &str = "/apis/bench.example.com/v1";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1";
const CORE: &str = "/api/v1";

const NODES: usize = 6;
const PODS: usize = 70;
const CONFIG_MAPS: usize = 15;
const OTHERS: usize = 6;
/// Number of steps of one round of changes.
const STEPS: usize = 30;
/// Number of steps after which a pod and a ConfigMap are deleted.
const DELETED_EVERY: usize = 5;
/// Number of concurrent requests.
const CONCURRENT_WRITES: usize = 8;

/// Revisions of the data.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// Revisions of lists of pods between changes, oldest first.
    pub(crate) revisions: Vec<i64>,
    /// The same for the changes that both servers' caches have watched.
    pub(crate) watched: Vec<i64>,
}

/// Writes all objects and the first round of changes.
pub(crate) async fn write(real: &Apiserver) -> Data {
    let crd = json!({
        "metadata": {"name": "widgets.bench.example.com"},
        "spec": {
            "group": "bench.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    post(
        real,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &crd,
    )
    .await;
    until_found(real, &format!("{WIDGETS}/widgets")).await;
    for namespace in NAMESPACES {
        let object = json!({"metadata": {"name": namespace, "labels": {"team": namespace}}});
        post(real, &format!("{CORE}/namespaces"), &object).await;
    }
    for i in 0..NODES {
        let (object, status) = node(i);
        post(real, &format!("{CORE}/nodes"), &object).await;
        let path = format!("{CORE}/nodes/node-{i}/status");
        change(real, Method::PATCH, &path, &status).await;
    }
    let mut objects = Vec::new();
    for namespace in NAMESPACES {
        let core = format!("{CORE}/namespaces/{namespace}");
        objects.extend((0..PODS).map(|i| (format!("{core}/pods"), pod(i))));
        objects.extend((0..CONFIG_MAPS).map(|i| (format!("{core}/configmaps"), config_map(i))));
        objects.extend((0..OTHERS).map(|i| (format!("{core}/secrets"), secret(i))));
        objects.extend((0..OTHERS).map(|i| (format!("{core}/events"), event(namespace, i))));
        let leases = format!("{LEASES}/namespaces/{namespace}/leases");
        objects.extend((0..OTHERS).map(|i| (leases.clone(), lease(i))));
        let widgets = format!("{WIDGETS}/namespaces/{namespace}/widgets");
        objects.extend((0..OTHERS).map(|i| (widgets.clone(), widget(i))));
    }
    let posts = objects
        .iter()
        .map(|(path, object)| post(real, path, object));
    futures::stream::iter(posts)
        .buffer_unordered(CONCURRENT_WRITES)
        .collect::<Vec<_>>()
        .await;
    let revisions = change_all(real, 0).await;
    Data {
        watched: revisions.clone(),
        revisions,
    }
}

/// Changes statuses and labels and deletes objects; returns the revisions between these changes.
/// Only rounds 0 and 1 are allowed, in this order: a third would delete objects again.
pub(crate) async fn change_all(real: &Apiserver, round: usize) -> Vec<i64> {
    let mut revisions = Vec::new();
    for (step, namespace) in NAMESPACES.iter().cycle().take(STEPS).enumerate() {
        let core = format!("{CORE}/namespaces/{namespace}");
        for i in 0..3 {
            let i = (step * 3 + i) % 50;
            let path = format!("{core}/pods/pod-{i:03}/status");
            let mut status = pod_status(i);
            if round > 0 {
                // Selectors of the phase no longer select the pod.
                status["status"]["phase"] = "Failed".into();
                status["status"]["message"] = format!("round {round}").into();
            }
            change(real, Method::PATCH, &path, &status).await;
        }
        let labels = json!({"metadata": {"labels": {
            "app": format!("app-{}", (step + round) % 5),
            "step": (round * STEPS + step).to_string(),
        }}});
        let widgets = format!("{WIDGETS}/namespaces/{namespace}/widgets");
        for path in [
            format!("{core}/pods/pod-{:03}", step + 20),
            format!("{core}/configmaps/map-{:02}", step % 4),
            format!("{widgets}/widget-{}", step % OTHERS),
            format!("{CORE}/nodes/node-{}", step % NODES),
        ] {
            change(real, Method::PATCH, &path, &labels).await;
        }
        if step.is_multiple_of(DELETED_EVERY) {
            let deletions = STEPS / DELETED_EVERY;
            let i = step / DELETED_EVERY;
            let path = format!("{core}/pods/pod-{:03}", PODS - 1 - i - round * deletions);
            let now = json!({"gracePeriodSeconds": 0});
            change(real, Method::DELETE, &path, &now).await;
            let path = format!("{core}/configmaps/map-{:02}", 9 - (i + round) % deletions);
            change(real, Method::DELETE, &path, &json!({})).await;
        }
        let list = real.get(&format!("{CORE}/pods?limit=1")).await;
        revisions.push(list.ok().revision());
    }
    revisions
}

/// Waits until a collection is served.
pub(crate) async fn until_found(real: &Apiserver, path: &str) {
    for _ in 0..300 {
        if real.get(path).await.code == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{path} is not served");
}

async fn post(real: &Apiserver, path: &str, object: &Value) -> Reply {
    change(real, Method::POST, path, object).await
}

async fn change(real: &Apiserver, method: Method, path: &str, body: &Value) -> Reply {
    let media_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let headers = [("content-type", media_type)];
    send(&real.url, method, path, &headers, body.to_string())
        .await
        .ok()
}

fn node(i: usize) -> (Value, Value) {
    let mut node = json!({
        "metadata": {"name": format!("node-{i}"), "labels": {"zone": format!("z{}", i % 2), "kubernetes.io/hostname": format!("node-{i}")}},
        "spec": {"podCIDR": format!("10.{i}.0.0/24"), "unschedulable": i == 3},
    });
    if i == 0 {
        node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
        node["spec"]["taints"] =
            json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
    }
    let condition = |kind: &str, holds: bool| {
        json!({
            "type": kind, "status": if holds { "True" } else { "False" }, "reason": "Because", "message": "so it is",
            "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let status = json!({"status": {
        "capacity": {"cpu": "4", "memory": "16384Mi", "pods": "110", "ephemeral-storage": "1e11"},
        "allocatable": {"cpu": "3900m", "memory": "15Gi", "pods": "110"},
        "conditions": [condition("MemoryPressure", false), condition("Ready", i != 2)],
        "addresses": [{"type": "InternalIP", "address": format!("192.0.2.{i}")}, {"type": "Hostname", "address": format!("node-{i}")}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "m", "systemUUID": "u", "bootID": "b", "kernelVersion": "6.1.0", "osImage": "An OS", "architecture": "amd64",
            "containerRuntimeVersion": "containerd://2.0.0", "kubeletVersion": "v1.37.2", "kubeProxyVersion": "", "operatingSystem": "linux",
        },
        "images": [{"names": ["registry.invalid/a@sha256:00", "registry.invalid/a:1"], "sizeBytes": 12345678}],
    }});
    (node, status)
}

/// Returns whether a pod is not bound to a node.
fn is_unbound(i: usize) -> bool {
    i % 14 == 7
}

/// Returns a pod with nearly all fields that a client may set; every second pod has few fields.
fn pod(i: usize) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": format!("pod-{i:03}"),
            "labels": {"app": format!("app-{}", i % 4), "tier": if i.is_multiple_of(3) { "front" } else { "back" }},
            "annotations": {"note": "x<&>\u{2028}\"\\\u{7f} é", "empty": ""},
        },
        "spec": {
            "nodeName": format!("node-{}", i % NODES),
            "containers": [{"name": "c", "image": format!("registry.invalid/app:{}", i % 3)}],
        },
    });
    if i % 2 == 1 {
        if is_unbound(i) {
            pod["metadata"]["labels"]["solo"] = "".into();
            pod["spec"]
                .as_object_mut()
                .map(|spec| spec.remove("nodeName"));
        }
        return pod;
    }
    let spec = &mut pod["spec"];
    spec["restartPolicy"] = ["Always", "OnFailure", "Never"][i % 3].into();
    spec["terminationGracePeriodSeconds"] = json!(i);
    spec["serviceAccountName"] = "runner".into();
    spec["hostNetwork"] = json!(i.is_multiple_of(10));
    spec["nodeSelector"] = json!({"zone": "z1"});
    spec["tolerations"] = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, {"operator": "Exists"}]);
    spec["securityContext"] = json!({"runAsUser": 1000, "fsGroup": 2000, "supplementalGroups": [3, 4], "seccompProfile": {"type": "RuntimeDefault"}});
    spec["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}},
    }]}});
    spec["volumes"] = json!([
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "settings", "configMap": {"name": "map-01", "items": [{"key": "k", "path": "p"}], "defaultMode": 256}},
        {"name": "token", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]}},
    ]);
    spec["initContainers"] = json!([{"name": "first", "image": "registry.invalid/first", "command": ["sh", "-c", "true"]}]);
    spec["containers"] = json!([
        {
            "name": "c", "image": "registry.invalid/app:1", "args": ["--flag", "<value>"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "envFrom": [{"prefix": "P_", "secretRef": {"name": "s", "optional": true}}],
            "resources": {"requests": {"cpu": "0.25", "memory": "128Mi"}, "limits": {"cpu": "1.5", "memory": "1e9"}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": true}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 3},
            "livenessProbe": {"tcpSocket": {"port": 8080}, "initialDelaySeconds": 9},
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        },
        {"name": "side", "image": "registry.invalid/side", "stdin": true, "tty": true},
    ]);
    if !i.is_multiple_of(10) {
        pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]);
    } else {
        pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] = json!(80);
    }
    if i.is_multiple_of(4) {
        pod["spec"]["readinessGates"] = json!([{"conditionType": "example.com/gate"}]);
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "0b0b0b0b-0000-4000-8000-000000000000", "controller": true}]);
    }
    pod
}

fn pod_status(i: usize) -> Value {
    let ready = i % 3 != 1;
    let state = match i % 5 {
        0 => json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}),
        1 => {
            json!({"terminated": {"exitCode": 3, "reason": "Error", "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:05:05Z"}})
        }
        _ => json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}}),
    };
    json!({"status": {
        "phase": (["Running", "Running", "Succeeded", "Failed", "Pending"][i % 5]),
        "hostIP": "192.0.2.1", "podIP": format!("10.0.0.{i}"), "podIPs": [{"ip": format!("10.0.0.{i}")}],
        "startTime": "2026-01-02T03:04:05Z", "nominatedNodeName": if is_unbound(i) { "node-5" } else { "" },
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        "containerStatuses": [{
            "name": "c", "ready": ready, "restartCount": i % 4, "image": "registry.invalid/app:1", "imageID": "sha256:0", "started": true,
            "state": state, "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-02T03:04:00Z", "startedAt": null}},
        }],
    }})
}

fn config_map(i: usize) -> Value {
    let mut map = json!({
        "metadata": {"name": format!("map-{i:02}"), "labels": {"app": format!("app-{}", i % 4)}},
        "data": {"text": "x<&>\u{2028}".repeat(i), "k": "v"},
    });
    match i % 4 {
        1 => map["binaryData"] = json!({"bytes": "AAEC/w=="}),
        2 => map["immutable"] = json!(false),
        3 => map["data"] = Value::Null,
        _ => {}
    }
    if i == 14 {
        map["data"]["large"] = "0123456789".repeat(20_000).into();
    }
    map
}

fn secret(i: usize) -> Value {
    let mut secret =
        json!({"metadata": {"name": format!("secret-{i}")}, "data": {"token": "c2VjcmV0"}});
    if i % 2 == 1 {
        secret["type"] = "kubernetes.io/basic-auth".into();
        secret["stringData"] = json!({"username": "u", "password": "p<&>"});
    }
    secret
}

fn event(namespace: &str, i: usize) -> Value {
    let mut event = json!({
        "metadata": {"name": format!("event-{i}")},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": format!("pod-{i:03}"), "uid": format!("u-{i}"), "apiVersion": "v1", "fieldPath": "spec.containers{c}"},
        "reason": (["Pulled", "Failed"][i % 2]), "message": "it\nhappened", "type": (["Normal", "Warning"][i % 2]), "count": i,
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T04:04:05Z",
    });
    if i.is_multiple_of(3) {
        event["eventTime"] = "2026-01-02T03:04:05.678901Z".into();
        event["series"] = json!({"count": 5, "lastObservedTime": "2026-01-02T03:09:05.000000Z"});
        event["action"] = "Binding".into();
        event["reportingComponent"] = "scheduler".into();
        event["reportingInstance"] = "s-1".into();
    }
    event
}

fn lease(i: usize) -> Value {
    json!({
        "metadata": {"name": format!("lease-{i}")},
        "spec": {"holderIdentity": format!("h-{i}"), "leaseDurationSeconds": 40, "renewTime": "2026-01-02T03:04:05.678901Z", "leaseTransitions": i},
    })
}

fn widget(i: usize) -> Value {
    json!({
        "apiVersion": "bench.example.com/v1", "kind": "Widget",
        "metadata": {"name": format!("widget-{i}"), "labels": {"app": format!("app-{}", i % 2)}},
        "spec": {"size": i, "ratio": 0.5, "text": "x<&>\u{2028}", "deep": {"z": [1, {"b": null, "a": 1e21}], "a": {}}, "big": 9_007_199_254_740_993_i64},
    })
}
