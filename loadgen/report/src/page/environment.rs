//! The environment of a run, as text.

use crate::generator_lines;
use crate::quantity::Quantity;
use crate::result::{Report, ServerSetup};

/// Facts about one thing, each with a name and a value.
pub(super) type Facts = Vec<(&'static str, String)>;

const UNKNOWN: &str = "not known";

fn or_unknown(fact: Option<&String>) -> String {
    fact.filter(|fact| !fact.is_empty())
        .cloned()
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Returns how much free memory the cores keep (`vm.percpu_pagelist_high_fraction`), and whether
/// the host takes free pages back.
fn free_pages(part: Option<u32>, is_reported: Option<bool>) -> String {
    let lists = match part {
        None => format!("free pages of the cores {UNKNOWN}"),
        Some(0) => "free pages of the cores by their load".to_owned(),
        Some(part) => format!("free pages of the cores 1/{part} of the memory"),
    };
    match is_reported {
        Some(true) => format!("{lists}; the machine's host takes free pages back"),
        _ => lists,
    }
}

/// Returns each target's name and its setup.
pub(super) fn servers(report: &Report) -> Vec<(String, Facts)> {
    let setups = &report.environment.servers;
    let servers = setups.iter().enumerate().map(|(at, server)| {
        let facts = vec![
            ("program", or_unknown(Some(&server.program))),
            ("flags", or_unknown(Some(&server.flags.join(" ")))),
            ("allocator", or_unknown(server.allocator.as_ref())),
            (
                "fsync",
                server.fsync.map_or_else(
                    || "not known, or no disk".to_owned(),
                    |fsync| if fsync { "on" } else { "off" }.to_owned(),
                ),
            ),
            (
                "quota",
                server.quota_bytes.map_or_else(
                    || UNKNOWN.to_owned(),
                    |bytes| Quantity::bytes(bytes).to_string(),
                ),
            ),
            (
                "restarted",
                if server.restarted_after_seeding {
                    "between seeding and idle, since it keeps its data on disk"
                } else {
                    "no"
                }
                .to_owned(),
            ),
        ];
        // A target may have different setups for some of its cases.
        let same_target = |other: &&ServerSetup| other.target == server.target;
        let name = match setups.iter().filter(same_target).count() {
            1 => server.target.clone(),
            count => {
                let nth = setups[..=at].iter().filter(same_target).count();
                format!("{}, setup {nth} of {count}", server.target)
            }
        };
        (name, facts)
    });
    servers.collect()
}

/// Returns the facts about machine, system and generator.
pub(super) fn facts(report: &Report) -> Facts {
    let environment = &report.environment;
    let client = &environment.client;
    let mut facts = vec![
        (
            "machine",
            format!("{}, {}", environment.host, environment.machine),
        ),
        (
            "CPU",
            format!(
                "{}, {} cores used",
                environment.cpu_model, environment.cores
            ),
        ),
        (
            "memory",
            Quantity::bytes(environment.memory_bytes).to_string(),
        ),
        (
            "system",
            format!(
                "{}, kernel {}, TCP congestion control {}, {}",
                environment.os,
                environment.kernel,
                or_unknown(environment.congestion_control.as_ref()),
                free_pages(environment.free_page_lists, environment.free_page_reporting)
            ),
        ),
        (
            "loadgen",
            format!(
                "{} ({} build, commit {})",
                environment.version,
                environment.profile,
                or_unknown(environment.commit.as_ref())
            ),
        ),
        (
            "client windows",
            format!(
                "stream {}, connection {}, frame {}",
                Quantity::bytes(client.stream_window_bytes.into()),
                Quantity::bytes(client.connection_window_bytes.into()),
                Quantity::bytes(client.max_frame_bytes.into())
            ),
        ),
        ("client decodes", or_unknown(Some(&client.decode_mode))),
        ("client allocator", or_unknown(Some(&client.allocator))),
    ];
    if let Some(disk) = &environment.disk {
        let free = Quantity::bytes(disk.free_bytes);
        facts.push((
            "server's disk",
            format!(
                "{} on {} at {}, {free} free",
                disk.file_system, disk.device, disk.path
            ),
        ));
    }
    let generators = generator_lines::lines(report).into_iter();
    facts.extend(generators.map(|line| ("generators", line)));
    facts
}

/// Returns the command of the run, quoted for a shell.
pub(super) fn command(report: &Report) -> String {
    let arguments = report.environment.command.iter();
    let arguments: Vec<String> = arguments.map(|argument| quoted(argument)).collect();
    arguments.join(" ")
}

/// Returns an argument, quoted for a shell if necessary.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let shown = [
            "--target",
            "http://127.0.0.1:2379,http://b:1",
            "a b",
            "it's",
            "",
        ]
        .map(quoted);
        assert_eq!(
            shown,
            [
                "--target",
                "http://127.0.0.1:2379,http://b:1",
                "'a b'",
                r"'it'\''s'",
                "''"
            ]
        );
    }
}
