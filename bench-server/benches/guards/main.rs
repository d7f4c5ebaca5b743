//! Instructions of the hot paths, each with the most that it may take: a change that makes one of
//! them dearer fails here, whatever else the machine is doing.
//!
//! `scripts/test guards` runs it, with valgrind and gungraun's runner. A guard is a function in the
//! file of its part; what its `setup` makes is not counted, and what it returns is dropped outside
//! of the count. Limits stand a few hundredths above what was counted when they were set.
//!
//! jemalloc looks through a thread's cached blocks each time that the thread has allocated 64 KiB.
//! What a `setup` allocated decides in which guard that happens, and it costs 27,000 instructions:
//! it is off here.

// gungraun makes public modules of its functions.
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

/// The server's allocator: what it costs is part of every path.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's options here: no look through the cached blocks before a GiB was allocated.
const ALLOCATOR_OPTIONS: &str = "tcache_gc_incr_bytes:1073741824";

/// Returns the most instructions that a guard lets its function take.
pub(crate) fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config.env(bench_server::memory::allocator::VARIABLE, ALLOCATOR_OPTIONS);
    config
}

/// Key `i`: 37 bytes, in the order of `i`.
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

/// Returns a store with so many keys.
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
