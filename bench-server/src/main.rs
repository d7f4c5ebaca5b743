//! `bench-server`: the server under test as a program of its own.

use std::process::ExitCode;

use bench_server::memory::allocator;

/// Gives memory back within a second or so ([`allocator::configure`]), so that resident size can be
/// measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    allocator::configure();
    bench_server::run(std::env::args_os())
}
