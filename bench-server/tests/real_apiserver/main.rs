//! Compares the Kubernetes tier with a real kube-apiserver over the same etcd: the same requests
//! must return the same responses, except for the differences in `known_differences`.
//!
//! Each case sends requests through its `CaseContext`, which collects differences. A new case goes
//! into the file of its subject and into that file's list of cases; an intended difference goes
//! into `known_differences.rs` and `docs/apiserver-differences.md`. The servers start once for each
//! etcd: `bench` (bench-server's etcd tier) and `etcd` (3.7.3); `pair` is two real servers, one
//! over each of these. `scripts/oracle kube-apiserver` builds the real server, which takes long;
//! without it these tests are ignored. `cargo test -p bench-server --test real_apiserver --
//! bench::lists` runs one file's cases on one etcd.

mod ages;
mod apiserver;
mod case;
mod clients;
mod compare;
mod data;
mod discovery;
mod errors;
mod forms;
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the tier's own cases use more of it"
)]
#[path = "../kubernetes_tier/harness.rs"]
mod harness;
#[allow(dead_code, reason = "the tier's own cases use more of it")]
#[path = "../kubernetes_tier/http.rs"]
mod http;
mod known_differences;
mod lists;
mod options;
mod pair;
#[allow(dead_code, reason = "the conformance table uses more of it")]
#[path = "../conformance/peer.rs"]
mod peer;
mod steps;
mod tls;
mod watches;
mod writes;

use std::process::ExitCode;

/// The program that serves the tier, and the etcd tier.
const SERVER: &str = env!("CARGO_BIN_EXE_bench-server");

fn main() -> ExitCode {
    ages::check_the_rule();
    let cases = [
        discovery::cases(),
        lists::cases(),
        forms::cases(),
        errors::cases(),
        watches::cases(),
        clients::cases(),
        writes::cases(),
        options::cases(),
    ];
    case::run_all(&cases.concat())
}
