//! Tests `report.html` in a browser: it fits its window, is legible in light and dark, can be
//! sorted by keyboard, is complete without its script, and requests nothing.

#[path = "page/browser.rs"]
mod browser;
#[path = "support/synthetic.rs"]
mod synthetic;

use std::path::{Path, PathBuf};

use report::draw;
use report::result::{
    Case, CpuProfile, HotFunction, Load, Outcome, Profiler, Round, SavedResult, ServerMetrics,
};
use serde_json::Value;
use test_support::program_or_skip;
use workloads::strategy::Tier;

use browser::{Browser, Opened, Scheme, Window};

/// The widths of a desktop window and of a phone's.
const WIDTHS: [u32; 2] = [1280, 375];
const SCHEMES: [Scheme; 2] = [Scheme::Light, Scheme::Dark];

/// The script that returns the page's content and its defects.
const CHECKS: &str = include_str!("page/checks.js");

fn chromium() -> Option<PathBuf> {
    program_or_skip("CHROMIUM_BIN", "chromium")
}

/// Draws a synthetic result in `folder` and returns its page.
fn page(folder: &Path) -> String {
    let failures = draw::draw(&synthetic::result(1.0), folder);
    assert_eq!(failures, Vec::<String>::new());
    std::fs::read_to_string(folder.join("report.html")).expect("the page")
}

/// Returns every window that a page must fit.
fn windows() -> impl Iterator<Item = Window> {
    let of = |width| SCHEMES.map(|scheme| Window { width, scheme });
    WIDTHS.into_iter().flat_map(of)
}

/// Returns all defects of an opened page, as text.
fn faults(window: Window, opened: &Opened) -> Vec<String> {
    let Opened {
        complaints,
        requests,
        value,
    } = opened;
    let width = window.width;
    let mut faults = Vec::new();
    if value["width"] != width {
        faults.push(format!(
            "a window of {} px instead of {width}",
            value["width"]
        ));
    }
    if value["needed"].as_u64() > Some(width.into()) {
        faults.push(format!("needs {} px: {}", value["needed"], value["wide"]));
    }
    for (kind, fault) in [
        ("pale", "pale text"),
        ("small", "small text"),
        ("unnamed", "no name"),
        ("dangling", "no such mark"),
        ("twice", "an id twice"),
    ] {
        let found = value[kind].as_array().into_iter().flatten();
        faults.extend(found.map(|it| format!("{fault}: {it}")));
    }
    faults.extend(complaints.iter().map(|text| format!("console: {text}")));
    faults.extend(requests.iter().map(|url| format!("asks for {url}")));
    faults
}

#[test]
fn the_page_fits_its_window_and_asks_for_nothing() {
    let Some(program) = chromium() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    page(folder.path());
    let mut browser = Browser::start(&program, folder.path());
    for window in windows() {
        let opened = browser.open(&folder.path().join("report.html"), window, CHECKS);
        assert_eq!(faults(window, &opened), Vec::<String>::new(), "{window:?}");
        let headings = [
            "Results",
            "Ratios",
            "Time",
            "Memory",
            "CPU",
            "First chunk against the whole list",
            "Memory and CPU over time",
            "Thresholds",
            "Cases that do not count",
            "Notes",
            "Every figure",
            "How each number was made",
            "Environment",
            "Run it again",
        ];
        assert_eq!(opened.value["headings"], Value::from(headings.to_vec()));
        assert!(opened.value["charts"].as_u64() > Some(40), "{window:?}");
        assert!(opened.value["buttons"].as_u64() > Some(5), "{window:?}");
        let paper = opened.value["paper"].as_str().expect("a colour");
        let is_light = paper == "rgb(255, 255, 255)";
        assert_eq!(
            is_light,
            window.scheme == Scheme::Light,
            "{window:?}: {paper}"
        );
        browser.picture(window);
    }
}

/// Adds a case of several loads whose servers were profiled, on both targets.
fn profiled(result: &mut SavedResult) {
    for (target, cpu_s) in [("bench", 4.3), ("etcd", 12.6)] {
        let outcome = Outcome::Measured;
        let data_set = &result.report.data_sets[0].name;
        let mut case = Case::new(data_set, target, Tier::Etcd, "gets+lists", outcome);
        case.row = "one-lister".to_owned();
        case.valid = true;
        case.loads = ["gets", "lists"]
            .map(|name| Load {
                name: name.to_owned(),
                operation: name.to_owned(),
                arrivals: "closed".to_owned(),
                clients: 8,
                measured: true,
                requests: 1_000,
                achieved_per_s: Some(100.0),
                ..Load::default()
            })
            .to_vec();
        case.rounds = vec![Round {
            ms: 10_000.0,
            server_cpu_ms: None,
        }];
        case.server = Some(ServerMetrics {
            cpu_s: Some(cpu_s),
            ..ServerMetrics::default()
        });
        let function = "go.etcd.io/etcd/server/v3/storage/mvcc.(*storeTxnCommon).rangeKeys[go.shape.struct { Key []uint8 }]";
        let hot = |part| HotFunction {
            function: function.to_owned(),
            part,
        };
        case.profiles = vec![CpuProfile {
            process: "etcd".to_owned(),
            profiler: Some(Profiler::Pprof),
            sampled_s: 10.0,
            samples: 1_260,
            hottest: vec![hot(0.4), hot(0.004)],
            file: Some(format!("profiles/{target}.pb.gz")),
            missing: None,
        }];
        result.report.cases.push(case);
    }
    let last = result.report.cases.last_mut().expect("a case");
    last.profiles.push(CpuProfile {
        process: "kube".to_owned(),
        missing: Some("`perf` cannot be run: No such file or directory".to_owned()),
        ..CpuProfile::default()
    });
}

/// A script that returns the last but one and the last cell of the first table's last line, and the
/// links to flame graphs.
const LOADS_AND_PROFILES: &str = r#"(() => {
    const table = document.querySelector("table.sortable");
    const line = table.querySelector("tbody tr:last-child");
    const links = [...document.querySelectorAll("a[href^='profiles/']")];
    return {
        titles: [...table.querySelectorAll("thead b")].map(title => title.textContent),
        cells: [...line.querySelectorAll("td b")].map(cell => cell.textContent),
        links: links.map(link => link.getAttribute("href")),
    };
})()"#;

#[test]
fn loads_have_their_cores_and_profiles_their_links() {
    let Some(program) = chromium() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut result = synthetic::result(1.0);
    profiled(&mut result);
    let failures = draw::draw(&result, folder.path());
    assert_eq!(failures, Vec::<String>::new());
    let mut browser = Browser::start(&program, folder.path());
    let file = folder.path().join("report.html");
    for window in windows() {
        let opened = browser.open(&file, window, CHECKS);
        assert_eq!(faults(window, &opened), Vec::<String>::new(), "{window:?}");
        let headings = opened.value["headings"].as_array().expect("headings");
        assert!(headings.contains(&"Where the time went".into()));
        let found = browser.evaluate(LOADS_AND_PROFILES);
        let (titles, cells) = (found["titles"].as_array(), found["cells"].as_array());
        let (titles, cells) = titles.zip(cells).expect("a table");
        assert_eq!(titles.last(), Some(&"Server CPU".into()));
        let cores: [Value; 2] = ["0.43 cores".into(), "1.26 cores".into()];
        assert!(cells.ends_with(&cores), "{cells:?}");
        let links = ["profiles/bench.svg", "profiles/etcd.svg"];
        assert_eq!(found["links"], Value::from(links.to_vec()));
        browser.picture(window);
    }
}

/// A script that returns whether the button is focused, and how the first table is sorted by its
/// third column.
const SORTED: &str = r#"(() => {
    const table = document.querySelector("table.sortable");
    const head = table.querySelector("th[data-column='2']");
    return {
        focused: document.activeElement === head.querySelector("button"),
        sort: head.getAttribute("aria-sort"),
        sorted: table.querySelectorAll("[aria-sort]").length,
        first: table.querySelector("tbody tr:nth-child(2) code").textContent,
        last: table.querySelector("tbody tr:last-child td:nth-child(3)").innerText.split("\n")[0],
    };
})()"#;

#[test]
fn tables_are_sorted_by_keyboard() {
    let Some(program) = chromium() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    page(folder.path());
    let mut browser = Browser::start(&program, folder.path());
    let window = Window {
        width: WIDTHS[0],
        scheme: Scheme::Light,
    };
    let opened = browser.open(&folder.path().join("report.html"), window, SORTED);
    assert_eq!(opened.value["sort"], Value::Null);
    assert_eq!(opened.value["first"], "unary", "as they ran");
    let mut tabs = 0;
    while browser.evaluate(SORTED)["focused"] != true {
        browser.press("Tab");
        tabs += 1;
        assert!(tabs < 20, "the column of etcd's times is not reached");
    }
    for (sort, first) in [("ascending", "stream"), ("descending", "unary")] {
        browser.press("Enter");
        let found = browser.evaluate(SORTED);
        assert_eq!(
            (&found["sort"], &found["first"]),
            (&sort.into(), &first.into())
        );
        assert_eq!(found["sorted"], 1, "one column at a time");
        let last = found["last"].as_str().expect("a cell");
        assert!(["–", "N/A"].contains(&last), "no figure is last: {last}");
    }
}

#[test]
fn without_its_script_the_page_holds_everything() {
    let Some(program) = chromium() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = page(folder.path());
    let (before, rest) = text.split_once("<script>").expect("it has one");
    let (_, after) = rest.split_once("</script>").expect("its end");
    let file = folder.path().join("plain.html");
    std::fs::write(&file, [before, after].concat()).expect("a writable folder");
    let mut browser = Browser::start(&program, folder.path());
    let window = Window {
        width: WIDTHS[0],
        scheme: Scheme::Light,
    };
    let whole = browser.open(&folder.path().join("report.html"), window, CHECKS);
    let plain = browser.open(&file, window, CHECKS);
    assert_eq!(faults(window, &plain), Vec::<String>::new());
    assert_eq!(plain.value["charts"], whole.value["charts"]);
    assert_eq!(plain.value["headings"], whole.value["headings"]);
    assert_eq!(plain.value["buttons"], 0, "no button that does nothing");
}

#[test]
fn a_broken_page_is_noticed() {
    let Some(program) = chromium() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = page(folder.path());
    let mut browser = Browser::start(&program, folder.path());
    let file = folder.path().join("broken.html");
    let broken = [
        (
            r#"<table><tr><td style="min-width: 1400px">x</table>"#,
            "needs 14",
        ),
        ("<script>console.error('bad')</script>", "bad"),
        ("<script>nowhere()</script>", "nowhere is not defined"),
        (
            r#"<img alt="" src="nowhere.png">"#,
            "Content Security Policy",
        ),
        (
            r#"<link rel="stylesheet" href="http://127.0.0.1:1/x">"#,
            "Content Security Policy",
        ),
        (r#"<p style="color: #808080">x</p>"#, "pale text: \"3.9"),
        (r#"<p style="font-size: 11px">x</p>"#, "small text"),
        (r#"<svg role="img" width="9"></svg>"#, "no name"),
        (r##"<svg><use href="#m-none"/></svg>"##, "no such mark"),
        (r#"<p id="time"></p>"#, "an id twice"),
    ];
    for (fault, text) in broken {
        let faulty = page.replacen("<h2>", &format!("{fault}<h2>"), 1);
        std::fs::write(&file, faulty).expect("a writable folder");
        // Grey has the same contrast on black as on white.
        for width in WIDTHS {
            let window = Window {
                width,
                scheme: Scheme::Light,
            };
            let opened = browser.open(&file, window, CHECKS);
            let faults = faults(window, &opened);
            assert!(
                faults.iter().any(|fault| fault.contains(text)),
                "{fault} at {width} px: {faults:?}"
            );
        }
    }
    // A request is noticed even where the page's policy would permit it.
    let policy = page.find("<meta http-equiv").expect("it has one");
    let end = policy + page[policy..].find('>').expect("its end") + 1;
    let asking = r#"<img alt="" src="nowhere.png">"#;
    let text = [&page[..policy], asking, &page[end..]].concat();
    std::fs::write(&file, text).expect("a writable folder");
    let window = Window {
        width: WIDTHS[0],
        scheme: Scheme::Dark,
    };
    let opened = browser.open(&file, window, CHECKS);
    let faults = faults(window, &opened);
    assert!(
        faults
            .iter()
            .any(|fault| fault.contains("asks for file:///")),
        "{faults:?}"
    );
}
