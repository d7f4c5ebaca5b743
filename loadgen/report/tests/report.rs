//! Tests drawing a synthetic result: charts, page, README and table.

#[path = "support/synthetic.rs"]
mod synthetic;

use std::path::PathBuf;

use report::result::{SavedResult, ServerStart};
use report::{charts, draw, terminal};

/// Returns the folder for pictures: the one that `LOADGEN_TEST_PICTURES` names, for inspection,
/// otherwise a temporary folder.
fn pictures() -> (PathBuf, Option<tempfile::TempDir>) {
    match std::env::var_os("LOADGEN_TEST_PICTURES") {
        Some(folder) => (folder.into(), None),
        None => {
            let folder = tempfile::tempdir().expect("a temporary folder");
            (folder.path().to_owned(), Some(folder))
        }
    }
}

#[test]
fn every_chart_is_drawn_both_ways() {
    let (folder, _guard) = pictures();
    let charts = charts::charts(&synthetic::result(1.0));
    let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(
        names,
        ["latency", "bars", "first-chunk", "peak", "memory", "cpu"]
    );
    for chart in charts {
        let svg = chart
            .write(&folder)
            .expect("plotters draws what it is given");
        assert!(svg.starts_with("<svg"), "{}", chart.name);
        let of_rows: &[&str] = match chart.name.as_str() {
            "bars" => &["at most 600: not met", "≤ 600 ms", "latency_ms.p50"],
            _ => &["unary-incremental", "N/A", "FAILED", "INVALID"],
        };
        for part in of_rows.iter().chain(&["pods-150k: 150,000 objects"]) {
            assert!(svg.contains(part), "{} does not say `{part}`", chart.name);
        }
        let png = std::fs::read(folder.join(format!("{}.png", chart.name))).expect("the picture");
        assert!(png.starts_with(b"\x89PNG"), "{}", chart.name);
    }
}

#[test]
fn several_starts_of_a_server_are_shown_as_a_range() {
    let (folder, _guard) = pictures();
    let kinds_with_ranges = |result: &SavedResult| {
        let charts = charts::charts(result).into_iter().filter(|chart| {
            let svg = chart
                .write(&folder)
                .expect("plotters draws what it is given");
            svg.contains("lowest to highest of the server's starts")
                || svg.contains("lowest to highest of the server&apos;s starts")
        });
        charts.map(|chart| chart.name).collect::<Vec<_>>()
    };
    let mut result = synthetic::result(1.0);
    assert!(
        kinds_with_ranges(&result).is_empty(),
        "there is one start of each"
    );
    for case in &mut result.report.cases {
        case.starts = vec![ServerStart::of(case); 3];
    }
    let charts = kinds_with_ranges(&result);
    assert_eq!(charts, ["latency", "first-chunk", "peak", "cpu"]);
}

#[test]
fn strategies_are_compared_within_each_network() {
    let (folder, _guard) = pictures();
    let mut result = synthetic::result(1.0);
    let over_a_line = result.report.cases.clone().into_iter().map(|mut case| {
        case.network = Some("rtt-50ms-at-100Mbit".into());
        case
    });
    let over_a_line: Vec<_> = over_a_line.collect();
    result.report.cases.extend(over_a_line);
    let all = charts::charts(&result);
    let chart = all.iter().find(|chart| chart.name == "networks");
    let svg = chart
        .expect("a chart of networks")
        .write(&folder)
        .expect("plotters draws what it is given");
    // 610 ms over 1.9 s, on both networks.
    assert_eq!(svg.matches("0.321 ×").count(), 2, "unary-incremental");
    for part in ["loopback", "rtt-50ms-at-100Mbit", "over 1.90 s, unary"] {
        assert!(svg.contains(part), "{part}");
    }
    // Cases that do not count have no ratio, but the reason.
    assert!(svg.contains("INVALID") && svg.contains("FAILED"));
    let ratios = svg.lines().filter(|line| line.trim_end().ends_with(" ×"));
    assert_eq!(
        ratios.count(),
        2 * 7,
        "of 13 cases 3 are the first, and 3 do not count"
    );
    let on_loopback = charts::charts(&synthetic::result(1.0));
    assert!(on_loopback.iter().all(|chart| chart.name != "networks"));
}

#[test]
fn each_data_set_has_charts_of_its_own() {
    let mut result = synthetic::result(1.0);
    let mut other = result.report.data_sets[0].clone();
    other.name = "500k × 100 B".into();
    result.report.data_sets.push(other);
    let mut case = result.report.cases[0].clone();
    case.data_set = "500k × 100 B".into();
    result.report.cases.push(case);
    let charts = charts::charts(&result);
    let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
    let (first, second) = names.split_at(6);
    assert!(
        first.iter().all(|name| name.ends_with("-pods-150k")),
        "{names:?}"
    );
    // Neither a first chunk nor series were recorded for this data set, so it has no such charts.
    assert_eq!(
        second,
        [
            "latency-500k___100_B",
            "peak-500k___100_B",
            "cpu-500k___100_B"
        ]
    );
}

#[test]
fn the_page_holds_everything_and_needs_nothing() {
    let (folder, _guard) = pictures();
    let failures = draw::draw(&synthetic::result(1.0), &folder);
    assert_eq!(failures, Vec::<String>::new());
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page");
    assert!(page.len() < 150_000, "{} bytes", page.len());
    for of in [
        "ratio-time",
        "latency",
        "peak",
        "cpu",
        "first-chunk",
        "bars",
    ] {
        let grid = format!(r#"<g id="{of}-grid">"#);
        assert!(
            page.contains(&grid),
            "the chart `{of}` is in the page itself"
        );
    }
    assert!(page.contains("Private memory of the server over time: stream"));
    for reference in ["<link", "<img", "src=", "@import", "url("] {
        assert!(
            !page.contains(reference),
            "the page needs nothing else, but has `{reference}`"
        );
    }
    assert!(
        page.contains("a made-up CPU &lt;of no &amp; kind&gt;"),
        "what others wrote is escaped"
    );
    assert!(
        page.contains("<code>loadgen run 'a b'</code>"),
        "the exact command"
    );
    assert!(page.contains("the generator lost its CPU for 1.2 s") && page.contains("as seeded"));
    assert!(page.contains("The longest time without an object in each list"));
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("the README");
    assert!(
        readme.contains("\n```\nloadgen run 'a b'\n```\n"),
        "{readme}"
    );
    assert!(
        readme.contains("![") && readme.contains("](latency.svg)"),
        "{readme}"
    );
    assert!(
        readme.contains("etcd took longer than bench in all 3 cases that both measured, 3.64 × (`stream`: 2.33 s against 640 ms)"),
        "the answer: {readme}"
    );
    let (thresholds, cases) = readme
        .split_once("## pods-150k")
        .expect("a section of each");
    assert!(
        thresholds.contains("| 640 ms (576 ms … 768 ms; 95 %: 627 ms … 672 ms) = 1.05 × | ≤ 1.20 × etcd/unary-incremental (610 ms) | yes | – |")
            && thresholds.contains("| 640 ms (576 ms … 768 ms; 95 %: 627 ms … 672 ms) | ≤ 600 ms | NO | 1.25 s (1.95 ×) |"),
        "{thresholds}"
    );
    let table: Vec<&str> = cases.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(
        table.len(),
        2 + 13,
        "a title, a rule and a line per case: {readme}"
    );
    for (name, text) in [("page", &page), ("README", &readme)] {
        let lines = text.matches("The machine: other processes had").count();
        assert_eq!(lines, 1, "one line in the {name}, whatever its cases");
    }
    let columns = table[0].matches('|').count();
    assert!(
        table
            .iter()
            .all(|line| line.matches('|').count() == columns),
        "{readme}"
    );
}

#[test]
fn each_threshold_says_in_how_many_of_the_last_runs_it_held() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = parent.path().join("result");
    std::fs::create_dir(&folder).expect("a fresh name");
    let result = synthetic::result(1.0);
    let drawn = || {
        let failures = draw::draw(&result, &folder);
        let readme = std::fs::read_to_string(folder.join("README.md")).expect("the README");
        (failures, readme)
    };
    let (failures, readme) = drawn();
    assert_eq!(failures, Vec::<String>::new());
    assert!(!readme.contains("| held |"), "nothing was kept: {readme}");

    let threshold = |at_most| format!("bench,pods-150k etcd/stream,at most 600,<= {at_most},640.0");
    let scenario = &result.report.scenario;
    let line = |date: &str, at_most, met: &str| {
        format!(
            "2026-01-{date},abc,{scenario},{},{met}\n",
            threshold(at_most)
        )
    };
    let mut history = "date,commit,scenario,target,case,threshold,limit,value,met\n".to_owned();
    for (date, met) in [
        ("01T01:00:00Z", "no"),
        ("01T02:00:00Z", "yes"),
        ("01T03:00:00Z", "undecided"),
        ("01T04:00:00Z", "yes"),
        ("01T05:00:00Z", "yes"),
        ("02T03:04:05Z", "no"),
        // This run is later than the result.
        ("09T00:00:00Z", "yes"),
    ] {
        history.push_str(&line(date, 600.0, met));
    }
    // A line with another limit does not count.
    history.push_str(&line("01T06:00:00Z", 700.0, "yes"));
    let file = parent.path().join("thresholds.csv");
    std::fs::write(&file, &history).expect("a writable folder");
    let (failures, readme) = drawn();
    assert_eq!(failures, Vec::<String>::new());
    assert!(
        readme.contains("| NO | 1.25 s (1.95 ×) | in 3 of the last 5 runs |"),
        "{readme}"
    );
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page");
    assert!(readme.contains("| held |") && page.contains("in 3 of the last 5 runs"));

    std::fs::write(&file, "date,commit\n1,2\n").expect("a writable folder");
    let (failures, _) = drawn();
    assert!(failures[0].contains("thresholds"), "{failures:?}");
}

#[test]
fn a_result_without_a_measured_case_still_says_why() {
    let mut result = synthetic::result(1.0);
    result.report.cases.retain(|case| case.latency_ms.is_none());
    result.report.thresholds.clear();
    result.report.interrupted = true;
    assert!(charts::charts(&result).is_empty(), "no empty axes");
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(draw::draw(&result, folder.path()), Vec::<String>::new());
    let page = std::fs::read_to_string(folder.path().join("report.html")).expect("the page");
    assert!(
        page.contains("150,000 objects expected, 149,999 received") && page.contains("interrupted"),
        "{page}"
    );
}

#[test]
fn the_table_says_what_must_not_be_compared() {
    let report = synthetic::result(1.0).report;
    let text = terminal::text(&report, None);
    for part in [
        "pods-150k: 150,000 objects, 1.41 GiB",
        "2.33 s",
        "3.73 s · 694 MiB",
        "Warm-up: 4 lists a case,",
        "stream [1]",
        "[1] client-limited: 505 ms without checking",
        "INVALID: the generator lost its CPU for 1.2 s",
        "N/A: etcd 3.7.1 has one encoding",
        "FAILED: 150,000 objects expected, 149,999 received",
        "\nThe machine: other processes had 1.0 % of its CPU (median of 11 cases; at worst 1.0 %; more than 5.0 % in 0)",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    let narrow = terminal::text(&report, Some(100));
    let widest = narrow
        .lines()
        .filter(|line| {
            !["[", "The machine:", "Warm-up:"]
                .iter()
                .any(|of| line.starts_with(of))
        })
        .map(|line| line.chars().count())
        .max();
    assert!(widest <= Some(100), "{widest:?}\n{narrow}");
    let has_room_for = |width, title| terminal::text(&report, Some(width)).contains(title);
    assert!(!has_room_for(100, "sockets") && has_room_for(200, "sockets"));
}
