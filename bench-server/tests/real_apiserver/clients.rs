//! Runs kubectl with both servers: the output of the same command must be the same.

use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::Command;

use crate::case::{CaseContext, cases};
use crate::harness::program;

cases! {
    kubectl_prints_the_same everywhere;
}

/// Maximum number of attempts, since ages change between two commands.
const ATTEMPTS: usize = 3;

async fn kubectl(url: &str, home: &TempDir, arguments: &[&str]) -> String {
    let child = Command::new(program("KUBECTL_BIN", "kubectl"))
        .arg(format!("--server={url}"))
        .args(arguments)
        .env_clear()
        .env("HOME", home.path())
        .current_dir(home.path())
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .output();
    let output = child.await.expect("kubectl runs");
    let text = [output.stdout, output.stderr].concat();
    // Replaces the URL, the only part of the output that identifies the server.
    String::from_utf8(text).expect("text").replace(url, "URL")
}

async fn kubectl_prints_the_same(context: &CaseContext<'_>) {
    let folder = || tempfile::tempdir().expect("a temporary folder");
    let (real_home, our_home) = (folder(), folder());
    for command in [
        "get pods -n a",
        "get pods -A -o wide",
        "get pods -n a --chunk-size=7 -o name",
        "get pods -n a-b --chunk-size=9 -o wide -l app=app-1",
        "get po -n a -o json --chunk-size=50",
        "get pod pod-008 -n a -o yaml",
        "get pods -n a --field-selector=spec.nodeName=node-2,status.phase=Running",
        "get pods -n a --sort-by=.metadata.creationTimestamp -o name",
        "get pods -n a -L app,tier --show-labels",
        "get nodes -o wide",
        "get no node-0 -o yaml",
        "get cm,secrets -n b",
        "get ns --show-labels",
        "get events -n a",
        "get events -n a -o wide --sort-by=.metadata.name",
        "get leases -A",
        "get widgets -A",
        "get widget widget-1 -n a -o json",
        "get pod none -n a",
        "get nothing -n a",
        "get pods -n none",
        "get pods -n a --field-selector=spec.unknown=1",
        "get --raw /api/v1/namespaces/a/pods?limit=500",
        "get --raw /api/v1/namespaces/a/pods/none",
        "describe node node-1",
        "describe pod pod-008 -n a",
        "describe cm map-02 -n a",
        "wait --for=condition=Ready pod/pod-002 -n a --timeout=1s",
        "wait --for=jsonpath={.status.phase}=Running pod/pod-010 -n a --timeout=2s",
        "label pod pod-001 -n a app=other --dry-run=server -o json",
        "annotate cm map-02 -n a k=v --dry-run=server -o name",
        "delete pod pod-001 -n a --dry-run=server",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let (mut theirs, mut our) = (String::new(), String::new());
        for _ in 0..ATTEMPTS {
            (theirs, our) = futures::join!(
                kubectl(&context.world.real.url, &real_home, &arguments),
                kubectl(context.world.our_url(), &our_home, &arguments)
            );
            if theirs == our {
                break;
            }
        }
        if theirs != our {
            let differing = theirs.lines().zip(our.lines()).find(|(a, b)| a != b);
            let lines = (theirs.lines().count(), our.lines().count());
            context.finding(format!(
                "kubectl {command}: {lines:?} lines\n    {differing:?}"
            ));
        }
    }
}
