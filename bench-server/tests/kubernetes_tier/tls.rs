//! Third-party clients over HTTPS: kubectl, and client-go's informers.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::process::Command;

use crate::harness::{BENCH, TestCluster, Tier, cases, program};
use crate::informer::{INFORMER, Informer};
use crate::kubectl::KUBECTL;
use test_support::identity::{Ca, Identity};

cases! {
    kubectl_by_certificate on BENCH, needs KUBECTL;
    informers_follow on BENCH, needs INFORMER;
}

/// Time allowed for a command.
const LIMIT: Duration = Duration::from_secs(20);

/// Certificates of server and client.
struct Identities {
    serving: Ca,
    server: Identity,
    own: Identity,
    other: Identity,
    own_ca: Ca,
}

impl Identities {
    fn new() -> Self {
        let (serving, own_ca) = (Ca::new(), Ca::new());
        Self {
            server: serving.sign("server"),
            own: own_ca.sign("own"),
            other: Ca::new().sign("other"),
            serving,
            own_ca,
        }
    }

    /// Starts a tier that listens on HTTPS and HTTP, over the cluster's etcd.
    async fn tier(&self, cluster: &TestCluster) -> Tier {
        let flags = [
            "--listen-kube-urls=https://127.0.0.1:0".to_owned(),
            format!("--tls-cert-file={}", self.server.cert().display()),
            format!("--tls-private-key-file={}", self.server.key().display()),
            format!("--client-ca-file={}", self.own_ca.cert().display()),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let tier = cluster.another_with(&flags).await;
        assert!(tier.other_url.starts_with("https://"), "{}", tier.other_url);
        tier
    }
}

/// Returns whether the command succeeded, and its output.
async fn kubectl(
    tier: &Tier,
    ca: Option<&Path>,
    identity: Option<&Identity>,
    arguments: &[&str],
) -> (bool, String) {
    // kubectl caches discovery on disk for hours.
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(program(KUBECTL.0, KUBECTL.1));
    command
        .arg(format!("--server={}", tier.other_url))
        .arg("--namespace=ns")
        .args(arguments)
        .env_clear()
        .env("HOME", home.path())
        .current_dir(home.path())
        .kill_on_drop(true)
        .stdin(Stdio::null());
    if let Some(ca) = ca {
        command.arg("--certificate-authority").arg(ca);
    }
    match identity {
        Some(identity) => {
            command.arg("--client-certificate").arg(identity.cert());
            command.arg("--client-key").arg(identity.key());
        }
        // Without credentials, kubectl prompts for a user name. No server here reads tokens.
        None => {
            command.arg("--token=unread");
        }
    }
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let output = output.unwrap_or_else(|_| panic!("kubectl {arguments:?} hangs"));
    let output = output.expect("kubectl starts");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

async fn kubectl_by_certificate(cluster: TestCluster) {
    let all = Identities::new();
    let tier = all.tier(&cluster).await;
    let ca = all.serving.cert();
    let create = ["create", "configmap", "made", "--from-literal=k=v"];
    let (done, said) = kubectl(&tier, Some(&ca), Some(&all.own), &create).await;
    assert!(done, "{said}");
    let get = ["get", "configmaps", "-o=name"];
    let (done, said) = kubectl(&tier, Some(&ca), None, &get).await;
    assert!(done && said == "configmap/made\n", "{said}");
    for (ca, identity, told) in [
        (Some(&*ca), Some(&all.other), "tls: "),
        (None, None, "x509: certificate signed by unknown authority"),
    ] {
        let (done, said) = kubectl(&tier, ca, identity, &get).await;
        assert!(!done && said.contains(told), "{said}");
    }
}

async fn informers_follow(cluster: TestCluster) {
    let all = Identities::new();
    let tier = all.tier(&cluster).await;
    tier.config_map("ns", "a").await;
    let path = "/api/v1/namespaces/ns/configmaps";
    tier.get(path).await.ok();
    let (ca, cert, key) = (all.serving.cert(), all.own.cert(), all.own.key());
    let anonymous: &[&Path] = &[&ca];
    let known: &[&Path] = &[&ca, &cert, &key];
    let mut informers = Vec::new();
    for files in [anonymous, known] {
        for (media, by_watch) in [("json", false), ("protobuf", true)] {
            informers.push(Informer::start(&tier.other_url, media, by_watch, files));
        }
    }
    for informer in &mut informers {
        informer.says("synced a").await;
    }
    tier.config_map("ns", "b").await;
    let patch = json!({"data": {"k": "2"}});
    tier.patch(&format!("{path}/a"), &patch).await.ok();
    tier.delete(&format!("{path}/b")).await.ok();
    for informer in &mut informers {
        for line in ["add b", "update a", "delete b"] {
            informer.says(line).await;
        }
    }
}
