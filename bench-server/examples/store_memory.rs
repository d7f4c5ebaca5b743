//! Prints what the store keeps in memory beside the bytes that it is given.
//!
//! `cargo run --release -p bench-server --example store_memory`. Figures are the allocator's, so
//! that they include its rounding; nothing else runs in this process.

use anyhow::Result;
use bench_server::store::{Config, Store};
use etcd_api::proto::etcdserverpb::PutRequest;
use tikv_jemalloc_ctl::{epoch, stats};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const OVERWRITES: u64 = 100_000;

fn main() -> Result<()> {
    for (keys, value_bytes) in [(150_000, 10_000), (500_000, 100), (100_000, 1_000)] {
        let empty = allocated();
        let store = Store::new(Config {
            quota_backend_bytes: -1,
            ..Config::default()
        });
        // Lengths within 2 % of each other, as objects of one kind are.
        let value = vec![7; value_bytes + value_bytes / 50];
        let value = |i: u64| &value[(i % (value_bytes as u64 / 50)) as usize..];
        for i in 0..keys {
            store.put(&put(i, value(i)))?;
        }
        let given: u64 = (0..keys)
            .map(|i| (key(i).len() + value(i).len()) as u64)
            .sum();
        // The log still holds one event per key: that is history, and compaction drops it.
        store.compact(store.revision())?;
        let at_rest = allocated() - empty;
        println!(
            "{keys} keys of {value_bytes} B: {:.1} MB at rest, {:.3} × what was stored, {} B per key beside it",
            mb(at_rest),
            at_rest as f64 / given as f64,
            at_rest.saturating_sub(given) / keys
        );
        let mut values = 0;
        for n in 0..OVERWRITES {
            // In an order unlike the keys', so that each write has a leaf of its own to change.
            let i = n * 271_828_183 % keys;
            values += (key(i).len() + value(i).len()) as u64;
            store.put(&put(i, value(i)))?;
            if n % 1000 == 0 {
                store.hold(&store.snapshot());
            }
        }
        let history = allocated() - empty - at_rest;
        println!(
            "  {OVERWRITES} overwrites, roots held every 1,000: {:.1} MB more, {:.1} MB of it keys and values",
            mb(history),
            mb(values)
        );
        store.compact(store.revision())?;
        println!("  compacted: {:.1} MB", mb(allocated() - empty));
    }
    Ok(())
}

fn key(i: u64) -> Vec<u8> {
    format!("/registry/pods/namespace-{:03}/{:08}", i / 3000, i).into_bytes()
}

fn put(i: u64, value: &[u8]) -> PutRequest {
    PutRequest {
        key: key(i).into(),
        value: value.to_vec().into(),
        ..Default::default()
    }
}

/// Bytes that the program has allocated and not freed.
fn allocated() -> u64 {
    epoch::advance().expect("jemalloc is this program's allocator");
    stats::allocated::read().expect("jemalloc is built with statistics") as u64
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
