//! The Kubernetes tier from outside, over each backend, by raw HTTP and by clients that are not ours.
//!
//! Every case gets servers of its own. A new case goes into the file of its subject and into the list at
//! that file's end. Backends: `embedded` (one process), `bench` (our etcd tier), `etcd` (3.7.1, `ETCD_BIN`)
//! and `etcd34` (too old to report progress, `ETCD34_BIN`).
//! `cargo test -p bench-server --test kubernetes_tier -- etcd::paging` runs one file's cases on one backend.

mod bad_luck;
#[path = "../conformance/chance.rs"]
mod chance;
mod consistency;
mod differential;
mod errors;
mod http;
#[allow(dead_code, reason = "the tests of TLS use more of it")]
#[path = "../tls/identity.rs"]
mod identity;
mod informer;
mod instances;
mod kubectl;
mod lists;
mod paging;
#[allow(dead_code, reason = "the conformance table uses more of it")]
#[path = "../conformance/peer.rs"]
mod peer;
mod proxy;
mod shards;
mod stage;
mod table;
mod tls;
mod watches;
mod writes;

use std::process::ExitCode;

/// The program that serves the tier, and the etcd tier.
const SERVER: &str = env!("CARGO_BIN_EXE_bench-server");

fn main() -> ExitCode {
    let cases = [
        lists::cases(),
        table::cases(),
        errors::cases(),
        paging::cases(),
        bad_luck::cases(),
        differential::cases(),
        consistency::cases(),
        watches::cases(),
        writes::cases(),
        instances::cases(),
        kubectl::cases(),
        shards::cases(),
        informer::cases(),
        tls::cases(),
    ];
    stage::run_all(&cases.concat())
}
