//! Several generators that run one load together: the merged results of four processes equal that
//! of one, and results that are not part of the run are refused. The tests do not check times.

mod interrupted;
mod own_keys;
mod refusals;
mod start_times;
mod through_api;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};
use serde_json::Value;

use crate::support::program::ended;
use crate::support::served::Served;
use crate::support::small_run::count;

/// Puts and gets of Zipf-distributed keys, puts of one key after the other, and lists. All are on
/// schedules, so that the requests do not depend on the speed of the server.
const SCENARIO: &str = r#"
name = "shared"
summary = "one load of several generators"
repeats = 1
duration = "2s"

[[data_set]]
name = "few"
kind = "raw"
objects = 400
object_size = 200
seed = 1

[[case]]
name = "mixed"
warm_up = "500ms"
load = [
    { name = "small", operation = { put = 3, get = 1 }, arrivals = { poisson = 300 }, keys = { zipf = 0.9 }, connections = 9 },
    { name = "each", operation = "put", arrivals = { constant = 100 }, keys = "sequential", connections = 4 },
    { name = "waiting", operation = "get", clients = 6, connections = 4 },
    { name = "lists", operation = { list = "stream" }, arrivals = { constant = 6 }, clients = 4 },
]

[[case]]
name = "watched"
load = [
    { name = "puts", operation = "put", arrivals = { constant = 100 }, connections = 4 },
    { name = "watchers", operation = "watch", clients = 5, connections = 4 },
]

[[case]]
name = "owned"
warm_up = "500ms"
load = [
    { name = "pods", operation = { update = 80, create = 12, delete = 8 }, arrivals = { poisson = 300 }, keys = { zipf = 0.8 }, connections = 4 },
    { name = "ranges", operation = { create = 20, delete-range = 1 }, arrivals = { poisson = 80 }, connections = 4 },
    { name = "leases", operation = { lease-grant = 4, lease-keep-alive = 4, lease-revoke = 1 }, arrivals = { poisson = 80 }, connections = 4 },
    { name = "watchers", operation = "watch", clients = 4, connections = 4 },
]
"#;

const GENERATORS: u32 = 4;
/// Times until the start of the load, in seconds, which are tried in this order: all preparations
/// must be done by then, also on a slow machine.
const BEGINNINGS: [u64; 3] = [8, 30, 90];
/// The error of a generator of three when two others cannot begin.
const NOT_BEGUN: &str = "not begun: of 3 generators 2 were not ready";
/// Time limit for generators of an interrupted run to end: none of them finishes its load.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a folder with the scenario.
fn folder() -> tempfile::TempDir {
    folder_with(SCENARIO)
}

/// Returns a folder with another scenario of the same name.
fn folder_with(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("shared.toml"), scenario).expect("a file");
    folder
}

fn loadgen(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("JOB_COMPLETION_INDEX")
        .stdin(Stdio::null());
    command
}

/// Waits for a process to end.
fn end(child: Child) -> End {
    ended(&child.wait_with_output().expect("it ends"))
}

/// Asserts that a generator of a run of three ended with an error that contains these words.
#[track_caller]
fn assert_refused(generator: Child, words: &str) {
    let (code, _, log) = end(generator);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains(words), "{log}");
}

/// Asserts that of two generators with the same number (1 of 3) one was refused for that, and the
/// other because the generators are not complete.
#[track_caller]
fn assert_twins_refused(twins: [Child; 2]) {
    let logs = twins.map(end).map(|(code, _, log)| {
        assert_eq!(code, Some(2), "{log}");
        log
    });
    for words in ["another generator runs as --shard 1/3 already", NOT_BEGUN] {
        let saying = logs.iter().filter(|log| log.contains(words)).count();
        assert_eq!(saying, 1, "{words}: {logs:?}");
    }
}

/// Waits for a process that is about to end. After [`END_TIMEOUT`] it is killed, and has no exit
/// code.
fn ended_soon(child: Child) -> End {
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let (running, is_running) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if is_running.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
                nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL).ok();
            }
        });
        let output = child.wait_with_output();
        drop(running);
        ended(&output.expect("it ends"))
    })
}

fn run_to_end(folder: &Path, args: &[&str]) -> End {
    ended(&loadgen(folder, args).output().expect("it starts"))
}

/// Returns the arguments of a run of one case.
fn of_case<'a>(case: &'a str, server: &'a Served) -> [&'a str; 6] {
    ["run", "shared.toml", "--cases", case, "--etcd", &server.url]
}

/// Runs one generator's share of the mixed case to its end.
fn mixed(folder: &Path, server: &Served, at: &str, shard: &str) -> End {
    let case = of_case("mixed", server);
    let share = ["--start-at", at, "--out", "out", "--shard", shard];
    run_to_end(folder, &[case, share].concat())
}

/// Returns the time in `seconds` seconds, as seconds since 1970.
fn in_seconds(seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let at = now.expect("it is later than 1970") + Duration::from_secs(seconds);
    at.as_secs().to_string()
}

/// The outcome of a process: exit code, standard output and standard error.
type End = (Option<i32>, String, String);

/// Runs a case as four generators, each in its own process, on a new server. Tries a later start if
/// a busy machine was not ready in time. Returns the server and the outcome of each generator.
fn together(folder: &Path, case: &str, more: &[&str]) -> (Served, Vec<End>) {
    for seconds in BEGINNINGS {
        let server = Served::etcd();
        fs::remove_dir_all(folder.join("shards")).ok();
        let ends = begin(folder, &server, case, seconds, more);
        if ends.iter().all(|(code, ..)| matches!(code, Some(0 | 3))) {
            return (server, ends);
        }
        let was_late = |log: &str| log.contains("not begun") || log.contains("has not loaded");
        assert!(ends.iter().all(|(_, _, log)| was_late(log)), "{ends:?}");
    }
    panic!("they were never ready in time");
}

/// Runs the generators once, with a start in `seconds` seconds.
fn begin(folder: &Path, server: &Served, case: &str, seconds: u64, more: &[&str]) -> Vec<End> {
    let at = in_seconds(seconds);
    let start = |index: u32| -> Child {
        let shard = format!("{index}/{GENERATORS}");
        let args = of_case(case, server);
        loadgen(folder, &args)
            .args(["--shard", &shard, "--start-at", &at, "--out", "shards"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    // The first generator is started last: the others wait for it.
    let children: Vec<Child> = (0..GENERATORS).rev().map(start).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output());
    outputs
        .map(|output| ended(&output.expect("it ends")))
        .collect()
}

/// Sends requests to a server; returns the result.
fn asked<T>(server: &Served, ask: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let config = ClientConfig::new(&server.url).expect("an address");
        ask(Client::connect(config).await.expect("it is there")).await
    })
}

/// Puts a key that is not loadgen's.
fn put(server: &Served, key: &'static str) {
    asked(server, async |client| {
        let put = PutRequest {
            key: key.into(),
            ..PutRequest::default()
        };
        client.kv().put(put).await.expect("a response");
    });
}

/// Returns the number of writes of every key on the server, by the key relative to the data set's
/// root.
fn writes(server: &Served) -> BTreeMap<String, i64> {
    asked(server, async |client| {
        let all = RangeRequest {
            key: vec![0].into(),
            range_end: vec![0].into(),
            keys_only: true,
            ..RangeRequest::default()
        };
        let response = client.kv().range(all).await.expect("a response");
        let kvs = response.into_inner().kvs.into_iter();
        kvs.map(|kv| {
            let key = String::from_utf8_lossy(&kv.key).into_owned();
            let (_, below) = key.split_once("/registry/").unwrap_or(("", &key));
            (below.to_owned(), kv.version)
        })
        .collect()
    })
}

fn results(out: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(out).expect("a folder").flatten();
    let mut results: Vec<_> = entries.map(|entry| entry.path()).collect();
    results.sort();
    results
}

fn report(result: &Path) -> Value {
    let json = fs::read(result.join("report.json")).expect("a report");
    serde_json::from_slice(&json).expect("JSON")
}

/// Returns a load of a report's only case.
fn load<'a>(report: &'a Value, name: &str) -> &'a Value {
    let loads = report["cases"][0]["loads"].as_array().expect("loads");
    let mut loads = loads.iter();
    loads.find(|load| load["name"] == name).expect("that load")
}

#[test]
fn four_generators_merged_are_one() {
    // The whole load by one generator.
    let folder = folder();
    let alone = Served::etcd();
    let args = of_case("mixed", &alone);
    let whole = [&args[..], &["--keep-data", "--out", "whole"]].concat();
    let (code, _, log) = run_to_end(folder.path(), &whole);
    // A busy machine may be too late for a valid result, but the requests are the same.
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let whole = report(&results(&folder.path().join("whole"))[0]);

    // The same load by four generators.
    let (server, ends) = together(folder.path(), "mixed", &["--keep-data"]);

    // Every key was written the same number of times, and no keys of the generators' coordination
    // are left.
    let keys = writes(&server);
    assert_eq!(keys.len(), 400, "{ends:?}");
    assert_eq!(keys, writes(&alone), "{ends:?}");

    let merge = ["merge", "shards", "--out", "merged", "--format", "json"];
    let (code, out, log) = run_to_end(folder.path(), &merge);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let path = &results(&folder.path().join("merged"))[0];
    let merged = report(path);
    assert_eq!(
        serde_json::from_str::<Value>(&out).ok(),
        Some(merged.clone())
    );
    for name in ["small", "each", "lists"] {
        let (ours, one) = (load(&merged, name), load(&whole, name));
        assert_eq!(ours["requests"], one["requests"], "{name}");
        assert_eq!(count(&ours["errors"]), 0, "{name}");
        assert_eq!(ours["latency_ms"]["n"], one["requests"], "{name}");
        assert_eq!(ours["offered_per_s"], one["offered_per_s"], "{name}");
        for what in [
            "clients",
            "connections",
            "operation",
            "arrivals",
            "window_s",
        ] {
            assert_eq!(ours[what], one[what], "{name} {what}");
        }
    }
    let kinds = |report: &Value| -> Vec<(String, u64)> {
        let kinds = load(report, "small")["kinds"].as_array().cloned();
        let kinds = kinds.unwrap_or_default().into_iter();
        kinds
            .map(|kind| (kind["operation"].to_string(), count(&kind["requests"])))
            .collect()
    };
    assert_eq!(kinds(&merged), kinds(&whole));
    let waiting = load(&merged, "waiting");
    assert_eq!(
        (count(&waiting["clients"]), count(&waiting["connections"])),
        (6, 4)
    );
    assert!(count(&waiting["requests"]) > 0, "{waiting}");

    // The fields that identify the case are the same, so that both results can be compared.
    let case = |report: &Value, what: &str| report["cases"][0][what].clone();
    for what in [
        "row",
        "clients",
        "connections",
        "offered_per_s",
        "keys",
        "verified",
    ] {
        assert_eq!(case(&merged, what), case(&whole, what), "{what}");
    }
    assert_eq!(merged["data_sets"], whole["data_sets"]);
    let generators = merged["generators"].as_array().expect("four");
    let sum: u64 = generators.iter().map(|one| count(&one["requests"])).sum();
    assert_eq!(
        (generators.len(), sum),
        (4, count(&case(&merged, "requests")))
    );
    for (index, generator) in generators.iter().enumerate() {
        let shard = &generator["shard"];
        assert_eq!(count(&shard["index"]), index as u64);
        assert!(shard["late_ms"].as_f64().is_some(), "{shard}");
        // All processes have one clock, so the measured difference of clocks is within its
        // uncertainty.
        let (ahead, within) = (&shard["clock_ahead_ms"], &shard["clock_within_ms"]);
        match index {
            0 => assert!(ahead.is_null(), "{shard}"),
            _ => assert!(ahead.as_f64().map(f64::abs) <= within.as_f64(), "{shard}"),
        }
    }

    // The merged folder is an ordinary result.
    let path = path.to_str().expect("a temporary folder's name");
    let (code, out, log) = run_to_end(folder.path(), &["report", path]);
    assert_eq!(code, Some(0), "{log}");
    assert!(out.contains("Made by 4 generators together"), "{out}");
    let (code, out, log) = run_to_end(folder.path(), &["report", path, "--format", "csv"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(out.lines().count() > 1, "{out}");
    let (code, _, log) = run_to_end(folder.path(), &["compare", "merged", "whole"]);
    // On a busy machine, the load may be too late for any case to be compared.
    let is_told = matches!(code, Some(0 | 1 | 3)) || log.contains("no case can be compared");
    assert!(is_told, "{log}");

    let (code, _, log) = run_to_end(folder.path(), &["compare", "shards", "whole"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("merge all of them first"), "{log}");

    refuses_what_is_no_part(folder.path());
}

/// Asserts that results which are not all parts of one run are refused with one message and exit
/// code 2.
fn refuses_what_is_no_part(folder: &Path) {
    let shards = results(&folder.join("shards"));
    let names: Vec<_> = shards.iter().filter_map(|path| path.to_str()).collect();
    let refused = |folders: &[&str], says: &str| {
        let args = [&["merge"], folders, &["--out", "refused"]].concat();
        let (code, out, log) = run_to_end(folder, &args);
        assert_eq!((code, &*out), (Some(2), ""), "{folders:?}: {log}");
        assert!(log.contains(says), "{folders:?} says `{says}`: {log}");
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(!folder.join("refused").exists(), "{folders:?}");
    };
    refused(&names[1..], "missing");
    refused(&[names[0], names[0]], "is given twice");
    refused(&["whole"], "is no shard of a run");
    refused(&["nowhere"], "nowhere is not a result");
    refused(&["merged"], "is no shard of a run");
    // Damaged copies of the results.
    let damaged = |file: &str, damage: fn(Vec<u8>) -> Vec<u8>, says: &str| {
        let copy = folder.join("damaged");
        fs::create_dir(&copy).expect("a folder");
        for entry in fs::read_dir(&shards[3]).expect("a result").flatten() {
            fs::copy(entry.path(), copy.join(entry.file_name())).expect("a copy");
        }
        let bytes = fs::read(copy.join(file)).expect("a file");
        fs::write(copy.join(file), damage(bytes)).expect("a file");
        refused(&[names[0], names[1], names[2], "damaged"], says);
        fs::remove_dir_all(copy).expect("it was there");
    };
    let half = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    damaged("report.json", half, "damaged/report.json");
    damaged("histograms.hlog", half, "damaged");
    let without_last_line = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).expect("text");
        let lines: Vec<_> = text.lines().collect();
        (lines[..lines.len() - 1].join("\n") + "\n").into_bytes()
    };
    damaged(
        "histograms.hlog",
        without_last_line,
        "histograms.hlog has 0 times",
    );
    let newer = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).expect("text");
        text.replace("\"schema_version\": 2", "\"schema_version\": 99")
            .into_bytes()
    };
    damaged("report.json", newer, "has schema version 99");
    fs::rename(&shards[3], shards[3].with_extension("partial")).expect("it is there");
    refused(&["shards"], "an unfinished run left behind");
}

#[test]
fn watchers_of_each_generator_get_every_write_and_time_its_own() {
    let folder = folder();
    let (server, ends) = together(folder.path(), "watched", &[]);
    assert_eq!(writes(&server), BTreeMap::new(), "all is removed: {ends:?}");
    let shards: Vec<Value> = results(&folder.path().join("shards"))
        .iter()
        .map(|path| report(path))
        .collect();
    let mut events = 0;
    for shard in &shards {
        let (puts, watchers) = (load(shard, "puts"), load(shard, "watchers"));
        assert_eq!(puts["requests"], watchers["requests"], "{ends:?}");
        assert_eq!(count(&puts["requests"]), 50, "{puts}");
        let due = count(&puts["requests"]) * count(&watchers["clients"]);
        assert_eq!(count(&watchers["events"]), due, "{watchers}");
        events += due;
    }
    // Five watchers are divided among four generators.
    assert_eq!(events, 250);
    let merge = ["merge", "shards", "--out", "merged"];
    let (code, _, log) = run_to_end(folder.path(), &merge);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let merged = report(&results(&folder.path().join("merged"))[0]);
    let watchers = load(&merged, "watchers");
    assert_eq!(count(&watchers["clients"]), 5, "{watchers}");
    assert_eq!(count(&watchers["requests"]), 200, "{watchers}");
    assert_eq!(count(&watchers["events"]), events, "{watchers}");
    assert_eq!(count(&watchers["latency_ms"]["n"]), events, "{watchers}");
    // The number of writes, not the number of events, determines which quantiles are supported.
    assert!(watchers["latency_ms"]["p90"].is_number(), "{watchers}");
    // The first generator has two of the watchers. The others have one each, which has no spread.
    let slowest = watchers["watchers"]["slowest"].as_array().expect("two");
    let mut numbers: Vec<_> = slowest.iter().map(|one| count(&one["number"])).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 4], "{watchers}");
    let mut generators = slowest.iter().map(|one| &one["generator"]);
    assert!(generators.all(|generator| *generator == 0), "{watchers}");
}

#[test]
fn the_only_generator_says_that_it_is_one_and_can_be_merged() {
    let folder = folder();
    let server = Served::etcd();
    let args = [&of_case("mixed", &server)[..], &["--out", "out"]].concat();
    let (code, _, log) = run_to_end(folder.path(), &[&args[..], &["--shard", "0/1"]].concat());
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let report = report(&results(&folder.path().join("out"))[0]);
    assert_eq!(count(&report["shard"]["count"]), 1, "{}", report["shard"]);
    let merge = ["merge", "out", "--out", "merged"];
    let (code, _, log) = run_to_end(folder.path(), &merge);
    assert!(matches!(code, Some(0 | 3)), "{log}");
}
