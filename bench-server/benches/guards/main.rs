//! Instruction counts of the hot paths, each with a limit: a change that makes one of them more
//! expensive fails here, independent of the load of the machine.
//!
//! `scripts/test guards` runs them, with valgrind and gungraun's runner. A guard is a function in
//! the file of its part of the server. Its `setup` is not counted, nor is dropping its result.
//! Limits are a few percent above the count at the time when they were set.
//!
//! By default, jemalloc scans a thread's cached blocks each time that the thread has allocated 64
//! KiB. The allocations of a `setup` determine in which guard this happens, and it costs 27,000
//! instructions, so it is disabled here.

// gungraun generates public modules from its functions.
#![allow(unreachable_pub)]

mod kube;
#[path = "../shared/pods.rs"]
mod pods;
mod store;
#[path = "../shared/kube.rs"]
mod tier;
mod wire;

use self::store::{reads, writes};
use self::wire::{calls, walks};
use bench_server::store::{Config, Store};
use etcd_api::proto::etcdserverpb::PutRequest;
use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};
use kube::served;

/// The server's allocator, whose cost is part of every path.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's options: the first scan of the cached blocks is after 1 GiB of allocations.
const ALLOCATOR_OPTIONS: &str = "tcache_gc_incr_bytes:1073741824";

/// Returns a configuration that limits a guard's function to this number of instructions.
pub(crate) fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config.env(bench_server::memory::allocator::VARIABLE, ALLOCATOR_OPTIONS);
    config
}

/// Returns key `i`, of 37 bytes; keys ascend with `i`.
pub(crate) fn key(i: u64) -> Vec<u8> {
    format!("/registry/pods/namespace-{:03}/{:08}", i / 3000, i).into_bytes()
}

/// Returns a change of one key.
pub(crate) fn put_of(i: u64, value_bytes: usize) -> PutRequest {
    PutRequest {
        key: key(i).into(),
        value: vec![7; value_bytes].into(),
        ..Default::default()
    }
}

/// Returns a store with `keys` keys.
pub(crate) fn store_of(keys: u64, value_bytes: usize) -> Store {
    let store = Store::new(Config::default());
    for i in 0..keys {
        let put = put_of(i, value_bytes);
        store.put(&put).expect("the quota is far away");
    }
    store
}

gungraun::main!(
    library_benchmark_groups = reads,
    writes,
    calls,
    walks,
    served
);
