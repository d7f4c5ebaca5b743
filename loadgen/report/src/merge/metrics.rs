//! Merges the cases of all generators, and their loads.

use std::ops::Add;

use super::histograms::Histograms;
use super::{GeneratorResult, agreement};
use crate::result::{
    Case, ClientMetrics, Load, LoadKind, MachineLoad, Outcome, Quantiles, Report, Round,
    ServerMetrics, WatcherSpread, WatcherTimes,
};

/// The maximal number of error texts in a merged case.
const KEPT_ERRORS: usize = 5;
/// The number of watchers with the slowest events that are listed.
const SLOWEST: usize = 10;
/// The delay beyond which a load did not run at the same time as the others.
const LATE_MS: f64 = 100.0;

/// Adds up the only case of each part. Parts are in the order of their generators.
pub(super) fn case(parts: &[GeneratorResult], times: &Histograms) -> Case {
    let cases: Vec<&Case> = parts
        .iter()
        .flat_map(|part| &part.result.report.cases)
        .collect();
    let first = cases[0];
    let is_open = first.offered_per_s.is_some();
    let requests = cases.iter().map(|case| case.requests).sum();
    let quantiles = |measure: &str, of: fn(&Case) -> Option<&Quantiles>| {
        times.quantiles(measure, cases.iter().map(|case| of(case)), None)
    };
    let lag_of: fn(&Case) -> Option<&Quantiles> = |case| {
        case.client
            .as_ref()
            .and_then(|client| client.lag_ms.as_ref())
    };
    let loads = (0..first.loads.len()).map(|at| {
        let loads: Vec<&Load> = cases.iter().filter_map(|case| case.loads.get(at)).collect();
        load(&loads, times)
    });
    let loads: Vec<Load> = loads.collect();
    // Where there are loads, the latency of the first measured one is that of the case.
    let headline = loads.iter().find(|load| load.measured);
    let (latency_ms, service_ms, lag_ms) = match headline {
        Some(load) => (
            load.latency_ms.clone(),
            load.service_ms.clone(),
            load.lag_ms.clone(),
        ),
        None => (
            quantiles("latency", |case| case.latency_ms.as_ref()),
            quantiles("service", |case| case.service_ms.as_ref()),
            quantiles("lag", lag_of),
        ),
    };
    let outcome = outcome(parts);
    Case {
        // A schedule stands for any number of clients, and where there are loads, each has its own
        // clients.
        clients: match is_open || !loads.is_empty() {
            true => first.clients,
            false => cases.iter().map(|case| case.clients).sum(),
        },
        connections: sum(cases.iter().map(|case| case.connections)),
        offered_per_s: rate(cases.iter().map(|case| case.offered_per_s)),
        valid: outcome == Outcome::Measured && cases.iter().all(|case| case.valid),
        outcome,
        requests,
        errors: cases.iter().map(|case| case.errors).sum(),
        saturated: cases.iter().any(|case| case.saturated),
        latency_ms,
        service_ms,
        requests_per_s: rate(cases.iter().map(|case| case.requests_per_s)),
        rounds: rounds(&cases),
        server: first.server.clone().map(|server| ServerMetrics {
            cpu_s_per_request: server
                .cpu_s
                .filter(|_| server.cpu_s_per_request.is_some() && requests > 0)
                .map(|cpu_s| cpu_s / requests as f64),
            ..server
        }),
        client: client(&cases, requests, lag_ms),
        missing_figures: missing(parts),
        machine: machine(&cases),
        error_samples: errors(cases.iter().map(|case| &case.error_samples)),
        loads,
        ..first.clone()
    }
}

/// Adds up one load of all generators.
fn load(loads: &[&Load], times: &Histograms) -> Load {
    let first = loads[0];
    let requests = loads.iter().map(|load| load.requests).sum();
    // The events of one write are not independent samples.
    let groups = first.events.map(|_| requests);
    let quantiles = |measure: &str, of: fn(&Load) -> Option<&Quantiles>| {
        let measure = format!("{}.{measure}", first.name);
        times.quantiles(&measure, loads.iter().map(|load| of(load)), groups)
    };
    let mut kinds: Vec<LoadKind> = Vec::new();
    for kind in loads.iter().flat_map(|load| &load.kinds) {
        let Some(known) = kinds.iter_mut().find(|k| k.operation == kind.operation) else {
            kinds.push(kind.clone());
            continue;
        };
        known.requests += kind.requests;
        known.errors += kind.errors;
        known.conflicts += kind.conflicts;
    }
    for kind in &mut kinds {
        let measure = format!("{}.latency.{}", first.name, kind.operation);
        let of_kind = loads.iter().flat_map(|load| &load.kinds);
        let of_kind = of_kind.filter(|other| other.operation == kind.operation);
        let each = of_kind.map(|kind| kind.latency_ms.as_ref());
        kind.latency_ms = times.quantiles(&measure, each, None);
    }
    let invalid = loads.iter().zip(0..).find_map(|(load, generator)| {
        let why = load.invalid.as_ref()?;
        Some(format!("generator {generator}: {why}"))
    });
    Load {
        clients: match is_small_on_a_schedule(first) {
            true => 1,
            false => loads.iter().map(|load| load.clients).sum(),
        },
        connections: sum(loads.iter().map(|load| load.connections)),
        offered_per_s: rate(loads.iter().map(|load| load.offered_per_s)),
        achieved_per_s: rate(loads.iter().map(|load| load.achieved_per_s)),
        requests,
        errors: loads.iter().map(|load| load.errors).sum(),
        refused: loads.iter().map(|load| load.refused).sum(),
        unanswered: loads.iter().map(|load| load.unanswered).sum(),
        events: sum(loads.iter().map(|load| load.events)),
        foreign_events: loads.iter().map(|load| load.foreign_events).sum(),
        watchers: watchers(loads),
        cut_ms: times.quantiles(
            &format!("{}.cuts", first.name),
            loads.iter().map(|load| load.cut_ms.as_ref()),
            None,
        ),
        lost_streams: loads.iter().map(|load| load.lost_streams).sum(),
        relists: loads.iter().map(|load| load.relists).sum(),
        missed_events: loads.iter().map(|load| load.missed_events).sum(),
        conflicts: loads.iter().map(|load| load.conflicts).sum(),
        throttled: loads.iter().map(|load| load.throttled).sum(),
        restarts: loads.iter().map(|load| load.restarts).sum(),
        saturated: loads.iter().any(|load| load.saturated),
        invalid,
        latency_ms: quantiles("latency", |load| load.latency_ms.as_ref()),
        service_ms: quantiles("service", |load| load.service_ms.as_ref()),
        lag_ms: quantiles("lag", |load| load.lag_ms.as_ref()),
        first_object_ms: quantiles("first_object", |load| load.first_object_ms.as_ref()),
        longest_gap_ms: quantiles("longest_gap", |load| load.longest_gap_ms.as_ref()),
        kinds,
        error_samples: errors(loads.iter().map(|load| &load.error_samples)),
        ..first.clone()
    }
}

/// Returns whether a load consists of small requests on a schedule, so that its one client is the
/// schedule.
fn is_small_on_a_schedule(load: &Load) -> bool {
    load.offered_per_s.is_some() && !load.operation.starts_with("list by ")
}

/// Returns the worst outcome of all parts, with the number of its generator.
fn outcome(parts: &[GeneratorResult]) -> Outcome {
    let ends = || {
        parts.iter().filter_map(|part| {
            let report = &part.result.report;
            let case = report.cases.first()?;
            Some((agreement::index(part), case, report))
        })
    };
    let failed = ends().find_map(|(generator, case, _)| match &case.outcome {
        Outcome::Failed { reason } => Some(Outcome::Failed {
            reason: format!("generator {generator}: {reason}"),
        }),
        _ => None,
    });
    let invalid = || {
        ends().find_map(|(generator, case, report)| {
            let reason = match &case.outcome {
                Outcome::Invalid { reason } => reason.clone(),
                _ => late(report)?,
            };
            Some(Outcome::Invalid {
                reason: format!("generator {generator}: {reason}"),
            })
        })
    };
    failed.or_else(invalid).unwrap_or(Outcome::Measured)
}

/// Returns why a part did not run at the same time as the others; `None` where it did.
fn late(report: &Report) -> Option<String> {
    let late_ms = report.shard.as_ref()?.late_ms?;
    (late_ms > LATE_MS).then(|| format!("its load began {late_ms:.0} ms late"))
}

/// Returns the slowest watchers of all generators. The other watchers' times are not saved, so the
/// spread of all watchers is unknown.
fn watchers(loads: &[&Load]) -> Option<WatcherSpread> {
    let mut slowest: Vec<WatcherTimes> = Vec::new();
    for (load, generator) in loads.iter().zip(0..) {
        let of_generator = load.watchers.iter().flat_map(|spread| &spread.slowest);
        slowest.extend(of_generator.map(|watcher| WatcherTimes {
            generator: Some(generator),
            ..watcher.clone()
        }));
    }
    slowest.sort_by(|a, b| b.max_ms.total_cmp(&a.max_ms));
    slowest.truncate(SLOWEST);
    (!slowest.is_empty()).then(|| WatcherSpread {
        slowest,
        ..WatcherSpread::default()
    })
}

/// Returns a sum; `None` without any value.
fn sum<T: Add<Output = T>>(values: impl Iterator<Item = Option<T>>) -> Option<T> {
    values.flatten().reduce(|sum, value| sum + value)
}

/// Returns the sum of shares of a rate, rounded so that it equals the whole rate; `None` without
/// any.
fn rate(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let sum = values
        .flatten()
        .fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))?;
    Some(format!("{sum:.11e}").parse().unwrap_or(sum))
}

/// Returns the only round, if each generator has one. Its time is the longest of all; its servers'
/// CPU time is that of the first generator.
fn rounds(cases: &[&Case]) -> Vec<Round> {
    let rounds = cases.iter().flat_map(|case| &case.rounds);
    let longest = rounds.map(|round| round.ms).max_by(f64::total_cmp);
    let each_has_one = cases.iter().all(|case| case.rounds.len() == 1);
    let first = cases[0].rounds.first();
    match (first, longest) {
        (Some(first), Some(ms)) if each_has_one => vec![Round {
            ms,
            ..first.clone()
        }],
        _ => Vec::new(),
    }
}

/// Merges the client's metrics: the sum of all generators' CPU times; memory, growth and longest
/// stall of the worst.
fn client(cases: &[&Case], requests: u64, lag_ms: Option<Quantiles>) -> Option<ClientMetrics> {
    let all: Vec<&ClientMetrics> = cases
        .iter()
        .filter_map(|case| case.client.as_ref())
        .collect();
    let first = *all.first()?;
    let cpu_s = all.iter().map(|client| client.cpu_s).sum::<Option<f64>>();
    let is_priced = first.cpu_s_per_request.is_some() && requests > 0;
    let per_request = cpu_s.filter(|_| is_priced);
    let steepest = all.iter().max_by(|a, b| {
        let of = |client: &ClientMetrics| client.late_over_early.unwrap_or(f64::NEG_INFINITY);
        of(a).total_cmp(&of(b))
    });
    Some(ClientMetrics {
        cpu_s,
        cpu_s_per_request: per_request.map(|cpu_s| cpu_s / requests as f64),
        rss_peak: all.iter().filter_map(|client| client.rss_peak).max(),
        late_over_early: steepest.and_then(|client| client.late_over_early),
        late_over_early_likely: steepest.and_then(|client| client.late_over_early_likely),
        stall_ms: most(all.iter().map(|client| client.stall_ms)),
        lag_ms,
        ..first.clone()
    })
}

/// Returns the metrics that could not be read, each with the number of its generator.
fn missing(parts: &[GeneratorResult]) -> Vec<String> {
    let of_part = |part: &GeneratorResult| {
        let generator = agreement::index(part);
        let case = part.result.report.cases.first();
        let missing = case.map(|case| case.missing_figures.clone());
        let missing = missing.unwrap_or_default().into_iter();
        missing.map(move |missing| format!("generator {generator}: {missing}"))
    };
    parts.iter().flat_map(of_part).collect()
}

/// Returns the highest value of each metric over the generators' machines.
fn machine(cases: &[&Case]) -> Option<MachineLoad> {
    let all: Vec<MachineLoad> = cases.iter().filter_map(|case| case.machine).collect();
    (!all.is_empty()).then(|| MachineLoad {
        others_cpu_part: most(all.iter().map(|load| load.others_cpu_part)),
        stolen_cpu_part: most(all.iter().map(|load| load.stolen_cpu_part)),
        waiting_part: most(all.iter().map(|load| load.waiting_part)),
    })
}

fn most(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().max_by(f64::total_cmp)
}

/// Returns the first few distinct error texts.
fn errors<'a>(all: impl Iterator<Item = &'a Vec<String>>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in all.flatten() {
        if !texts.contains(text) && texts.len() < KEPT_ERRORS {
            texts.push(text.clone());
        }
    }
    texts
}
