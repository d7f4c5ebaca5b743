//! Notes that a reader should see before the numbers: differences between the runs' machines,
//! builds and servers, and limitations of the verdicts.

use std::collections::BTreeSet;

use workloads::Scenario;

use super::comparability::setup;
use super::matching::Gathered;
use super::verdict::ALPHA;
use crate::result::{Environment, SavedResult, ServerSetup};

/// The maximal number of flags in a message.
const NAMED: usize = 6;

/// The number of lines from which one of them is likely to be worse by chance alone.
const MANY_LINES: usize = 10;

/// Returns the differences between the environments of two runs. A missing value is no difference.
pub(super) fn of_environments(base: &SavedResult, new: &SavedResult) -> Vec<String> {
    let (old, fresh) = (&base.report.environment, &new.report.environment);
    let mut warnings = of_machines(old, fresh);
    warnings.extend(of_warm_up(base, new));
    warnings.extend(of_generators(old, fresh));
    warnings
}

/// Returns a note that a run was stopped before its end.
pub(super) fn of_interruption(result: &SavedResult) -> Option<String> {
    let report = &result.report;
    (report.interrupted).then(|| format!("the run of {} was interrupted", report.started))
}

/// Returns a note that the sides were measured one after the other. What changed on the machine
/// meanwhile, as heat or other tenants, then looks like a difference between the servers.
pub(super) fn of_order(base: &[SavedResult], new: &[SavedResult]) -> Option<String> {
    let started = |side: &[SavedResult]| {
        let started = side.iter().map(|result| result.report.started.clone());
        let (first, last) = (started.clone().min()?, started.max()?);
        Some((first, last))
    };
    let ((first, last), (new_first, new_last)) = started(base).zip(started(new))?;
    let is_apart = last < new_first || new_last < first;
    (base.len() > 1 && new.len() > 1 && is_apart).then(|| {
        "one side was measured after the other: drift of the machine counts as a difference, \
         interleaved runs are free of it"
            .to_owned()
    })
}

/// Returns notes on what limits the conclusions about a case's server.
pub(super) fn of_case(label: &str, side: &str, of: &Gathered<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if of.measured.iter().any(|of| of.case.client_limited) {
        warnings.push(format!(
            "{label}: client-limited in the {side}, so times are partly the generator's"
        ));
    }
    if of.is_saturated() {
        warnings.push(format!(
            "{label}: saturated in the {side}, so times are of a queue that grows"
        ));
    }
    if let Some(first) = of.measured.first()
        && of.starts.len() > 1
        && setup(*first).is_some_and(|setup| setup.flags.is_empty())
    {
        let target = &first.case.target;
        warnings.push(format!(
            "{target} was there before the run: its runs share one server, and verdicts hold for \
             that one"
        ));
    }
    warnings
}

/// Returns a note on the effect of chance on many lines.
pub(super) fn of_many_lines(deciding: usize, worse: usize) -> Option<String> {
    let expected = deciding as f64 * ALPHA / 2.0;
    (worse > 0 && deciding >= MANY_LINES).then(|| {
        format!(
            "of {deciding} deciding metrics chance alone makes up to {expected:.1} worse: measure \
             those that are worse again before anybody acts on them"
        )
    })
}

/// Returns differences between the generators, which look like differences between the servers.
fn of_generators(a: &Environment, b: &Environment) -> Vec<String> {
    let commit = |of: &Environment| of.commit.clone();
    let windows = |of: &Environment| {
        let client = &of.client;
        Some(format!(
            "{} and {} bytes",
            client.stream_window_bytes, client.connection_window_bytes
        ))
    };
    let pairs = [
        ("generator", commit(a), commit(b)),
        ("windows of the generator", windows(a), windows(b)),
    ];
    let both = pairs
        .into_iter()
        .filter_map(|(what, a, b)| Some((what, a?, b?)));
    both.filter(|(_, a, b)| a != b)
        .map(|(what, a, b)| {
            format!("different {what}: {a} and {b}; its changes show as the server's")
        })
        .collect()
}

/// Returns a note if the warm-ups differ. The first lists of a server are slower than the rest, and
/// with a longer warm-up fewer of them are measured.
fn of_warm_up(base: &SavedResult, new: &SavedResult) -> Option<String> {
    // The warm-up is unknown where the scenario cannot be read.
    let rounds = |result: &SavedResult| {
        let scenario = Scenario::parse(&result.scenario_toml, &result.report.scenario).ok()?;
        Some(scenario.warmup)
    };
    let (old, fresh) = (rounds(base)?, rounds(new)?);
    (old != fresh).then(|| {
        format!("different warm-up: {old} and {fresh} rounds; times and CPU say little across that")
    })
}

fn of_machines(a: &Environment, b: &Environment) -> Vec<String> {
    let text = |text: &str| Some(text.to_owned());
    let count = |count: u32| Some(count.to_string());
    let pairs = [
        ("kernel", text(&a.kernel), text(&b.kernel)),
        (
            "vm.percpu_pagelist_high_fraction (lists of free pages)",
            a.free_page_lists.and_then(count),
            b.free_page_lists.and_then(count),
        ),
        (
            "handling of free pages by the machine's host",
            a.free_page_reporting.map(host_takes),
            b.free_page_reporting.map(host_takes),
        ),
    ];
    pairs
        .into_iter()
        .filter_map(|(what, a, b)| Some((what, a?, b?)))
        .filter(|(_, a, b)| a != b)
        .map(|(what, a, b)| format!("different {what}: {a} and {b}; times say little across that"))
        .collect()
}

fn host_takes(is_reported: bool) -> String {
    if is_reported {
        "takes them back".to_owned()
    } else {
        "leaves them".to_owned()
    }
}

/// Returns the differences in programs and flags of each target that both runs have.
pub(super) fn of_servers(base: &SavedResult, new: &SavedResult) -> Vec<String> {
    let (a, b) = (&base.report.environment, &new.report.environment);
    let targets: BTreeSet<_> = a.servers.iter().map(|server| &server.target).collect();
    let mut warnings = Vec::new();
    for target in targets {
        let (a, b) = (setups(a, target), setups(b, target));
        if b.is_empty() {
            continue;
        }
        let programs = |servers: &[&ServerSetup]| -> BTreeSet<String> {
            servers.iter().map(|s| s.program.clone()).collect()
        };
        let (old, new) = (programs(&a), programs(&b));
        if old != new {
            warnings.push(format!(
                "different program of {target}: {} and {}",
                listed(&old),
                listed(&new)
            ));
        }
        let (old, new) = (flags(&a), flags(&b));
        // The flags of an existing server are not known.
        if old != new && !old.is_empty() && !new.is_empty() {
            let only = |a: &BTreeSet<String>, b| listed(&a.difference(b).cloned().collect());
            warnings.push(format!(
                "different flags of {target}: only in the first {}; only in the second {}",
                only(&old, &new),
                only(&new, &old)
            ));
        }
    }
    warnings
}

fn setups<'a>(environment: &'a Environment, target: &str) -> Vec<&'a ServerSetup> {
    let servers = environment.servers.iter();
    servers.filter(|server| server.target == target).collect()
}

/// Returns every flag with its value, without those that differ at each start. A target may have
/// been started in several ways.
fn flags(servers: &[&ServerSetup]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for server in servers {
        let mut flags: Vec<String> = Vec::new();
        for word in server.lasting_flags() {
            match flags.last_mut() {
                Some(flag) if !word.starts_with(['-', '+']) => {
                    flag.push(' ');
                    flag.push_str(&word);
                }
                _ => flags.push(word),
            }
        }
        found.extend(flags);
    }
    found
}

fn listed(words: &BTreeSet<String>) -> String {
    let shown: Vec<_> = words.iter().take(NAMED).map(String::as_str).collect();
    match words.len() {
        0 => "none".to_owned(),
        all if all > NAMED => format!("{} and {} more", shown.join(", "), all - NAMED),
        _ => shown.join(", "),
    }
}
