//! A result as Go benchmark text, which benchstat reads: one line for each start of a server.
//!
//! The format is golang.org/design/14313-benchmark-format, as `golang.org/x/perf/benchfmt` reads
//! it. benchstat groups by every key of the file and never compares groups with different keys, so
//! no key contains anything that differs from build to build. benchstat reads a hyphen and digits
//! at the end of a name as a number of CPUs.

use std::fmt::Write as _;

use super::target_names::TargetNames;
use crate::compare::Metric;
use crate::result::{Case, SavedResult, ServerStart};

/// The metrics, each with its unit in this format and the factor that converts to it. benchstat
/// scales nanoseconds and bytes.
const UNITS: [(Metric, &str, f64); 11] = [
    (Metric::P50, "ns/op", 1e6),
    (Metric::P90, "p90-ns/op", 1e6),
    (Metric::P99, "p99-ns/op", 1e6),
    (Metric::FirstChunkP50, "first-chunk-ns/op", 1e6),
    (Metric::FirstChunkP99, "first-chunk-p99-ns/op", 1e6),
    (Metric::ServerCpu, "server-cpu-ns/op", 1e6),
    (Metric::ClientCpu, "client-cpu-ns/op", 1e6),
    (Metric::PeakMemory, "above-idle-B", 1.0),
    (Metric::IdleMemory, "idle-B", 1.0),
    (Metric::Bytes, "wire-B", 1.0),
    (Metric::Rate, "requests/s", 1.0),
];

/// Returns results as Go benchmark text, one after another.
#[must_use]
pub fn go_benchmark(results: &[SavedResult]) -> String {
    let mut text = String::new();
    for (result, at) in results.iter().zip(0..) {
        write_result(result, at == 0, &mut text).expect("a string takes everything");
    }
    text
}

fn write_result(result: &SavedResult, is_first: bool, text: &mut String) -> std::fmt::Result {
    let environment = &result.report.environment;
    let keys = [
        ("scenario", result.report.scenario.as_str()),
        ("goarch", architecture(&environment.machine)),
        ("cpu", environment.cpu_model.as_str()),
    ];
    for (key, value) in keys {
        if !value.is_empty() {
            writeln!(text, "{key}: {}", value.replace('\n', " "))?;
        }
    }
    if is_first {
        for (metric, unit, _) in UNITS {
            let better = if metric == Metric::Rate {
                "higher"
            } else {
                "lower"
            };
            let exact = if metric.is_exact() {
                " assume=exact"
            } else {
                ""
            };
            writeln!(text, "Unit {unit} better={better}{exact}")?;
        }
    }
    let names = TargetNames::of(&result.report);
    for case in result.report.cases.iter().filter(|case| case.counts()) {
        let name = name(case, names.get(&case.target));
        for start in case.server_starts() {
            write_start(&name, &start, text)?;
        }
    }
    Ok(())
}

/// Writes the line of a start, or nothing if the start has no value.
fn write_start(name: &str, start: &ServerStart, text: &mut String) -> std::fmt::Result {
    let values = UNITS.iter().filter_map(|(metric, unit, scale)| {
        let value = metric.of(start)? * scale;
        Some(format!("{value} {unit}"))
    });
    let values: Vec<String> = values.collect();
    let succeeded = start.requests.saturating_sub(start.errors);
    if values.is_empty() || succeeded == 0 {
        return Ok(());
    }
    writeln!(text, "{name} {succeeded} {}", values.join(" "))
}

/// Returns a case's name: `BenchmarkList/data=pods-150k/tier=etcd/target=etcd/strategy=stream`.
fn name(case: &Case, target: &str) -> String {
    let what = if case.bytes > 0 { "List" } else { "Request" };
    let mut words = vec![
        ("data", case.data_set.clone()),
        ("tier", case.tier.to_string()),
        ("target", target.to_owned()),
        ("strategy", case.strategy.clone()),
    ];
    if case.clients > 1 {
        words.push(("clients", case.clients.to_string()));
    }
    let options = case.options();
    if !options.is_empty() {
        words.push(("options", options.join(",")));
    }
    let mut name = format!("Benchmark{what}");
    for (key, value) in words {
        let plain = |c: char| {
            if c.is_whitespace() || c == '/' {
                '_'
            } else {
                c
            }
        };
        let value: String = value.chars().map(plain).collect();
        name.push_str(&format!("/{key}={value}"));
    }
    without_cpus(name)
}

/// Replaces a hyphen before digits at the end of a name, so that they are not read as a number of
/// CPUs.
fn without_cpus(name: String) -> String {
    match name.rsplit_once('-') {
        Some((rest, digits))
            if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            format!("{rest}_{digits}")
        }
        _ => name,
    }
}

/// Returns Go's name of an architecture.
fn architecture(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Outcome;
    use workloads::strategy::Tier;

    #[test]
    fn a_name_is_no_number_of_cpus_and_has_no_spaces() {
        let mut case = Case::new("a b", "etcd", Tier::Etcd, "paged:500", Outcome::Measured);
        case.bytes = 1;
        let plain = "BenchmarkList/data=a_b/tier=etcd/target=etcd-3.7.1/strategy=paged:500";
        assert_eq!(name(&case, "etcd-3.7.1"), plain);
        case.clients = 10;
        let name = |case: &Case| name(case, "etcd-3.7.1");
        assert_eq!(name(&case), format!("{plain}/clients=10"));
        case.kube_options = vec!["--limit=5-10".to_owned()];
        assert_eq!(
            name(&case),
            format!("{plain}/clients=10/options=--limit=5_10")
        );
    }
}
