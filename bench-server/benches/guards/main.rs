//! Instructions of the hot paths, each with the most that it may take: a change that makes one of
//! them dearer fails here, whatever else the machine is doing.
//!
//! `scripts/test guards` runs it, with valgrind and gungraun's runner. A guard is a function in the
//! file of its part; what its `setup` makes is not counted, and what it returns is dropped outside
//! of the count. Limits stand a few hundredths above what was counted when they were set.

// gungraun makes public modules of its functions.
#![allow(unreachable_pub)]

mod store;

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};
use store::{reads, writes};

/// The server's allocator: what it costs is part of every path.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The most instructions that a guard lets its function take.
pub(crate) fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

gungraun::main!(library_benchmark_groups = reads, writes);
