//! kubectl's tables: the columns of each kind, printed and watched.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::harness::{ALL, ONE, TestCluster, cases};
use crate::kubectl::{KUBECTL, Kubectl, LIMIT, pod};

cases! {
    printed_columns_are_those_of_an_apiserver on ALL, needs KUBECTL;
    watched_columns_and_formats on ONE, needs KUBECTL;
}

/// Returns the columns of a printed line, which are separated by two or more spaces.
fn columns(line: &str) -> Vec<&str> {
    let parts = line.split("  ").map(str::trim);
    parts.filter(|part| !part.is_empty()).collect()
}

/// Prints a table and compares it with `expected`, the header first. `AGE` stands for any age in
/// seconds.
async fn prints(kubectl: &Kubectl<'_>, arguments: &[&str], expected: &[&[&str]]) {
    let out = kubectl.ok(arguments, "").await;
    let mut printed: Vec<Vec<String>> = Vec::new();
    for line in out.lines() {
        printed.push(columns(line).into_iter().map(str::to_owned).collect());
    }
    for (row, wanted) in printed.iter_mut().zip(expected) {
        for (cell, wanted) in row.iter_mut().zip(*wanted) {
            let seconds = cell
                .strip_suffix('s')
                .is_some_and(|number| number.parse::<u32>().is_ok());
            if *wanted == "AGE" && seconds {
                "AGE".clone_into(cell);
            }
        }
    }
    assert_eq!(printed, expected, "kubectl {arguments:?}\n{out}");
}

async fn printed_columns_are_those_of_an_apiserver(cluster: TestCluster) {
    let mut running = pod("web", "i:1");
    running["spec"]["containers"] =
        json!([{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:2"}]);
    running["spec"]["readinessGates"] = json!([{"conditionType": "gate"}]);
    cluster
        .post("/api/v1/namespaces/ns/pods", &running)
        .await
        .ok();
    let status = json!({"status": {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "podIPs": [{"ip": "10.1.2.3"}],
        "conditions": [{"type": "gate", "status": "True"}],
        "containerStatuses": [
            {"name": "a", "ready": true, "restartCount": 0, "image": "i:1", "imageID": "", "state": {"running": {}}},
            {"name": "b", "ready": false, "restartCount": 2, "image": "i:2", "imageID": "",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ],
    }});
    cluster
        .patch("/api/v1/namespaces/ns/pods/web/status", &status)
        .await
        .ok();
    let kubectl = Kubectl::new(&cluster);
    let narrow: &[&str] = &["NAME", "READY", "STATUS", "RESTARTS", "AGE"];
    let row = ["web", "1/2", "CrashLoopBackOff", "2", "AGE"];
    prints(&kubectl, &["get", "pods"], &[narrow, &row]).await;
    prints(&kubectl, &["get", "pod", "web"], &[narrow, &row]).await;
    prints(&kubectl, &["get", "all"], &[narrow, &row]).await;
    let header = [narrow, &["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]].concat();
    let wide = [&row[..], &["10.1.2.3", "node-1", "<none>", "1/1"]].concat();
    prints(&kubectl, &["get", "pods", "-o", "wide"], &[&header, &wide]).await;
    let header = [&["NAMESPACE"], narrow, &["LABELS"]].concat();
    let labelled = [&["ns"], &row[..], &["app=web"]].concat();
    prints(
        &kubectl,
        &["get", "pods", "-A", "--show-labels"],
        &[&header, &labelled],
    )
    .await;
    let header = [narrow, &["APP"]].concat();
    let labelled = [&row[..], &["web"]].concat();
    prints(
        &kubectl,
        &["get", "pods", "-L", "app"],
        &[&header, &labelled],
    )
    .await;
    let custom = "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[1].image";
    prints(
        &kubectl,
        &["get", "pods", "-o", custom],
        &[&["NAME", "IMAGE"], &["web", "i:2"]],
    )
    .await;

    let node = json!({
        "metadata": {"name": "node-1", "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "osImage": "Linux 1", "kernelVersion": "6.1",
                "containerRuntimeVersion": "containerd://2.0", "machineID": "", "systemUUID": "", "bootID": "",
                "kubeProxyVersion": "", "operatingSystem": "", "architecture": ""},
        },
    });
    cluster.post("/api/v1/nodes", &node).await.ok();
    let narrow: &[&str] = &["NAME", "STATUS", "ROLES", "AGE", "VERSION"];
    let row = [
        "node-1",
        "Ready,SchedulingDisabled",
        "worker",
        "AGE",
        "v1.37.0",
    ];
    prints(&kubectl, &["get", "nodes"], &[narrow, &row]).await;
    let header = [
        narrow,
        &[
            "INTERNAL-IP",
            "EXTERNAL-IP",
            "OS-IMAGE",
            "KERNEL-VERSION",
            "CONTAINER-RUNTIME",
        ],
    ];
    let wide = [
        &row[..],
        &["10.0.0.1", "<none>", "Linux 1", "6.1", "containerd://2.0"],
    ]
    .concat();
    prints(
        &kubectl,
        &["get", "nodes", "-o", "wide"],
        &[&header.concat(), &wide],
    )
    .await;

    let event = json!({
        "metadata": {"name": "web.1", "namespace": "ns"},
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "web", "fieldPath": "spec.containers{a}"},
        "reason": "Started", "message": "Started container a", "type": "Normal", "count": 3,
        "source": {"component": "kubelet", "host": "node-1"},
    });
    cluster
        .post("/api/v1/namespaces/ns/events", &event)
        .await
        .ok();
    let row = [
        "<unknown>",
        "Normal",
        "Started",
        "pod/web",
        "Started container a",
    ];
    prints(
        &kubectl,
        &["get", "events"],
        &[&["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], &row],
    )
    .await;
    prints(
        &kubectl,
        &["get", "events", "-o", "wide"],
        &[
            &[
                "LAST SEEN",
                "TYPE",
                "REASON",
                "OBJECT",
                "SUBOBJECT",
                "SOURCE",
                "MESSAGE",
                "FIRST SEEN",
                "COUNT",
                "NAME",
            ],
            &[
                "<unknown>",
                "Normal",
                "Started",
                "pod/web",
                "spec.containers{a}",
                "kubelet, node-1",
                "Started container a",
                "<unknown>",
                "3",
                "web.1",
            ],
        ],
    )
    .await;

    let maps = "/api/v1/namespaces/ns/configmaps";
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}});
    cluster.post(maps, &map).await.ok();
    prints(
        &kubectl,
        &["get", "configmaps"],
        &[&["NAME", "DATA", "AGE"], &["m", "3", "AGE"]],
    )
    .await;
    let secret = json!({"metadata": {"name": "s"}, "type": "Opaque", "data": {"a": "AA=="}});
    cluster
        .post("/api/v1/namespaces/ns/secrets", &secret)
        .await
        .ok();
    prints(
        &kubectl,
        &["get", "secrets"],
        &[
            &["NAME", "TYPE", "DATA", "AGE"],
            &["s", "Opaque", "1", "AGE"],
        ],
    )
    .await;
    cluster
        .post("/api/v1/namespaces", &json!({"metadata": {"name": "ns"}}))
        .await
        .ok();
    prints(
        &kubectl,
        &["get", "ns"],
        &[&["NAME", "STATUS", "AGE"], &["ns", "Active", "AGE"]],
    )
    .await;
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    cluster
        .post("/apis/coordination.k8s.io/v1/namespaces/ns/leases", &lease)
        .await
        .ok();
    prints(
        &kubectl,
        &["get", "leases"],
        &[&["NAME", "HOLDER", "AGE"], &["l", "me", "AGE"]],
    )
    .await;
    let widget =
        json!({"apiVersion": "bench.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    cluster
        .post("/apis/bench.example.com/v1/namespaces/ns/widgets", &widget)
        .await
        .ok();
    prints(
        &kubectl,
        &["get", "widgets"],
        &[&["NAME", "AGE"], &["w", "AGE"]],
    )
    .await;
    prints(
        &kubectl,
        &["get", "cm,secrets", "--no-headers"],
        &[
            &["configmap/m", "3", "AGE"],
            &["secret/s", "Opaque", "1", "AGE"],
        ],
    )
    .await;
}

async fn watched_columns_and_formats(cluster: TestCluster) {
    let pods = "/api/v1/namespaces/ns/pods";
    cluster.post(pods, &pod("web", "i:1")).await.ok();
    let kubectl = Kubectl::new(&cluster);
    let change = async |phase: &str| {
        let status = json!({"status": {"phase": phase}});
        cluster.patch(&format!("{pods}/web/status"), &status).await
    };
    for (format, first, then) in [
        (
            &["-o", "wide", "--no-headers"][..],
            "web 0/1 Pending",
            "web 0/1 Running",
        ),
        (
            &["--output-watch-events", "--no-headers"],
            "ADDED web 0/1 Pending",
            "MODIFIED web 0/1 Running",
        ),
        (&["-o", "name"], "pod/web", "pod/web"),
        (
            &["-o", "jsonpath={.kind} {.status.phase}{\"\\n\"}"],
            "Pod Pending",
            "Pod Running",
        ),
        (
            &["-l", "app=web", "--no-headers"],
            "web 0/1 Pending",
            "web 0/1 Running",
        ),
        (
            &["--field-selector=metadata.name=web", "--no-headers"],
            "web 0/1 Pending",
            "web 0/1 Running",
        ),
    ] {
        change("Pending").await.ok();
        let arguments = [&["get", "pods", "--watch"], format].concat();
        let mut watching = kubectl.command(&arguments).spawn().expect("kubectl starts");
        let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
        let mut next = async || {
            let line = tokio::time::timeout(LIMIT, lines.next_line())
                .await
                .expect("a line in time");
            let line = line.expect("a pipe").expect("kubectl goes on");
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(next().await.starts_with(first), "{arguments:?}");
        change("Running").await.ok();
        assert!(next().await.starts_with(then), "{arguments:?}");
        watching.kill().await.expect("it runs");
    }
}
