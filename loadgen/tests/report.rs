//! A result from its folder to pictures and back, on made-up figures.

#[path = "support/synthetic.rs"]
mod synthetic;

use std::path::PathBuf;

use loadgen::report::charts;

/// Where pictures go: a folder to look into when `LOADGEN_TEST_PICTURES` names one, else one that goes away.
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
    assert_eq!(names, ["latency", "first-chunk", "peak", "memory", "cpu"]);
    for chart in charts {
        let svg = chart
            .write(&folder)
            .expect("plotters draws what it is given");
        assert!(svg.starts_with("<svg"), "{}", chart.name);
        for said in [
            "pods-150k: 150,000 objects",
            "unary-incremental",
            "N/A",
            "FAILED",
            "INVALID",
        ] {
            assert!(svg.contains(said), "{} does not say `{said}`", chart.name);
        }
        let png = std::fs::read(folder.join(format!("{}.png", chart.name))).expect("the picture");
        assert!(png.starts_with(b"\x89PNG"), "{}", chart.name);
    }
}
