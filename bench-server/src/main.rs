//! `bench-server`: the server under test as a program of its own.

use std::process::ExitCode;

/// Gives memory back within a second or so, so that resident size can be measured; its settings
/// are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    bench_server::run(std::env::args_os())
}
