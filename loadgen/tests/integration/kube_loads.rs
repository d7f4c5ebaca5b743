//! Small requests through the Kubernetes tier, on servers that `loadgen` starts: the counts are
//! consistent, and the data set is unchanged. The tests do not check times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::served::Served;
use crate::support::small_run::{self, count, load, mixed};

const HEAD: &str = r#"
name = "small"
summary = "small requests through the Kubernetes tier"
repeats = 1
duration = "1s"
"#;

/// Runs `cases` over a few objects; returns exit code, report and log.
fn run(cases: &str, kind: &str) -> (Option<i32>, Value, String) {
    run_with(cases, kind, &[])
}

fn run_with(cases: &str, kind: &str, more_flags: &[&str]) -> (Option<i32>, Value, String) {
    let more = match kind {
        "pods" => "namespaces = 3\nnodes = 2",
        "config-maps" => "namespaces = 3\nobject_size = 2_000",
        _ => "object_size = 1_000",
    };
    let data =
        format!("[[data_set]]\nname = \"few\"\nkind = \"{kind}\"\nobjects = 300\nseed = 1\n{more}");
    small_run::run(&format!("{HEAD}\n{cases}\n{data}"), more_flags)
}

#[test]
fn a_mix_through_the_api_runs_beside_lists_and_leaves_the_data_set_as_it_was() {
    let (code, report, log) = run(
        r#"
[[case]]
name = "together"
tier = "kube"
load = [
    { name = "mix", tier = "kube", operation = { get = 4, update = 4, patch = 4, create = 4, delete = 3 }, arrivals = { poisson = 300 }, keys = { zipf = 0.9 }, connections = 2 },
    { name = "waiting", tier = "kube", operation = "update", clients = 8, connections = 2, keys = { zipf = 3.0 } },
    { name = "etcd", operation = "get", arrivals = { constant = 50 } },
    { name = "lists", operation = { list = "consistent" }, arrivals = { constant = 5 }, clients = 2 },
    { name = "watchers", tier = "kube", operation = "watch", clients = 3 },
    { name = "cut", tier = "kube", operation = "watch", clients = 2, cut_every = "100ms" },
]
"#,
        "pods",
    );
    let case = &report["cases"][0];
    assert!(matches!(code, Some(0 | 3)), "{log}");
    assert_ne!(case["outcome"]["state"], "failed", "{log}");
    let mixed = mixed(&report, 5);
    // Most updates are of one object, so some have a conflict and are repeated.
    let waiting = load(&report, "waiting");
    assert!(count(&waiting["conflicts"]) > 0, "{waiting}");
    assert!(count(&waiting["requests"]) > 0, "{waiting}");
    assert_eq!(
        (&waiting["errors"], &waiting["throttled"]),
        (&0.into(), &0.into())
    );
    // Each write of any load whose response has its revision is received once by each of three
    // watchers.
    let of_kind = |name: &str| mixed.get(name).copied().unwrap_or(0);
    let writes = ["update", "patch", "create"]
        .map(of_kind)
        .iter()
        .sum::<u64>();
    let writes = writes + count(&waiting["requests"]);
    let watchers = load(&report, "watchers");
    assert_eq!(watchers["events"], 3 * writes, "{watchers}");
    assert_eq!(watchers["requests"], writes, "{watchers}");
    let cut = load(&report, "cut");
    assert_eq!(cut["events"], 2 * writes, "{cut}");
    // The server ends the watches of slow readers, but not every cut is caused by the server.
    let lost = count(&cut["lost_streams"]);
    assert!(count(&cut["cut_ms"]["n"]) >= 2 + lost, "{cut}");
    assert_eq!(load(&report, "etcd")["requests"], 50);
    let lists = load(&report, "lists");
    assert_eq!(
        (&lists["requests"], &lists["errors"]),
        (&5.into(), &0.into())
    );
    let fingerprint = &report["data_sets"][0]["fingerprint"];
    assert_eq!(&case["verified"]["fingerprint"], fingerprint);
    assert_eq!(case["objects"], 300);
}

#[test]
fn config_maps_are_created_with_values_of_the_load() {
    let (code, report, log) = run(
        r#"
[[case]]
name = "created"
tier = "kube"
load = [{ name = "maps", tier = "kube", operation = { create = 3, delete = 1, patch = 1 }, value = { lognormal = { median = 500, sigma = 1.0, most = 9000 } }, clients = 4 }]
"#,
        "config-maps",
    );
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let maps = load(&report, "maps");
    assert_eq!(maps["errors"], 0, "{maps}");
    assert!(count(&maps["requests"]) > 0, "{maps}");
}

#[test]
fn an_api_that_is_there_is_written_to_in_namespaces_of_the_run_alone() {
    let server = Served::kube();
    let cases = |tier: &str| {
        format!(
            r#"
[[case]]
name = "first"
tier = "kube"
load = [
    {{ name = "mix", {tier} operation = {{ get = 2, create = 3, delete = 1 }}, arrivals = {{ poisson = 200 }} }},
    {{ name = "lists", operation = {{ list = "cached" }} }},
]
[[case]]
name = "second"
tier = "kube"
load = [{{ name = "updates", {tier} operation = "update", clients = 2 }}]
[[case]]
name = "third"
tier = "kube"
load = [{{ name = "lists", operation = {{ list = "consistent" }} }}]
"#
        )
    };
    let through_api = cases(r#"tier = "kube","#);
    let flags = ["--kube", &*server.url, "--pause", "0s"];
    let (_, report, log) = run_with(&through_api, "pods", &flags);
    assert_eq!(
        report["cases"][0]["outcome"]["state"], "not_applicable",
        "{report}"
    );
    assert!(log.contains("which --seed-data makes and removes"), "{log}");
    let flags = [&flags[..], &["--seed-data"]].concat();
    let (_, _, log) = run_with(&cases(""), "pods", &flags);
    assert!(log.contains("does not speak etcd's protocol"), "{log}");

    let (code, report, log) = run_with(&through_api, "pods", &flags);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 3, "{log}");
    for case in cases {
        assert_ne!(case["outcome"]["state"], "failed", "{log}");
        assert_eq!(
            case["objects"], 300,
            "what a case made does not count: {log}"
        );
    }
    for resource in ["pods", "namespaces"] {
        let left = server.names(resource);
        assert!(
            !left.iter().any(|name| name.contains("loadgen-")),
            "{left:?}"
        );
    }
}

#[test]
fn objects_of_another_run_are_counted_and_are_no_events_of_this_one() {
    let server = Served::kube();
    let cases = r#"
[[case]]
name = "watched"
tier = "kube"
load = [
    { name = "updates", tier = "kube", operation = "update", arrivals = { constant = 50 } },
    { name = "watchers", tier = "kube", operation = "watch", clients = 2 },
]
"#;
    let is_over = AtomicBool::new(false);
    let (code, report, log) = thread::scope(|scope| {
        // Creates objects like those of another run while this run is in progress.
        scope.spawn(|| {
            for number in 0.. {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                let name = format!("loadgen-0123456789ab-{number}");
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
                });
                server.post("/api/v1/namespaces/default/configmaps", &object);
                thread::sleep(Duration::from_millis(10));
            }
        });
        let flags = ["--kube", &*server.url, "--pause", "0s", "--seed-data"];
        let ended = run_with(cases, "config-maps", &flags);
        is_over.store(true, Ordering::SeqCst);
        ended
    });
    assert!(matches!(code, Some(0 | 3)), "{log}");
    assert_ne!(report["cases"][0]["outcome"]["state"], "failed", "{log}");
    let watchers = load(&report, "watchers");
    assert_eq!(watchers["events"], 2 * 50, "{watchers}");
    assert!(count(&watchers["foreign_events"]) > 0, "{watchers}");
}

#[test]
fn what_the_kubernetes_tier_has_not_is_refused_in_one_line() {
    let one = |of_case: &str, load: &str| {
        format!("[[case]]\nname = \"one\"\n{of_case}\nload = [{{ name = \"it\", {load} }}]")
    };
    let kube = r#"tier = "kube""#;
    let wrong = [
        (
            kube,
            r#"tier = "kube", operation = "put""#,
            "kube tier has no `put` (it has get, update, patch, create, delete)",
        ),
        (
            kube,
            r#"tier = "kube", operation = { get = 1, compact = 1 }"#,
            "has no `compact`",
        ),
        (
            kube,
            r#"operation = "patch""#,
            "the etcd tier has no `patch`",
        ),
        (
            "",
            r#"tier = "kube", operation = "get""#,
            "need a case that has it: tier = \"kube\"",
        ),
        (
            kube,
            r#"tier = "kube", operation = { delete = 1 }"#,
            "needs `create`",
        ),
        (
            kube,
            r#"tier = "kube", operation = { list = "cached" }"#,
            "does not take `tier`",
        ),
        (
            kube,
            r#"tier = "kubes", operation = "get""#,
            "unknown variant",
        ),
        (
            kube,
            r#"tier = "kube", operation = "patch", keys = { zipf = -1 }"#,
            "zipf = -1",
        ),
        (
            kube,
            r#"tier = "kube", operation = "patch", value = { bytes = 5 }"#,
            "it creates nothing",
        ),
    ];
    for (of_case, load, says) in wrong {
        let (code, report, log) = run(&one(of_case, load), "pods");
        assert_eq!((code, &report), (Some(2), &Value::Null), "{load}: {log}");
        assert!(log.contains(says), "{load}: {log}");
    }
    let two = |first: &str, second: &str| {
        let loads = format!("{{ name = \"a\", {first} }}, {{ name = \"b\", {second} }}");
        format!("[[case]]\nname = \"two\"\n{kube}\nload = [{loads}]")
    };
    let watch = r#"tier = "kube", operation = "watch""#;
    let patch = r#"tier = "kube", operation = "patch""#;
    let wrong = [
        (
            two(watch, r#"tier = "kube", operation = "get""#),
            "watchers need a load that writes what they watch: `create`",
        ),
        (
            two(&format!("{watch}, connections = 2"), patch),
            "do not take `connections`",
        ),
        (
            two(r#"operation = "watch""#, patch),
            "would meet objects made through",
        ),
        (
            two(r#"operation = "count""#, patch),
            "would meet objects made through",
        ),
    ];
    for (case, says) in wrong {
        let (code, _, log) = run(&case, "pods");
        assert_eq!(code, Some(2), "{case}: {log}");
        assert!(log.contains(says), "{case}: {log}");
    }
    // Raw values are not Kubernetes objects, so nothing can be measured.
    let (code, _, log) = run(&one(kube, r#"tier = "kube", operation = "get""#), "raw");
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("these are raw values"), "{log}");
}
