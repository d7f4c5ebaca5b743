//! A table of cases that specifies the behaviour of an etcd v3 server, run against bench-server and
//! against etcd.
//!
//! Every case is an async function that gets its own new server and sends gRPC requests to it. The
//! same assertions hold for every peer, so etcd itself validates them. Where bench-server
//! deliberately differs from etcd, the case checks its peer and says why. A new case goes into the
//! file of its service, and into that file's list of cases.
//!
//! Peers: `bench` and `bench-buffered` (bench-server with each of its two Range encodings), `etcd`
//! (3.7.3, `ETCD_BIN`) and `etcd34` (Debian's 3.4, `ETCD34_BIN`, only cases about older servers).
//! `cargo test -p bench-server --test conformance -- etcd::txn` runs the cases of one file on one
//! peer.

mod benchmark_tool;
mod calls;
#[allow(dead_code, reason = "the tests of TLS use more of it")]
#[path = "../tls/client.rs"]
mod client;
mod compaction;
mod differential;
mod errors;
mod etcdctl;
mod harness;
mod health;
mod kv;
mod lease;
mod maintenance;
mod older;
#[allow(dead_code, reason = "the Kubernetes tier's table restarts servers")]
mod peer;
mod range;
mod range_stream;
mod range_stream_options;
mod range_table;
mod raw_requests;
mod request;
mod tls;
mod txn;
mod txn_compare;
mod txn_limits;
mod watch;
mod watch_events;
mod watch_fragment;
mod watch_progress;
mod watch_stream;

use std::process::ExitCode;

use libtest_mimic::Arguments;

use crate::harness::Case;
use crate::peer::Peer;

/// The program that serves the etcd tier.
const SERVER: &str = env!("CARGO_BIN_EXE_bench-server");

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let cases: Vec<Case> = [
        kv::cases(),
        calls::cases(),
        range::cases(),
        range_table::cases(),
        range_stream::cases(),
        range_stream_options::cases(),
        txn::cases(),
        txn_compare::cases(),
        txn_limits::cases(),
        compaction::cases(),
        watch::cases(),
        watch_events::cases(),
        watch_progress::cases(),
        watch_fragment::cases(),
        lease::cases(),
        maintenance::cases(),
        health::cases(),
        errors::cases(),
        raw_requests::cases(),
        older::cases(),
        tls::cases(),
        etcdctl::cases(),
        benchmark_tool::cases(),
        differential::cases(),
    ]
    .concat();

    if !arguments.list {
        for peer in Peer::ALL {
            if let Some(reason) = peer.missing() {
                eprintln!("no cases on {}: {reason}", peer.name());
            }
        }
    }
    let mut trials = Vec::new();
    for &peer in Peer::ALL {
        let run_there = cases.iter().filter(|case| case.on.contains(&peer));
        trials.extend(run_there.map(|case| harness::trial(peer, *case)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
