//! Several generators that coordinate through a Kubernetes API: together they run the load of one,
//! each event of every write is accounted for, and nothing is left, even if a generator is missing
//! or interrupted.

use super::interrupted::interrupt;
use super::*;

/// Requests on schedules, so that they do not depend on the speed of the server, and watchers of
/// all writes.
const SCENARIO: &str = r#"
name = "shared"
summary = "one load of several generators through a Kubernetes API"
repeats = 1
duration = "2s"

[[data_set]]
name = "few"
kind = "pods"
objects = 60
namespaces = 2
nodes = 2
seed = 1

[[case]]
name = "mixed"
tier = "kube"
warm_up = "500ms"
load = [
    { name = "writes", tier = "kube", operation = { get = 4, update = 4, patch = 4, create = 3, delete = 2 }, arrivals = { poisson = 150 }, keys = { zipf = 0.9 }, connections = 3 },
    { name = "hot", tier = "kube", operation = "update", clients = 6, connections = 3, keys = { zipf = 3.0 } },
    { name = "lists", operation = { list = "consistent" }, arrivals = { constant = 6 }, clients = 3 },
    { name = "watchers", tier = "kube", operation = "watch", clients = 4 },
]

[[case]]
name = "selected"
tier = "kube"
load = [{ name = "lists", operation = { list = "selector:team=billing" }, clients = 3 }]
"#;

const GENERATORS: u32 = 3;
/// The prefix of the names of all objects that runs create.
const OURS: &str = "loadgen-";
const LEASES: &str = "/apis/coordination.k8s.io/v1/leases";

fn folder() -> tempfile::TempDir {
    folder_with(SCENARIO)
}

/// Starts a generator without waiting for it.
fn start(folder: &Path, url: &str, more: &[&str]) -> Child {
    let args = ["run", "shared.toml", "--cases", "mixed", "--kube", url];
    loadgen(folder, &args)
        .args(["--seed-data", "--pause", "0s"])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Checks that no object of a run is left.
#[track_caller]
fn assert_nothing_left(server: &Served, ends: &[End]) {
    let collections = ["/api/v1/namespaces", "/api/v1/pods", LEASES];
    for collection in collections {
        let names = server.names_at(collection);
        assert!(
            !names.iter().any(|name| name.starts_with(OURS)),
            "{collection}: {names:?} {ends:?}"
        );
    }
}

fn was_late(log: &str) -> bool {
    log.contains("not begun") || log.contains("has not loaded")
}

/// Returns how many requests of each kind a load made.
fn kinds(report: &Value, name: &str) -> BTreeMap<String, u64> {
    let kinds = load(report, name)["kinds"].as_array().cloned();
    let kinds = kinds.unwrap_or_default().into_iter();
    kinds
        .map(|kind| {
            let operation = kind["operation"].as_str().unwrap_or_default();
            (operation.to_owned(), count(&kind["requests"]))
        })
        .collect()
}

/// Runs the case as several generators, each in its own process. Tries a later start if a busy
/// machine was not ready in time.
fn together(folder: &Path, server: &Served) -> Vec<End> {
    for seconds in BEGINNINGS {
        fs::remove_dir_all(folder.join("shards")).ok();
        let at = in_seconds(seconds);
        let share = |index: u32| {
            let shard = format!("{index}/{GENERATORS}");
            let more = ["--shard", &*shard, "--start-at", &at, "--out", "shards"];
            start(folder, &server.url, &more)
        };
        // The first generator is started last: the others wait for it.
        let children: Vec<Child> = (0..GENERATORS).rev().map(share).collect();
        let ends: Vec<End> = children.into_iter().map(end).collect();
        assert_nothing_left(server, &ends);
        if ends.iter().all(|(code, ..)| matches!(code, Some(0 | 3))) {
            return ends;
        }
        assert!(ends.iter().all(|(_, _, log)| was_late(log)), "{ends:?}");
    }
    panic!("they were never ready in time");
}

#[test]
fn generators_that_meet_on_a_kubernetes_api_make_the_load_of_one() {
    let folder = folder();
    let server = Served::kube();
    let whole = start(folder.path(), &server.url, &["--out", "whole"]);
    let (code, _, log) = end(whole);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let whole = report(&results(&folder.path().join("whole"))[0]);

    let ends = together(folder.path(), &server);
    let merge = ["merge", "shards", "--out", "merged"];
    let (code, _, log) = run_to_end(folder.path(), &merge);
    assert!(matches!(code, Some(0 | 3)), "{log} {ends:?}");
    let merged = report(&results(&folder.path().join("merged"))[0]);
    assert_ne!(
        merged["cases"][0]["outcome"]["state"], "failed",
        "{merged:#}"
    );
    assert_eq!(kinds(&merged, "writes"), kinds(&whole, "writes"));
    for name in ["writes", "lists"] {
        let (ours, one) = (load(&merged, name), load(&whole, name));
        assert_eq!(ours["requests"], one["requests"], "{name}");
        for what in ["clients", "connections", "offered_per_s"] {
            assert_eq!(ours[what], one[what], "{name} {what}");
        }
    }
    for name in ["writes", "hot", "lists"] {
        assert_eq!(count(&load(&merged, name)["errors"]), 0, "{name}");
    }
    // Generators that update the same object have conflicts.
    let hot = load(&merged, "hot");
    assert!(count(&hot["requests"]) > 0, "{hot}");
    assert!(count(&hot["conflicts"]) > 0, "{hot}");
    // Each write whose response has its revision is received by each watcher of the generator that
    // made it.
    let written = kinds(&merged, "writes");
    let written = ["update", "patch", "create"].map(|kind| written.get(kind).copied());
    let written = written.into_iter().flatten().sum::<u64>() + count(&hot["requests"]);
    let watchers = load(&merged, "watchers");
    assert_eq!(count(&watchers["requests"]), written, "{watchers}");
    assert_eq!(count(&watchers["clients"]), 4, "{watchers}");
    assert_eq!(count(&watchers["foreign_events"]), 0, "{watchers}");
    // One clock, as far as that can be seen through the server.
    let generators = merged["generators"].as_array().expect("three");
    assert_eq!(generators.len(), GENERATORS as usize);
    for generator in &generators[1..] {
        let shard = &generator["shard"];
        let (ahead, within) = (&shard["clock_ahead_ms"], &shard["clock_within_ms"]);
        assert!(ahead.as_f64().map(f64::abs) <= within.as_f64(), "{shard}");
    }
}

#[test]
fn generators_that_do_not_fit_do_not_begin_on_a_kubernetes_api_and_leave_nothing() {
    let folder = folder();
    let server = Served::kube();
    let seconds = BEGINNINGS[1];
    let at = in_seconds(seconds);
    let shard = |shard: &str, out: &str, more: &[&str]| {
        let share = ["--shard", shard, "--start-at", &at, "--out", out];
        start(folder.path(), &server.url, &[&share[..], more].concat())
    };
    let first = shard("0/3", "a", &[]);
    // The first generator creates the namespaces before anything else.
    server.until("namespaces", |names| {
        names.iter().any(|name| name.starts_with(OURS))
    });
    let (code, _, log) = end(shard("0/3", "b", &[]));
    assert_eq!(code, Some(2), "{log}");
    let says = "exists, and this generator has not made it";
    assert!(log.contains(says), "{log}");
    let namespaces = server.names("namespaces");
    assert!(
        namespaces.iter().any(|name| name.starts_with(OURS)),
        "those of the other one stay: {namespaces:?}"
    );
    let others = shard("2/3", "c", &["--objects", "50"]);
    let twins = [shard("1/3", "d", &[]), shard("1/3", "e", &[])];
    assert_refused(others, "generator 0 has another scenario than this one");
    assert_twins_refused(twins);
    let first = end(first);
    assert_eq!(first.0, Some(2), "{}", first.2);
    assert!(
        first
            .2
            .contains("not begun: of 3 generators 2 were not ready"),
        "{}",
        first.2
    );
    assert_nothing_left(&server, &[first]);
}

#[test]
fn an_interrupted_first_generator_ends_the_others_on_a_kubernetes_api() {
    let folder = folder();
    for seconds in BEGINNINGS {
        fs::remove_dir_all(folder.path().join("shards")).ok();
        let server = Served::kube();
        let at = in_seconds(seconds);
        let children = ["0/2", "1/2"].map(|shard| {
            let share = ["--shard", shard, "--start-at", &at, "--out", "shards"];
            let more = [&share[..], &["--duration", "300s"]].concat();
            start(folder.path(), &server.url, &more)
        });
        // By then it has begun, or never will.
        thread::sleep(Duration::from_secs(seconds + 2));
        interrupt(&children[0]);
        let ends = children.map(ended_soon);
        assert_nothing_left(&server, &ends);
        let [(first, _, first_log), (other, _, other_log)] = &ends;
        if was_late(first_log) || was_late(other_log) {
            continue;
        }
        assert_eq!((*first, *other), (Some(130), Some(130)), "{ends:?}");
        assert!(!first_log.contains("are not done"), "{first_log}");
        assert!(
            other_log.contains("generator 0 was interrupted"),
            "{other_log}"
        );
        for result in results(&folder.path().join("shards")) {
            let report = report(&result);
            assert_eq!(report["interrupted"], true, "{}", result.display());
            let load = load(&report, "writes");
            assert_eq!(count(&load["errors"]), 0, "{load}");
        }
        return;
    }
    panic!("they were never ready in time");
}

#[test]
fn what_cannot_be_shared_on_a_kubernetes_api_is_refused_in_one_line() {
    let folder = folder();
    let at = in_seconds(1_000);
    let there = ["--kube", "http://127.0.0.1:1", "--start-at", &at];
    for (case, more, says) in [
        ("selected", &["--shard", "0/3"][..], "--seed-data allows it"),
        (
            "mixed",
            &["--shard", "0/4", "--seed-data"],
            "`writes` has 3 connections for 4 generators",
        ),
        (
            "selected",
            &["--shard", "0/3", "--seed-data"],
            "`lists` lists by a selector",
        ),
    ] {
        let args = ["run", "shared.toml", "--cases", case];
        let (code, _, log) = run_to_end(folder.path(), &[&args[..], &there, more].concat());
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains(says), "{log}");
    }
}
