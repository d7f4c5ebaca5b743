//! The etcd tier over a socket, with server and client in two processes: see `docs/performance.md`.
//!
//! `cargo bench -p bench-server --bench wire -- sockets|lists|tls|first|small|pace|idle|all…`
//! prints a table for each name. Without a name nothing runs: all tables together take ten minutes,
//! as long as all other benches. Measurements that are compared are interleaved in rounds, so that
//! a busy machine slows all of them. CPU times are from the processes' CPU clocks.

mod first;
mod idle;
mod lists;
mod pace;
mod server;
mod small;
mod sockets;

use std::process::ExitCode;

/// The argument that makes this program the baseline of a table; the number of bytes follows.
const SERVE_BASELINE: &str = "serve-baseline";

/// The name that stands for all tables.
const ALL: &str = "all";

const TABLES: [(&str, fn()); 7] = [
    ("sockets", sockets::run),
    ("lists", lists::run),
    ("tls", lists::run_tls),
    ("first", first::run),
    ("small", small::run),
    ("pace", pace::run),
    ("idle", idle::run),
];

/// Options of criterion that take a value. `cargo bench --workspace -- OPTION…` passes the same
/// arguments to every bench, and a value is not the name of a table.
const WITH_VALUE: [&str; 18] = [
    "-c",
    "--color",
    "--save-baseline",
    "-b",
    "--baseline",
    "--baseline-lenient",
    "--format",
    "--profile-time",
    "--load-baseline",
    "--sample-size",
    "--warm-up-time",
    "--measurement-time",
    "--nresamples",
    "--noise-threshold",
    "--confidence-level",
    "--significance-level",
    "--plotting-backend",
    "--output-format",
];

/// Returns the arguments that are neither an option nor an option's value: names of tables, or
/// filters meant for other benches.
fn names(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if WITH_VALUE.contains(&argument.as_str()) {
            arguments.next();
        } else if !argument.starts_with('-') {
            names.push(argument);
        }
    }
    names
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, bytes] = &arguments[..]
        && command == SERVE_BASELINE
    {
        let bytes = bytes.parse().expect("a number of bytes");
        let served = server::runtime().block_on(bench_server::baseline::serve(bytes));
        served.expect("a port and a thread");
        return ExitCode::SUCCESS;
    }
    let asked = names(arguments);
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let is_table = |name: &&str| *name == ALL || TABLES.iter().any(|(known, _)| known == name);
    if !asked.iter().any(is_table) {
        println!(
            "wire: name tables to run, or `all`: {}",
            TABLES.map(|(name, _)| name).join(", ")
        );
        return ExitCode::SUCCESS;
    }
    for (name, table) in TABLES {
        if asked.contains(&ALL) || asked.contains(&name) {
            table();
        }
    }
    ExitCode::SUCCESS
}

/// Returns the median.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns a number from an environment variable, for runs of another size.
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}
