//! A second binary of bench-server, for the tests of this package. The tests are in a separate
//! package because the dependency graph of the `kube` crate is as large as that of the rest of the
//! workspace, and a test can only start binaries of its own package.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench_server::run(std::env::args_os())
}
