//! `report.html` and `README.md`: the result as a page of its own and as a folder's front.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use super::bars::BarTable;
use super::quantity::Quantity;
use super::row::{Row, TITLES};
use crate::result::{Case, DataSet, Outcome, Report, ServerSetup};

const PAGE: (&str, &str) = ("report.html", include_str!("../../assets/report.html"));
const README: (&str, &str) = ("README.md", include_str!("../../assets/result-readme.md"));

/// A chart as the page holds it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Picture {
    pub(super) name: String,
    pub(super) caption: String,
    pub(super) svg: String,
    pub(super) data_set: String,
}

/// The page: one file, with the charts in it, that needs nothing else.
pub(super) fn html(report: &Report, pictures: &[Picture]) -> Result<String, minijinja::Error> {
    render(PAGE, report, pictures)
}

/// The front of the folder, in Markdown.
pub(super) fn readme(report: &Report, pictures: &[Picture]) -> Result<String, minijinja::Error> {
    render(README, report, pictures)
}

fn render(
    (name, source): (&'static str, &'static str),
    report: &Report,
    pictures: &[Picture],
) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|name| {
        if name.ends_with(".html") {
            AutoEscape::Html
        } else {
            AutoEscape::None
        }
    });
    environment.add_filter("cell", |text: String| {
        text.replace('|', "\\|").replace('\n', " ")
    });
    environment.add_template(name, source)?;
    environment
        .get_template(name)?
        .render(Serde(Page::of(report, pictures)))
}

/// What the templates are filled with: words, not numbers.
#[derive(Serialize)]
struct Page<'a> {
    report: &'a Report,
    command: String,
    elapsed: String,
    /// What all targets of the run shared.
    shared: Option<String>,
    titles: [&'static str; TITLES.len()],
    data_sets: Vec<Section<'a>>,
    bars: BarTable,
    facts: Vec<(&'static str, String)>,
    servers: Vec<(String, Vec<(&'static str, String)>)>,
}

/// One data set's part.
#[derive(Serialize)]
struct Section<'a> {
    name: &'a str,
    about: String,
    rows: Vec<Row>,
    refused: Vec<(String, &'a str)>,
    verified: Vec<[String; 6]>,
    counters: Vec<(String, String)>,
    pictures: Vec<&'a Picture>,
}

impl<'a> Page<'a> {
    fn of(report: &'a Report, pictures: &'a [Picture]) -> Self {
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
            ];
            // One target may have been set up differently for some of its rows.
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
        Self {
            command: report
                .environment
                .command
                .iter()
                .map(|argument| quoted(argument))
                .collect::<Vec<_>>()
                .join(" "),
            elapsed: Quantity::seconds(report.elapsed_s).to_string(),
            shared: report.environment.shared_line(),
            titles: TITLES,
            data_sets: report
                .data_sets
                .iter()
                .map(|data_set| Section::of(report, data_set, pictures))
                .collect(),
            bars: BarTable::of(report),
            facts: facts(report),
            servers: servers.collect(),
            report,
        }
    }
}

impl<'a> Section<'a> {
    fn of(report: &'a Report, data_set: &'a DataSet, pictures: &'a [Picture]) -> Self {
        let cases = || {
            report
                .cases
                .iter()
                .filter(|case| case.data_set == data_set.name)
        };
        let seed = data_set
            .seed
            .map_or_else(String::new, |seed| format!(", seed {seed}"));
        let fingerprint = data_set
            .fingerprint
            .as_ref()
            .map_or_else(String::new, |of| format!(", fingerprint {of}"));
        let counters = cases().flat_map(|case| {
            let counters = case.server.iter().flat_map(|server| &server.counters);
            counters.map(move |(name, count)| {
                (
                    format!("{}: {name}", short_name(case)),
                    Quantity::Count(*count).to_string(),
                )
            })
        });
        Self {
            name: &data_set.name,
            about: format!(
                "{} objects, {} of keys and values{seed}{fingerprint}",
                Quantity::Count(data_set.objects),
                Quantity::bytes(data_set.bytes)
            ),
            rows: cases().map(Row::of).collect(),
            refused: cases()
                .filter(|case| !case.counts())
                .map(|case| (short_name(case), refusal(case)))
                .collect(),
            verified: cases()
                .filter_map(|case| verified(case, data_set))
                .collect(),
            counters: counters.collect(),
            pictures: pictures
                .iter()
                .filter(|picture| picture.data_set == data_set.name)
                .collect(),
        }
    }
}

const UNKNOWN: &str = "not known";

fn or_unknown(fact: Option<&String>) -> String {
    fact.filter(|fact| !fact.is_empty())
        .cloned()
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

/// What the cores keep of free memory (`vm.percpu_pagelist_high_fraction`), and whether a host takes the rest.
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

/// How far the cores usually are from each other.
fn distance(core_round_trip_ns: Option<f64>) -> String {
    match core_round_trip_ns {
        Some(ns) => format!(", {ns:.0} ns from one to another and back"),
        None => ", how far from each other is not told".to_owned(),
    }
}

fn short_name(case: &Case) -> String {
    format!(
        "{} {} {}",
        case.target,
        case.tier,
        super::row::strategy(case)
    )
}

fn refusal(case: &Case) -> &str {
    match &case.outcome {
        Outcome::Measured if case.errors > 0 => "some lists failed or were wrong",
        Outcome::Measured => "not valid",
        other => other.reason().unwrap_or("not valid"),
    }
}

fn verified(case: &Case, data_set: &DataSet) -> Option<[String; 6]> {
    let verified = case.verified.as_ref()?;
    let verdict = match &data_set.fingerprint {
        Some(expected) if *expected == verified.fingerprint => "as seeded",
        // A list that is not what it should be fails its row.
        Some(_) if case.counts() => "the part that was asked for, as seeded",
        Some(_) => "NOT as seeded",
        None => "nothing to hold it against",
    };
    // Beside small requests one list is made, to see that all is there.
    let lists = case.requests_per_s.map_or(case.requests, |_| 1);
    Some([
        short_name(case),
        Quantity::Count(lists).to_string(),
        Quantity::Count(verified.objects).to_string(),
        Quantity::bytes(verified.bytes).to_string(),
        verified.fingerprint.clone(),
        verdict.to_owned(),
    ])
}

fn facts(report: &Report) -> Vec<(&'static str, String)> {
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
                "{}, {} cores used{}",
                environment.cpu_model,
                environment.cores,
                distance(environment.core_round_trip_ns)
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
    facts
}

/// An argument as a shell would take it.
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
