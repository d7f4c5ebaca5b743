//! Both tiers over a socket, server and client in two processes: the bars of `docs/performance.md`.
//!
//! `cargo bench -p bench-server --bench wire -- sockets|lists|tls|kube|first|small|pace|idle|all…` prints a table each. Without a
//! name nothing runs: together they take ten minutes, as long as all other benches. What is compared is taken in turn,
//! round after round, so that a busy machine slows all of it. CPU times are the processes' clocks, not their wall time.

mod first;
mod idle;
mod kube;
mod lists;
mod pace;
mod server;
mod small;
mod sockets;

use std::process::ExitCode;

/// Instead of every name.
const ALL: &str = "all";

const TABLES: [(&str, fn()); 8] = [
    ("sockets", sockets::run),
    ("lists", lists::run),
    ("tls", lists::run_tls),
    ("kube", kube::run),
    ("first", first::run),
    ("small", small::run),
    ("pace", pace::run),
    ("idle", idle::run),
];

fn main() -> ExitCode {
    // cargo adds options of its own.
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let asked: Vec<&str> = asked
        .iter()
        .map(String::as_str)
        .filter(|a| !a.starts_with("--"))
        .collect();
    if asked.is_empty() {
        println!(
            "wire: name tables to run, or `all`: {}",
            TABLES.map(|(name, _)| name).join(", ")
        );
        return ExitCode::SUCCESS;
    }
    for name in &asked {
        if *name != ALL && TABLES.iter().all(|(known, _)| known != name) {
            let known = TABLES.map(|(name, _)| name).join(", ");
            eprintln!("error: {name:?} is none of {known}");
            return ExitCode::from(2);
        }
    }
    for (name, table) in TABLES {
        if asked.contains(&ALL) || asked.contains(&name) {
            table();
        }
    }
    ExitCode::SUCCESS
}

/// The middle one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A number from the environment, for runs of another size.
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}
