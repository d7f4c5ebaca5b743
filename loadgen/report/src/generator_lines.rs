//! The text about the generators of a result, where there were several.

use crate::quantity::Quantity;
use crate::result::{Generator, Quantiles, Report, RunShard};

/// Returns a line about the generator that the result belongs to; for a merged result, a line about
/// all generators and one about each. Empty for a result of one generator whose load began at once.
#[must_use]
pub fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(shard) = &report.shard {
        lines.push(of_one(shard));
    }
    if let Some(first) = report.generators.first() {
        let count = report.generators.len();
        lines.push(format!(
            "Made by {count} generators together{}: requests, rates and times are of all of them, memory and CPU of servers as generator 0 saw them.",
            at(&first.shard)
        ));
        lines.extend(report.generators.iter().map(of_each));
    }
    lines
}

fn of_one(shard: &RunShard) -> String {
    let late = shard.late_ms.map(late_text);
    let late = late.map_or_else(String::new, |late| format!(", {late}"));
    if shard.count == 1 {
        return format!("The load was to begin{}{late}.", at(shard));
    }
    format!(
        "Generator {} of {}, numbered from 0, to begin{}{late}{}. Requests and rates are its own share; loadgen merge adds up all of them.",
        shard.index,
        shard.count,
        at(shard),
        clock(shard)
    )
}

fn of_each(generator: &Generator) -> String {
    let Generator { shard, host, .. } = generator;
    let mut parts = vec![format!("{} requests", Quantity::Count(generator.requests))];
    if generator.errors > 0 {
        parts.push(format!("{} errors", Quantity::Count(generator.errors)));
    }
    let rate = generator.requests_per_s.map(Quantity::PerSecond);
    parts.extend(rate.map(|rate| rate.to_string()));
    let times = |of: fn(&Quantiles) -> Option<f64>| {
        let latency = generator.latency_ms.as_ref();
        latency.and_then(of).map(|ms| Quantity::seconds(ms / 1e3))
    };
    parts.extend(times(|q| q.p50).map(|time| format!("p50 {time}")));
    parts.extend(times(|q| q.p99).map(|time| format!("p99 {time}")));
    parts.extend(generator.cpu_s.map(|cpu_s| {
        let cores = generator.cores;
        format!("{} of CPU ({cores} cores)", Quantity::seconds(cpu_s))
    }));
    parts.extend(shard.late_ms.map(late_text));
    format!(
        "Generator {} on {host}: {}{}.",
        shard.index,
        parts.join(", "),
        clock(shard)
    )
}

fn at(shard: &RunShard) -> String {
    let at = shard.start_at.as_ref();
    at.map_or_else(String::new, |at| format!(" at {at}"))
}

fn late_text(late_ms: f64) -> String {
    format!("begun {late_ms:.1} ms late")
}

fn clock(shard: &RunShard) -> String {
    match (shard.clock_ahead_ms, shard.clock_within_ms) {
        (Some(ahead), Some(within)) => {
            // Adding 0.0 turns -0.0 into 0.0.
            let ahead = (ahead * 10.0).round() / 10.0 + 0.0;
            format!(", its clock {ahead:+.1} ms (± {within:.1}) from generator 0's")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;

    #[test]
    fn one_generator_alone_is_not_worth_a_line_and_several_have_one_each() {
        let mut report = fixture::report(&[("etcd", "get", 1.0)]);
        assert!(lines(&report).is_empty());
        let shard = RunShard {
            index: 1,
            count: 2,
            start_at: Some("2026-01-02T03:04:05.000Z".to_owned()),
            late_ms: Some(0.42),
            clock_ahead_ms: Some(-3.0),
            clock_within_ms: Some(0.5),
        };
        report.shard = Some(shard.clone());
        let found = lines(&report);
        assert_eq!(found.len(), 1);
        for part in [
            "Generator 1 of 2, numbered from 0, to begin at 2026-01-02T03:04:05.000Z",
            "begun 0.4 ms late",
            "its clock -3.0 ms (± 0.5)",
        ] {
            assert!(found[0].contains(part), "{part}: {}", found[0]);
        }
        report.shard = None;
        report.generators = vec![
            Generator {
                host: "a".to_owned(),
                requests: 10,
                ..Generator::default()
            },
            Generator {
                shard,
                host: "b".to_owned(),
                errors: 2,
                ..Generator::default()
            },
        ];
        let found = lines(&report);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("Made by 2 generators"), "{found:?}");
        assert!(
            found[1].starts_with("Generator 0 on a: 10 requests"),
            "{found:?}"
        );
        assert!(found[2].contains("2 errors"), "{found:?}");
    }
}
