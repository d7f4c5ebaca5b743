//! The `kube` crate against the Kubernetes tier, on the stage of bench-server's own tests.

#[allow(dead_code, reason = "the tier's own tests use more of it")]
#[path = "../../../tests/kubernetes_tier/http.rs"]
mod http;
mod kube_crate;
#[allow(dead_code, reason = "the conformance table uses more of it")]
#[path = "../../../tests/conformance/peer.rs"]
mod peer;
#[allow(dead_code, reason = "the tier's own tests use more of it")]
#[path = "../../../tests/kubernetes_tier/proxy.rs"]
mod proxy;
#[allow(dead_code, reason = "the tier's own tests use more of it")]
#[path = "../../../tests/kubernetes_tier/stage.rs"]
mod stage;

use std::process::ExitCode;

/// The program that serves the tier, and the etcd tier.
const SERVER: &str = env!("CARGO_BIN_EXE_bench-server-for-kube-clients");

fn main() -> ExitCode {
    stage::run_all(&kube_crate::cases())
}
