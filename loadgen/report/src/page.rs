//! `report.html` and `README.md`: the result as a page of its own and as a folder's front.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use crate::case_text::{Row, TITLES};
use crate::history::History;
use crate::load_table::{self, LoadRow};
use crate::quantity::Quantity;
use crate::result::{Case, DataSet, Outcome, Report, ServerSetup};
use crate::threshold_table::BarTable;

const PAGE: (&str, &str) = ("report.html", include_str!("../assets/report.html"));
const README: (&str, &str) = ("README.md", include_str!("../assets/result-readme.md"));

/// What a folder's README shows of its charts: so many, of this size at most, the first of these
/// that there are. The page has all. Results in git keep no others, and stay small.
const README_CHARTS: usize = 3;
const README_CHART_BYTES: usize = 40_000;
const README_ORDER: [&str; 9] = [
    "shards",
    "latency",
    "open-loop",
    "peak",
    "memory",
    "cpu",
    "first-chunk",
    "shard-watches",
    "bars",
];

/// A chart as the page holds it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Picture {
    pub(super) name: String,
    pub(super) caption: String,
    pub(super) svg: String,
    pub(super) data_set: String,
}

/// The page: one file, with the charts in it, that needs nothing else.
pub(super) fn html(
    report: &Report,
    pictures: &[Picture],
    history: &History,
) -> Result<String, minijinja::Error> {
    render(PAGE, report, pictures, history)
}

/// The front of the folder, in Markdown.
pub(super) fn readme(
    report: &Report,
    pictures: &[Picture],
    history: &History,
) -> Result<String, minijinja::Error> {
    render(README, report, &readme_pictures(pictures), history)
}

/// The charts that the README shows, in the order of the page.
fn readme_pictures(pictures: &[Picture]) -> Vec<Picture> {
    let rank = |picture: &Picture| {
        README_ORDER
            .iter()
            .position(|kind| picture.name.starts_with(kind))
    };
    let mut shown: Vec<usize> = (0..pictures.len())
        .filter(|&at| pictures[at].svg.len() <= README_CHART_BYTES)
        .collect();
    shown.sort_by_key(|&at| rank(&pictures[at]).unwrap_or(README_ORDER.len()));
    shown.truncate(README_CHARTS);
    shown.sort_unstable();
    shown.into_iter().map(|at| pictures[at].clone()).collect()
}

fn render(
    (name, source): (&'static str, &'static str),
    report: &Report,
    pictures: &[Picture],
    history: &History,
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
        .render(Serde(Page::of(report, pictures, history)))
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
    /// Loads that ran together.
    load_titles: [&'static str; load_table::TITLES.len()],
    loads: Vec<LoadRow>,
    /// Below the table.
    lines: Vec<String>,
    refused: Vec<(String, &'a str)>,
    verified: Vec<[String; 6]>,
    counters: Vec<(String, String)>,
    pictures: Vec<&'a Picture>,
}

impl<'a> Page<'a> {
    fn of(report: &'a Report, pictures: &'a [Picture], history: &History) -> Self {
        let mut bars = BarTable::of(report);
        history.add_to(&mut bars, report);
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
            bars,
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
            load_titles: load_table::TITLES,
            loads: load_table::rows(cases()),
            lines: [crate::machine::line(cases()), super::warm_up::line(cases())]
                .into_iter()
                .flatten()
                .collect(),
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

fn short_name(case: &Case) -> String {
    format!(
        "{} {} {}",
        case.target,
        case.tier,
        crate::case_text::strategy(case)
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
    use super::{Picture, quoted, readme_pictures};

    #[test]
    fn the_readme_shows_three_charts_that_are_small() {
        let picture = |(name, bytes): (&str, usize)| Picture {
            name: name.to_owned(),
            caption: String::new(),
            svg: "x".repeat(bytes),
            data_set: "pods".to_owned(),
        };
        let all = [
            ("latency", 50_000),
            ("bars", 9),
            ("peak-a", 9),
            ("memory-a", 40_001),
            ("cpu", 9),
            ("shards", 40_000),
        ]
        .map(picture);
        let shown = readme_pictures(&all);
        let names: Vec<&str> = shown.iter().map(|picture| &*picture.name).collect();
        assert_eq!(names, ["peak-a", "cpu", "shards"]);
    }

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
