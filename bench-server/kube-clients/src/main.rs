//! bench-server once more. A crate of its own because the `kube` crate's graph is as large as the
//! rest of the workspace's, and a test can only start programs of its own package.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench_server::run(std::env::args_os())
}
