use kube_api::from_json;
use serde_json::{Value, json};

use super::*;
use crate::resource::RESOURCES;

fn row(resource: &str, object: Value) -> Vec<Value> {
    let mut resources = RESOURCES.iter();
    let resource = resources
        .find(|candidate| candidate.name == resource)
        .expect("served");
    let message = resource.message.expect("a built-in kind");
    let (mut raw, mut out) = (Vec::new(), Vec::new());
    from_json(message, object.as_object().expect("an object"), &mut raw).expect("fits");
    put_cells(resource, &raw, &mut out);
    let rows = [&b"{\"cells\":"[..], &out, b"}"].concat();
    let mut row: Value = serde_json::from_slice(&rows).expect("JSON");
    let ended = matches!(
        object["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    let told = row["conditions"][0]["type"] == "Completed";
    assert_eq!(told, resource.kind == "Pod" && ended, "{row}");
    let cells: Vec<Value> = serde_json::from_value(row["cells"].take()).expect("a list");
    assert_eq!(
        cells.len(),
        columns(resource).len(),
        "a cell for each column"
    );
    cells
}

/// Returns the cells of a pod for ready, status and restarts.
fn pod(spec: Value, status: Value) -> [String; 3] {
    let cells = row(
        "pods",
        json!({"metadata": {"name": "p"}, "spec": spec, "status": status}),
    );
    [1, 2, 3].map(|at| cells[at].as_str().expect("text").to_owned())
}

#[test]
fn pods_tell_what_holds_them_up() {
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let running = |ready: bool| json!({"name": "a", "ready": ready, "state": {"running": {}}});
    assert_eq!(
        pod(
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [running(true), running(false)]})
        ),
        ["1/2", "Running", "0"]
    );
    let waiting = json!({"name": "b", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    assert_eq!(
        pod(
            two.clone(),
            json!({"phase": "Running", "containerStatuses": [running(true), waiting]})
        ),
        ["1/2", "CrashLoopBackOff", "3"]
    );
    let failed = |terminated: Value| json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": terminated}}]});
    assert_eq!(
        pod(two.clone(), failed(json!({"exitCode": 2})))[1],
        "ExitCode:2"
    );
    assert_eq!(
        pod(two.clone(), failed(json!({"exitCode": 2, "signal": 9})))[1],
        "Signal:9"
    );
    let init =
        json!({"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "a"}]});
    let through = json!({"name": "i", "state": {"terminated": {"exitCode": 0}}});
    assert_eq!(
        pod(
            init.clone(),
            json!({"phase": "Pending", "initContainerStatuses": [through, {"name": "j"}]})
        ),
        ["0/1", "Init:1/2", "0"]
    );
    assert_eq!(
        pod(
            init,
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]})
        )[1],
        "Init:Error"
    );
    let sidecar = json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]});
    assert_eq!(
        pod(
            sidecar,
            json!({"phase": "Running", "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "restartCount": 1}], "containerStatuses": [running(true)]})
        ),
        ["2/2", "Running", "1"]
    );
    let deleted = row(
        "pods",
        json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": two, "status": {"phase": "Running"}}),
    );
    assert_eq!(deleted[2], "Terminating");
    assert_eq!(
        deleted[4..],
        ["<unknown>", "<none>", "<none>", "<none>", "<none>"]
    );
}

#[test]
fn other_kinds_have_the_columns_that_kubectl_shows() {
    assert_eq!(
        row(
            "configmaps",
            json!({"metadata": {"name": "c"}, "data": {"a": "", "b": ""}, "binaryData": {"c": ""}})
        ),
        [json!("c"), json!(3), json!("<unknown>")]
    );
    assert_eq!(
        row(
            "secrets",
            json!({"metadata": {"name": "s"}, "data": {"a": ""}, "type": "Opaque"})
        ),
        [json!("s"), json!("Opaque"), json!(1), json!("<unknown>")]
    );
    assert_eq!(
        row(
            "namespaces",
            json!({"metadata": {"name": "n", "creationTimestamp": "2000-01-01T00:00:00Z"}, "status": {"phase": "Active"}})
        )[..2],
        ["n", "Active"]
    );
    assert_eq!(
        row(
            "leases",
            json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "h"}})
        )[1],
        "h"
    );
    let node = json!({
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.2", "kernelVersion": "6.1"},
        },
    });
    assert_eq!(
        row("nodes", node),
        [
            "n",
            "Ready,SchedulingDisabled",
            "edge,worker",
            "<unknown>",
            "v1.37.2",
            "10.0.0.1",
            "<none>",
            "<unknown>",
            "6.1",
            "<unknown>"
        ]
    );
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Started",
        "message": " m\n", "source": {"component": "kubelet", "host": "n"}, "type": "Normal", "count": 2});
    assert_eq!(
        row("events", event),
        [
            json!("<unknown>"),
            json!("Normal"),
            json!("Started"),
            json!("pod/p"),
            json!(""),
            json!("kubelet, n"),
            json!("m"),
            json!("<unknown>"),
            json!(2),
            json!("e")
        ]
    );
}

#[test]
fn one_that_is_through_does_not_hide_one_that_failed() {
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let ended = |name: &str, code: i64, reason: &str| json!({"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}});
    let through = ended("a", 0, "Completed");
    let failed = ended("b", 1, "Error");
    let status = |containers: Value| json!({"phase": "Running", "containerStatuses": containers});
    let reason = |containers: Value| pod(two.clone(), status(containers))[1].clone();
    assert_eq!(reason(json!([through, failed])), "Error");
    assert_eq!(
        reason(json!([through, ended("b", 0, "Completed")])),
        "Completed"
    );
    let running = json!({"name": "b", "ready": true, "state": {"running": {}}});
    assert_eq!(reason(json!([through, running])), "NotReady");
    let killed = json!({"name": "b", "state": {"terminated": {"exitCode": 137, "signal": 9}}});
    assert_eq!(reason(json!([through, killed])), "Signal:9");
}

/// Once the pod is initialized, restarts of completed init containers do not count, even while a
/// sidecar is being restarted.
#[test]
fn restarts_before_the_pod_was_initialized_are_forgotten() {
    let spec = json!({"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]});
    let initialized = json!([{"type": "Initialized", "status": "True"}]);
    let status = |conditions: Value| {
        json!({
            "phase": "Running", "conditions": conditions,
            "initContainerStatuses": [
                {"name": "i", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}},
                {"name": "s", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ],
            "containerStatuses": [{"name": "a", "restartCount": 1, "ready": true, "state": {"running": {}}}],
        })
    };
    let waiting = pod(spec.clone(), status(json!([])));
    assert_eq!(waiting, ["0/2", "Init:CrashLoopBackOff", "7"]);
    let [_, _, restarts] = pod(spec, status(initialized));
    assert_eq!(restarts, "3");
}
