//! `bench-server`: the server under test as a program of its own.
use bench_server as _;

fn main() {}
