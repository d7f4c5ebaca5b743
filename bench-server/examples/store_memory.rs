//! Prints the memory of the store in addition to the stored bytes: at rest, for history, and after
//! compaction.
//!
//! `cargo run --release -p bench-server --example store_memory`. Sizes are the allocator's, so they
//! include its rounding; nothing else runs in this process.

use anyhow::{Context, Result};
use bench_server::store::{Config, Store};
use bytes::Bytes;
use etcd_api::proto::etcdserverpb::PutRequest;
use tikv_jemalloc_ctl::{epoch, stats};
use workloads::{DataSet, Scenario};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const OVERWRITES: u64 = 100_000;

fn main() -> Result<()> {
    bench_server::memory::allocator::configure();
    let pods = Scenario::named("pods-150k").context("a built-in scenario")?;
    let pods = DataSet::new(&pods.data_sets[0]);
    measure("150,000 pods", 150_000, |i| pods.value(i))?;
    // Lengths within 2 % of each other, like those of objects of one kind.
    let uniform = |bytes: u64| {
        let longest = Bytes::from(vec![7; (bytes + bytes / 50) as usize]);
        move |i: u64| longest.slice((i % (bytes / 50)) as usize..)
    };
    for bytes in [9_000, 5_000, 1_000] {
        let name = format!("100,000 keys of {bytes} B");
        measure(&name, 100_000, uniform(bytes))?;
    }
    measure("1,000,000 keys of 100 B", 1_000_000, uniform(100))
}

fn measure(name: &str, keys: u64, value: impl Fn(u64) -> Bytes) -> Result<()> {
    let empty = allocated();
    let store = Store::new(Config {
        quota_backend_bytes: -1,
        ..Config::default()
    });
    let mut given = 0;
    for i in 0..keys {
        given += write(&store, i, &value)?;
    }
    // The log still has one event per key, which is history and which compaction removes.
    store.compact(store.revision())?;
    let at_rest = allocated() - empty;
    println!(
        "{name}: {:.1} MB at rest, {:.3} × what was stored, {} B per key beside it",
        mb(at_rest),
        at_rest as f64 / given as f64,
        at_rest.saturating_sub(given) / keys
    );
    let mut overwritten = 0;
    for n in 0..OVERWRITES {
        // The order differs from that of the keys, so that each write changes another leaf.
        overwritten += write(&store, n * 271_828_183 % keys, &value)?;
        if n % 1000 == 0 {
            store.hold(&store.snapshot());
        }
    }
    let history = allocated() - empty - at_rest;
    println!(
        "  {OVERWRITES} overwrites, roots held every 1,000: {:.1} MB more, {:.1} MB beside their keys and values",
        mb(history),
        mb(history.saturating_sub(overwritten))
    );
    store.compact(store.revision())?;
    println!("  compacted: {:.1} MB", mb(allocated() - empty));
    Ok(())
}

/// Puts key `i`; returns the size of key and value, bytes.
fn write(store: &Store, i: u64, value: &impl Fn(u64) -> Bytes) -> Result<u64> {
    let key = format!("/registry/pods/namespace-{:03}/{:08}", i / 3000, i);
    let request = PutRequest {
        key: key.into(),
        value: value(i),
        ..Default::default()
    };
    store.put(&request)?;
    Ok((request.key.len() + request.value.len()) as u64)
}

/// Returns the number of bytes that the program has allocated and not freed.
fn allocated() -> u64 {
    epoch::advance().expect("jemalloc is this program's allocator");
    stats::allocated::read().expect("jemalloc is built with statistics") as u64
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
