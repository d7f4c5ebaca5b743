//! What a reader should know before the numbers: how the two runs' machines, builds and servers differ.

use std::collections::BTreeSet;

use workloads::Scenario;

use crate::quantity::Quantity;
use crate::result::{Environment, SavedResult, ServerSetup};

/// Kernels of one machine tell slightly different sizes of its memory.
const MEMORY_DIFFERS: f64 = 0.01;
/// Flags that a message lists.
const NAMED: usize = 6;

/// One line for each difference. What one of the results does not tell is no difference.
pub(super) fn warnings(base: &SavedResult, new: &SavedResult) -> Vec<String> {
    let (old, fresh) = (&base.report.environment, &new.report.environment);
    let mut warnings = of_machines(old, fresh);
    warnings.extend(of_warm_up(base, new));
    warnings.extend(of_servers(old, fresh));
    for (which, report) in [("first", &base.report), ("second", &new.report)] {
        if report.interrupted {
            warnings.push(format!("the {which} run was interrupted"));
        }
    }
    warnings
}

/// The first lists of a server are slower than the rest, and more of them are none of the figures where it warms up longer.
fn of_warm_up(base: &SavedResult, new: &SavedResult) -> Option<String> {
    // Without a scenario that can be read it is not told.
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
    let memory = |bytes: u64| Some(Quantity::bytes(bytes).to_string());
    let is_memory_same = {
        let (a, b) = (a.memory_bytes as f64, b.memory_bytes as f64);
        (a - b).abs() <= MEMORY_DIFFERS * a.max(b)
    };
    let pairs = [
        ("host", text(&a.host), text(&b.host)),
        ("CPU", text(&a.cpu_model), text(&b.cpu_model)),
        ("number of cores", count(a.cores), count(b.cores)),
        (
            "memory",
            memory(a.memory_bytes),
            memory(b.memory_bytes).filter(|_| !is_memory_same),
        ),
        ("kernel", text(&a.kernel), text(&b.kernel)),
        (
            "TCP congestion control",
            a.congestion_control.clone(),
            b.congestion_control.clone(),
        ),
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
        ("build", text(&a.profile), text(&b.profile)),
        (
            "decoding",
            text(&a.client.decode_mode),
            text(&b.client.decode_mode),
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

/// Programs and flags of each target that both runs have.
fn of_servers(a: &Environment, b: &Environment) -> Vec<String> {
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
        // Of a server that was there before nobody knows its flags.
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

/// Every flag with its value, without what is another at each start. A target may have been started in several ways.
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
