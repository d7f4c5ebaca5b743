//! Runs `loadgen` as the administrator of a kube-apiserver.

use std::fs;
use std::process::{Command, Output};

use crate::apiserver::Apiserver;
use crate::tls;

/// The path of the scenario, relative to the folder in which `loadgen` runs.
pub(crate) const FILE: &str = "./scenario.toml";

/// Runs `loadgen` in a folder with the scenario in [`FILE`], with the server's certificate and that
/// of its administrator.
pub(crate) async fn loadgen(real: &Apiserver, scenario: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join(FILE), scenario).expect("a writable folder");
    let file = |name: String| real.identities().join(name);
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("loadgen"));
    command
        .args(arguments)
        .arg("--cacert")
        .arg(file(format!("{}.crt", tls::SERVING)))
        .arg("--cert")
        .arg(file(format!("{}.crt", tls::ADMIN)))
        .arg("--key")
        .arg(file(format!("{}.key", tls::ADMIN)))
        .current_dir(folder.path());
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    output.expect("no panic").expect("it runs")
}
