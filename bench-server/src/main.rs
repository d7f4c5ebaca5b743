//! The program `bench-server`: the server under test.

use std::process::ExitCode;

use bench_server::memory::allocator;

/// Returns freed memory within about a second ([`allocator::configure`]), so that resident memory
/// can be measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    allocator::configure();
    bench_server::run(std::env::args_os())
}
