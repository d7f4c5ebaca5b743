//! Searches for the highest rate of a case of loads.

use std::process::{Command, Stdio};

use super::{count, run};

/// Every rate up to the last keeps this objective.
const EASY: &str = r#"{ objective = "p50=1s", from = 50, to = 200 }"#;

#[test]
fn a_search_keeps_the_loads_beside_and_checks_what_all_trials_wrote() {
    let (code, report, log) = run(&format!(
        r#"
[[case]]
name = "mix"
duration = "1s"
saturate = {EASY}
load = [
    {{ name = "mix", operation = {{ update = 6, create = 2, delete = 2, get = 4 }}, arrivals = {{ poisson = 200 }}, connections = 2 }},
    {{ name = "half", operation = "get", arrivals = {{ poisson = 100 }} }},
    {{ name = "watchers", operation = "watch", clients = 3 }},
    {{ name = "lists", operation = {{ list = "stream" }}, arrivals = {{ constant = 5 }} }},
]
"#
    ));
    let case = &report["cases"][0];
    assert!(matches!(code, Some(0 | 3)), "{log}");
    assert_ne!(case["outcome"]["state"], "failed", "{log}");
    assert_eq!(case["arrivals"], "saturate-p50=1s", "{case}");
    let saturation = &case["saturation"];
    let kept = saturation["kept_per_s"].as_f64().unwrap_or(0.0);
    assert!((50.0..=200.0).contains(&kept), "{saturation}");
    let trials = saturation["searches"][0]["trials"].as_array();
    let trials = trials.expect("trials");
    assert!(trials.len() >= 2, "{trials:?}");
    assert!(
        trials.iter().all(|trial| trial["errors"] == 0),
        "{trials:?}"
    );
    assert!(
        count(&case["requests"]) > 0 && !case["latency_ms"].is_null(),
        "{case}"
    );
    assert!(count(&case["verified"]["objects"]) >= 300, "{case}");
}

#[test]
fn a_search_needs_small_requests_for_the_whole_time() {
    let case = |load: &str| {
        format!(
            "[[case]]\nname = \"one\"\nsaturate = {EASY}\nload = [{{ name = \"a\", {load} }}]\n"
        )
    };
    for (load, why) in [
        (
            r#"operation = { list = "stream" }"#,
            "its first measured load is not of small requests",
        ),
        (
            r#"operation = "get", stop = "500ms""#,
            "a load starts later or ends earlier than the case",
        ),
    ] {
        let (code, _, log) = run(&case(load));
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains(why), "{log}");
    }
}

#[test]
fn an_objective_that_no_rate_meets_is_a_result() {
    let (code, report, log) = run(r#"
[[case]]
name = "never"
duration = "1s"
saturate = { objective = "p50=1ns", from = 50, to = 100 }
load = [{ name = "gets", operation = "get" }]
"#);
    let case = &report["cases"][0];
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(case["outcome"]["state"], "measured", "{case}");
    assert!(case["saturation"]["kept_per_s"].is_null(), "{case}");
    assert!(log.contains("p50=1ns missed"), "{log}");
}

#[test]
fn the_command_searches_cases_of_loads_and_leaves_out_others() {
    let dry = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args([
            "saturate",
            "kubernetes-mix",
            "--slo",
            "p99=50ms",
            "--dry-run",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(
        dry.status.success(),
        "{}",
        String::from_utf8_lossy(&dry.stderr)
    );
    assert!(
        said.contains("1000-nodes") && said.contains("5000-nodes"),
        "{said}"
    );
    let refused = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["saturate", "soak", "--slo", "p99=50ms", "--dry-run"])
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("no case can be searched"), "{said}");
}
