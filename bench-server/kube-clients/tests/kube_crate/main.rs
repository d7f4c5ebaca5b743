//! Tests of the Kubernetes tier with the `kube` crate, which use the test harness of bench-server.

#[allow(dead_code, reason = "the tier's own tests use more of it")]
#[path = "../../../tests/kubernetes_tier/harness.rs"]
mod harness;
#[allow(dead_code, reason = "the tier's own tests use more of it")]
#[path = "../../../tests/kubernetes_tier/http.rs"]
mod http;
mod kube_crate;
#[allow(dead_code, reason = "the conformance table uses more of it")]
#[path = "../../../tests/conformance/peer.rs"]
mod peer;

use std::process::ExitCode;

/// The program that serves the Kubernetes tier and the etcd tier.
const SERVER: &str = env!("CARGO_BIN_EXE_bench-server-for-kube-clients");

fn main() -> ExitCode {
    harness::run_all(&kube_crate::cases())
}
