//! Tests of the Kubernetes tier over each backend, by raw HTTP and by third-party clients.
//!
//! Every case gets its own servers. A new case goes into the file of its subject and into the list
//! at that file's end. Backends: `embedded` (one process), `bench` (bench-server's etcd tier),
//! `etcd` (3.7.3, `ETCD_BIN`) and `etcd34` (too old to report progress, `ETCD34_BIN`). `cargo test
//! -p bench-server --test kubernetes_tier -- etcd::paging` runs one file's cases on one backend.

mod consistency;
mod differential;
mod errors;
mod faults;
mod harness;
mod http;
mod informer;
mod instances;
mod kubectl;
mod kubectl_columns;
mod lists;
mod paging;
#[allow(dead_code, reason = "the conformance table uses more of it")]
#[path = "../conformance/peer.rs"]
mod peer;
mod shards;
mod table;
mod tls;
mod watches;
mod write_errors;
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
        faults::cases(),
        differential::cases(),
        consistency::cases(),
        watches::cases(),
        writes::cases(),
        write_errors::cases(),
        instances::cases(),
        kubectl::cases(),
        kubectl_columns::cases(),
        shards::cases(),
        informer::cases(),
        tls::cases(),
    ];
    harness::run_all(&cases.concat())
}
