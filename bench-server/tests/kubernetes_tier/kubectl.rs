//! kubectl 1.37 against the tier, over plain HTTP and without configuration.

use std::process::Stdio;
use std::time::Duration;

use kube_api::ShardKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::harness::{ALL, ONE, TestCluster, cases, program};
use crate::shards::{encoded, equal_shards};

pub(crate) const KUBECTL: (&str, &str) = ("KUBECTL_BIN", "kubectl");

cases! {
    get_in_chunks_and_formats on ALL, needs KUBECTL;
    apply_create_patch_and_delete on ALL, needs KUBECTL;
    get_and_watch on ALL, needs KUBECTL;
    wait_for_a_condition_and_a_deletion on ONE, needs KUBECTL;
    errors_are_printed on ONE, needs KUBECTL;
    other_kinds_and_groups on ONE, needs KUBECTL;
    explain_prints_the_fields on ONE, needs KUBECTL;
    raw_gets_a_shard on ALL, needs KUBECTL;
}

/// Time allowed for a command.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// kubectl with its own home folder, since it caches discovery on disk for hours.
pub(crate) struct Kubectl<'s> {
    cluster: &'s TestCluster,
    home: TempDir,
}

impl<'s> Kubectl<'s> {
    pub(crate) fn new(cluster: &'s TestCluster) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        Self { cluster, home }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program(KUBECTL.0, KUBECTL.1));
        command
            .arg(format!("--server={}", self.cluster.url))
            .arg("--namespace=ns")
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .current_dir(self.home.path())
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    async fn run(&self, arguments: &[&str], input: &str) -> (bool, String, String) {
        let mut child = self.command(arguments).spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin
            .write_all(input.as_bytes())
            .await
            .expect("kubectl reads");
        drop(stdin);
        let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {arguments:?} hangs"));
        let output = output.expect("kubectl ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (
            output.status.success(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// Returns the standard output of a command that must succeed with an empty standard error.
    pub(crate) async fn ok(&self, arguments: &[&str], input: &str) -> String {
        let (success, out, err) = self.run(arguments, input).await;
        // kubectl's library may, depending on timing, print a message about a watch that it has
        // cancelled.
        let silent = err.lines().all(|line| line.contains("context canceled"));
        assert!(success && silent, "kubectl {arguments:?}: {err}{out}");
        out
    }

    /// Returns the standard error of a command that must fail.
    async fn fails(&self, arguments: &[&str], input: &str) -> String {
        let (success, out, err) = self.run(arguments, input).await;
        assert!(!success, "kubectl {arguments:?} succeeded: {out}");
        err
    }
}

pub(crate) fn pod(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": name}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": image, "ports": [{"containerPort": 80}]}]},
    })
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).collect()
}

async fn get_in_chunks_and_formats(cluster: TestCluster) {
    for i in 0..12 {
        let name = format!("p-{i:02}");
        cluster
            .post("/api/v1/namespaces/ns/pods", &pod(&name, "i:1"))
            .await
            .ok();
    }
    cluster.config_map("other", "elsewhere").await;
    let kubectl = Kubectl::new(&cluster);
    let names: Vec<String> = (0..12).map(|i| format!("pod/p-{i:02}")).collect();
    for chunks in ["500", "5", "1", "0"] {
        let size = format!("--chunk-size={chunks}");
        let out = kubectl.ok(&["get", "pods", &size, "-o", "name"], "").await;
        assert_eq!(lines(&out), names, "{size}");
    }
    let wide = kubectl
        .ok(&["get", "pods", "--chunk-size=5", "-o", "wide"], "")
        .await;
    assert_eq!(wide.lines().count(), 13, "{wide}");
    assert!(wide.starts_with("NAME "), "{wide}");
    let json: Value = serde_json::from_str(
        &kubectl
            .ok(&["get", "pods", "--chunk-size=7", "-o", "json"], "")
            .await,
    )
    .expect("JSON");
    assert_eq!(json["items"].as_array().map(Vec::len), Some(12));
    assert_eq!(json["items"][3]["kind"], "Pod");
    let one = kubectl.ok(&["get", "pod", "p-03", "-o", "yaml"], "").await;
    assert!(
        one.contains("image: i:1") && one.contains("kind: Pod"),
        "{one}"
    );
    let path = kubectl
        .ok(
            &["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"],
            "",
        )
        .await;
    assert_eq!(path.split(' ').count(), 12);
    let everywhere = kubectl.ok(&["get", "configmaps", "-A"], "").await;
    assert!(
        everywhere
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("other ")),
        "{everywhere}"
    );
    assert_eq!(
        lines(
            &kubectl
                .ok(
                    &["get", "pods", "-l", "app in (p-01, p-02)", "-o", "name"],
                    ""
                )
                .await
        ),
        ["pod/p-01", "pod/p-02"]
    );
    assert_eq!(
        lines(
            &kubectl
                .ok(
                    &[
                        "get",
                        "pods",
                        "--field-selector=metadata.name=p-05,spec.nodeName=node-1",
                        "-o",
                        "name"
                    ],
                    ""
                )
                .await
        ),
        ["pod/p-05"]
    );
    let sorted = kubectl
        .ok(
            &["get", "pods", "--sort-by={.metadata.name}", "--no-headers"],
            "",
        )
        .await;
    assert_eq!(sorted.lines().count(), 12, "{sorted}");
    let raw: Value = serde_json::from_str(
        &kubectl
            .ok(&["get", "--raw", "/api/v1/namespaces/ns/pods?limit=2"], "")
            .await,
    )
    .expect("JSON");
    assert_eq!(
        (
            raw["kind"].as_str(),
            raw["metadata"]["remainingItemCount"].as_i64()
        ),
        (Some("PodList"), Some(10))
    );
}

async fn apply_create_patch_and_delete(cluster: TestCluster) {
    let kubectl = Kubectl::new(&cluster);
    let manifest = |image: &str| pod("web", image).to_string();
    let apply = ["apply", "-f", "-"];
    assert_eq!(
        kubectl.ok(&apply, &manifest("i:1")).await,
        "pod/web created\n"
    );
    assert_eq!(
        kubectl.ok(&apply, &manifest("i:1")).await,
        "pod/web unchanged\n"
    );
    assert_eq!(
        kubectl.ok(&apply, &manifest("i:2")).await,
        "pod/web configured\n"
    );
    assert_eq!(kubectl.ok(&["diff", "-f", "-"], &manifest("i:2")).await, "");
    let image = [
        "get",
        "pod",
        "web",
        "-o",
        "jsonpath={.spec.containers[*].image}",
    ];
    assert_eq!(kubectl.ok(&image, "").await, "i:2");
    let created = kubectl
        .ok(
            &["create", "configmap", "settings", "--from-literal=a=1"],
            "",
        )
        .await;
    assert_eq!(created, "configmap/settings created\n");
    for (kind, patch) in [
        (
            "strategic",
            r#"{"spec":{"containers":[{"name":"side","image":"i:9"}]}}"#,
        ),
        (
            "json",
            r#"[{"op":"replace","path":"/spec/containers/0/image","value":"i:8"}]"#,
        ),
        ("merge", r#"{"metadata":{"annotations":{"patched":"yes"}}}"#),
    ] {
        let out = kubectl
            .ok(&["patch", "pod", "web", "--type", kind, "-p", patch], "")
            .await;
        assert_eq!(out, "pod/web patched\n", "{kind}");
    }
    assert_eq!(kubectl.ok(&image, "").await.split(' ').count(), 2);
    assert_eq!(
        kubectl.ok(&["label", "pod", "web", "tier=front"], "").await,
        "pod/web labeled\n"
    );
    assert_eq!(
        kubectl
            .ok(&["annotate", "pod", "web", "note=x", "patched-"], "")
            .await,
        "pod/web annotated\n"
    );
    let metadata = kubectl.ok(&["get", "pod", "web", "-o", "jsonpath={.metadata.labels.tier} {.metadata.annotations.note}{.metadata.annotations.patched}"], "").await;
    assert_eq!(metadata, "front x");
    assert_eq!(
        kubectl
            .ok(&["delete", "pod/web", "configmap/settings"], "")
            .await
            .lines()
            .count(),
        2
    );
    assert_eq!(kubectl.ok(&["get", "pods", "-o", "name"], "").await, "");
    for name in ["a", "b"] {
        cluster.config_map("ns", name).await;
    }
    assert_eq!(
        kubectl
            .ok(&["delete", "configmaps", "--all"], "")
            .await
            .lines()
            .count(),
        2
    );
    assert!(
        cluster
            .get("/api/v1/configmaps")
            .await
            .ok()
            .names()
            .is_empty()
    );
}

async fn get_and_watch(cluster: TestCluster) {
    cluster
        .post("/api/v1/namespaces/ns/pods", &pod("first", "i:1"))
        .await
        .ok();
    let kubectl = Kubectl::new(&cluster);
    let mut watching = kubectl
        .command(&["get", "pods", "-w", "--no-headers"])
        .spawn()
        .expect("kubectl starts");
    let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    let mut next = async || {
        let line = tokio::time::timeout(LIMIT, lines.next_line())
            .await
            .expect("a line in time");
        line.expect("a pipe").expect("kubectl goes on")
    };
    let columns = |line: &str| {
        line.split_whitespace()
            .take(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(&next().await)[0], "first");
    cluster
        .post("/api/v1/namespaces/ns/pods", &pod("second", "i:1"))
        .await
        .ok();
    assert_eq!(columns(&next().await)[0], "second");
    cluster
        .patch(
            "/api/v1/namespaces/ns/pods/second/status",
            &json!({"status": {"phase": "Running"}}),
        )
        .await
        .ok();
    assert_eq!(columns(&next().await)[0], "second");
    watching.kill().await.expect("it runs");
}

async fn wait_for_a_condition_and_a_deletion(cluster: TestCluster) {
    cluster
        .post("/api/v1/namespaces/ns/pods", &pod("web", "i:1"))
        .await
        .ok();
    let kubectl = Kubectl::new(&cluster);
    let ready = ["wait", "pod/web", "--for=condition=Ready", "--timeout=15s"];
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        cluster
            .patch("/api/v1/namespaces/ns/pods/web/status", &status)
            .await
            .ok();
    };
    let (out, ()) = tokio::join!(kubectl.ok(&ready, ""), later);
    assert_eq!(out, "pod/web condition met\n");
    let gone = ["wait", "pod/web", "--for=delete", "--timeout=15s"];
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.delete("/api/v1/namespaces/ns/pods/web").await.ok();
    };
    tokio::join!(kubectl.ok(&gone, ""), later);
}

async fn errors_are_printed(cluster: TestCluster) {
    let kubectl = Kubectl::new(&cluster);
    let nowhere = kubectl.fails(&["get", "pod", "none"], "").await;
    assert_eq!(
        nowhere,
        "Error from server (NotFound): namespaces \"ns\" not found\n"
    );
    cluster
        .post("/api/v1/namespaces", &json!({"metadata": {"name": "ns"}}))
        .await
        .ok();
    let missing = kubectl.fails(&["get", "pod", "none"], "").await;
    assert_eq!(
        missing,
        "Error from server (NotFound): pods \"none\" not found\n"
    );
    let unknown = kubectl.fails(&["get", "deployments"], "").await;
    assert!(
        unknown.contains("the server doesn't have a resource type \"deployments\""),
        "{unknown}"
    );
    let mut wrong = pod("web", "i:1");
    wrong["spec"]["containers"][0]["imagePullPolicyy"] = "Always".into();
    let refused = kubectl
        .fails(&["apply", "-f", "-"], &wrong.to_string())
        .await;
    assert!(
        refused.contains("unknown field \"spec.containers[0].imagePullPolicyy\""),
        "{refused}"
    );
    let apply = kubectl
        .fails(
            &["apply", "--server-side", "-f", "-"],
            &pod("web", "i:1").to_string(),
        )
        .await;
    assert!(
        apply.contains("Server-side apply not available on the server"),
        "{apply}"
    );
    cluster.config_map("ns", "a").await;
    let taken = kubectl.fails(&["create", "configmap", "a"], "").await;
    assert!(taken.contains("configmaps \"a\" already exists"), "{taken}");
}

async fn other_kinds_and_groups(cluster: TestCluster) {
    let kubectl = Kubectl::new(&cluster);
    kubectl.ok(&["create", "namespace", "made"], "").await;
    kubectl
        .ok(
            &["create", "secret", "generic", "s", "--from-literal=k=v"],
            "",
        )
        .await;
    let secret = kubectl
        .ok(
            &["get", "secret", "s", "-o", "jsonpath={.data.k} {.type}"],
            "",
        )
        .await;
    assert_eq!(secret, "dg== Opaque");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    kubectl.ok(&["apply", "-f", "-"], &lease.to_string()).await;
    let widget = json!({"apiVersion": "bench.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    kubectl.ok(&["apply", "-f", "-"], &widget.to_string()).await;
    let mut larger = widget;
    larger["spec"]["size"] = 2.into();
    assert_eq!(
        kubectl.ok(&["apply", "-f", "-"], &larger.to_string()).await,
        "widget.bench.example.com/w configured\n"
    );
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    kubectl.ok(&["create", "-f", "-"], &node.to_string()).await;
    let listed = kubectl
        .ok(&["get", "ns,no,secrets,leases,widgets", "-o", "name"], "")
        .await;
    assert_eq!(
        lines(&listed),
        [
            "namespace/made",
            "node/n",
            "secret/s",
            "lease.coordination.k8s.io/l",
            "widget.bench.example.com/w"
        ]
    );
    let resources = kubectl.ok(&["api-resources", "-o", "name"], "").await;
    assert!(
        lines(&resources).contains(&"leases.coordination.k8s.io"),
        "{resources}"
    );
    assert!(
        kubectl
            .ok(&["version"], "")
            .await
            .contains("Server Version: v1.37.0")
    );
    let (deleted, out, _) = kubectl.run(&["delete", "namespace", "made"], "").await;
    assert!(
        deleted && out.starts_with("namespace \"made\" deleted"),
        "{out}"
    );
}

async fn explain_prints_the_fields(cluster: TestCluster) {
    let kubectl = Kubectl::new(&cluster);
    let fields = kubectl.ok(&["explain", "pod.spec.containers"], "").await;
    assert!(fields.contains("imagePullPolicy"), "{fields}");
}

async fn raw_gets_a_shard(cluster: TestCluster) {
    for i in 0..20 {
        cluster.config_map("ns", &format!("cm-{i:02}")).await;
    }
    let kubectl = Kubectl::new(&cluster);
    let mut names = Vec::new();
    for shard in equal_shards(ShardKey::Uid, 3) {
        let path = format!(
            "/api/v1/namespaces/ns/configmaps?shardSelector={}",
            encoded(&shard)
        );
        let list = kubectl.ok(&["get", "--raw", &path], "").await;
        let list: Value = serde_json::from_str(&list).expect("JSON");
        assert_eq!(list["metadata"]["shardInfo"]["selector"], shard);
        let items = list["items"].as_array().expect("items").iter();
        names.extend(items.map(|item| item["metadata"]["name"].to_string()));
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20, "each is in one shard");
    let path = "/api/v1/configmaps?shardSelector=shardRange()";
    let refusal = kubectl.fails(&["get", "--raw", path], "").await;
    assert!(
        refusal
            .contains("invalid shard selector: shardRange() requires exactly 3 arguments, got 0"),
        "{refusal}"
    );
}
