//! `report.html` in a browser: it fits its window, holds everything, and asks for nothing.

#[path = "page/browser.rs"]
mod browser;
#[path = "support/synthetic.rs"]
mod synthetic;

use std::path::{Path, PathBuf};

use report::draw;
use serde_json::Value;

use browser::{Browser, Opened};

/// A desk's window and a telephone's.
const WIDTHS: [u32; 2] = [1280, 375];

/// What is there, and what sticks out at the right although nothing around it scrolls.
const SCRIPT: &str = r#"(() => {
    const all = selector => [...document.querySelectorAll(selector)];
    const width = document.documentElement.clientWidth;
    const sticksOut = element => element.getBoundingClientRect().right > width + 1
        && !element.parentElement.closest(".scroll, pre, svg");
    return {
        width,
        needed: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
        wide: all("body *").filter(sticksOut).map(element => element.outerHTML.slice(0, 100)),
        headings: all("h2").map(heading => heading.textContent),
        figures: all("figure > svg").filter(svg => svg.getBoundingClientRect().width > 200).length,
    };
})()"#;

/// The program, or nothing where it may be missing.
fn chromium() -> Option<PathBuf> {
    let program = std::env::var_os("CHROMIUM_BIN").map(PathBuf::from);
    let program = program.filter(|program| program.is_file());
    if program.is_none() {
        let in_ci = matches!(std::env::var("CI").as_deref(), Ok("true" | "1"));
        assert!(
            !in_ci,
            "no Chromium in CHROMIUM_BIN; scripts/oracle provides it"
        );
        println!("skipped: no Chromium in CHROMIUM_BIN; scripts/oracle provides it");
    }
    program
}

/// A page of a made-up result in `folder`.
fn page(folder: &Path) -> String {
    let failures = draw::draw(&synthetic::result(1.0), folder);
    assert_eq!(failures, Vec::<String>::new());
    std::fs::read_to_string(folder.join("report.html")).expect("the page")
}

/// Everything that is wrong with an opened page, in words.
fn faults(width: u32, opened: &Opened) -> Vec<String> {
    let Opened {
        complaints,
        requests,
        value,
    } = opened;
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
    faults.extend(complaints.iter().map(|said| format!("console: {said}")));
    faults.extend(requests.iter().map(|url| format!("asks for {url}")));
    faults
}

#[test]
fn the_page_fits_its_window_and_asks_for_nothing() {
    let Some(program) = chromium() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    page(folder.path());
    let mut browser = Browser::start(&program, folder.path());
    for width in WIDTHS {
        let opened = browser.open(&folder.path().join("report.html"), width, SCRIPT);
        assert_eq!(faults(width, &opened), Vec::<String>::new(), "{width} px");
        let headings = [
            "Thresholds",
            "pods-150k",
            "How each number was made",
            "Environment",
        ];
        assert_eq!(opened.value["headings"], Value::from(headings.to_vec()));
        assert_eq!(opened.value["figures"], 6, "{width} px");
    }
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
        (r#"<img src="nowhere.png">"#, "asks for file:///"),
        (
            r#"<link rel="stylesheet" href="http://127.0.0.1:1/x">"#,
            "asks for http://127.0.0.1:1/x",
        ),
    ];
    for (fault, said) in broken {
        let text = page.replacen("<h2>", &format!("{fault}<h2>"), 1);
        std::fs::write(&file, text).expect("a writable folder");
        for width in WIDTHS {
            let opened = browser.open(&file, width, SCRIPT);
            let faults = faults(width, &opened);
            assert!(
                faults.iter().any(|fault| fault.contains(said)),
                "{fault} at {width} px: {faults:?}"
            );
        }
    }
}
