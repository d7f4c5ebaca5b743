//! `loadgen suite` as a process: several scenarios, a folder for each, one verdict.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::program::text;

/// Returns a scenario of one list of few keys, whose median must be below `limit` milliseconds.
fn scenario(name: &str, limit: &str, repeats: u32) -> String {
    format!(
        "name = \"{name}\"\nsummary = \"few keys\"\nrepeats = {repeats}\n\
         [cases]\netcd = [\"stream\"]\n\
         [[threshold]]\nname = \"median of {name}\"\ncase = \"etcd/stream\"\n\
         metric = \"latency_ms.p50\"\nat_most = {limit}\n\
         [[data_set]]\nname = \"raw\"\nkind = \"raw\"\nobjects = 50\nobject_size = 100\nseed = 1\n"
    )
}

/// Returns a folder with two scenarios and a suite of both. The second scenario misses its limit.
fn suite(repeats_of_second: u32) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("easy.toml", &scenario("easy", "60_000", 3));
    write(
        "hard.toml",
        &scenario("hard", "0.000001", repeats_of_second),
    );
    let both = "[[run]]\nscenario = \"./easy.toml\"\n[[run]]\nscenario = \"./hard.toml\"\n";
    write(
        "both.toml",
        &format!("name = \"both\"\nsummary = \"two\"\n{both}"),
    );
    folder
}

fn loadgen(folder: &Path, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command.args(line).current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, line: &[&str]) -> Output {
    loadgen(folder, line).output().expect("it runs")
}

/// Returns the result folder of a scenario or a suite.
fn result(folder: &Path, name: &str) -> PathBuf {
    let entries = fs::read_dir(folder.join("out")).expect("results");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    let found = paths.find(|path| path.to_string_lossy().ends_with(&format!("-{name}")));
    found.unwrap_or_else(|| panic!("there is a result of {name}"))
}

#[test]
fn two_scenarios_have_a_folder_each_and_one_verdict() {
    let folder = suite(3);
    let line = ["suite", "both.toml", "--out", "out", "--format", "json"];
    let output = run(folder.path(), &line);
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "one limit is missed: {log}");
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    let met: Vec<_> = verdict["thresholds"]
        .as_array()
        .expect("lines")
        .iter()
        .collect();
    assert_eq!(met.len(), 2, "{verdict}");
    assert_eq!(
        (&met[0]["scenario"], &met[0]["met"]),
        (&"easy".into(), &true.into())
    );
    assert_eq!(
        (&met[1]["scenario"], &met[1]["met"]),
        (&"hard".into(), &false.into())
    );
    for name in ["easy", "hard"] {
        let report = fs::read(result(folder.path(), name).join("report.json")).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        assert_eq!(report["scenario"], name);
    }
    let own = result(folder.path(), "both");
    let saved: Value =
        serde_json::from_slice(&fs::read(own.join("suite.json")).expect("saved")).expect("JSON");
    assert_eq!(saved, verdict);

    // The verdict is computed from the saved results, and can be computed again.
    fs::remove_file(own.join("README.md")).expect("it was there");
    let again = run(folder.path(), &["report", &own.display().to_string()]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    let headline = "both: 2 thresholds: 1 met, 1 missed, 0 undecided, 0 not measured";
    assert!(
        text(&again.stdout).contains(headline),
        "{}",
        text(&again.stdout)
    );
    let page = fs::read_to_string(own.join("README.md")).expect("made again");
    assert!(page.contains(headline), "{page}");
}

#[test]
fn a_target_that_dies_is_a_note_and_the_rest_is_measured() {
    let folder = suite(3);
    let line = ["suite", "both.toml", "--out", "out", "--format", "markdown"];
    let program = folder.path().join("etcd");
    let dies = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'etcd Version: 3.7.1' || exit 1\n";
    fs::write(&program, dies).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    let target = ["--target", &format!("etcd:{}", program.display())];
    let output = run(folder.path(), &[&line[..], &target].concat());
    let page = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{page}{}",
        text(&output.stderr)
    );
    assert!(
        page.contains("- easy ended with exit code 1\n- hard ended with exit code 1\n"),
        "{page}"
    );
    assert!(page.contains("0 met, 0 missed"), "{page}");
}

#[test]
fn interrupted_it_keeps_and_judges_what_was_measured() {
    let folder = suite(1_000_000);
    let mut child = loadgen(folder.path(), &["suite", "both.toml", "--out", "out"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let log = BufReader::new(child.stderr.take().expect("its log"));
    let mut lines = log.lines().map_while(Result::ok);
    // The first run is saved; the second has started and would take hours.
    let first = lines.find(|line| line.starts_with("result: "));
    let second = lines.find(|line| line.contains("listing"));
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).expect("it runs");
    let log: Vec<String> = first.into_iter().chain(second).chain(lines).collect();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{log:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("1 met, "), "{shown}");
    assert!(shown.contains("INTERRUPTED"), "{shown}");
    let saved = fs::read(result(folder.path(), "both").join("suite.json")).expect("saved");
    let saved: Value = serde_json::from_slice(&saved).expect("JSON");
    assert_eq!(saved["interrupted"], true);
}

#[test]
fn mistakes_are_one_line_before_anything_starts() {
    let folder = suite(3);
    let broken = "name = \"broken\"\nsummary = \"\"\n[[run]]\nscenario = \"watcher\"\n";
    fs::write(folder.path().join("broken.toml"), broken).expect("written");
    let missing = "name = \"m\"\nsummary = \"\"\n[[run]]\nscenario = \"./easy.toml\"\n[[run]]\nscenario = \"./gone.toml\"\n";
    fs::write(folder.path().join("missing.toml"), missing).expect("written");
    for (line, words) in [
        (
            &["suite", "sped"][..],
            "unknown suite `sped`, did you mean `speed`?",
        ),
        (&["suite", "gone.toml"], "suite gone.toml: No such file"),
        (
            &["suite", "broken.toml"],
            "unknown scenario `watcher`, did you mean `watchers`?",
        ),
        (&["suite", "missing.toml"], "scenario ./gone.toml: "),
        (
            &["suite", "easy.toml"],
            "suite easy.toml, line 4: unknown field `cases`",
        ),
        (
            &["suite", "quick", "--target", "bnech"],
            "target `bnech` is none of",
        ),
        (&["suite", "quick", "--objects", "0"], "--objects"),
        (
            &["suite", "quick", "--rate", "5"],
            "unexpected argument '--rate'",
        ),
    ] {
        let output = run(folder.path(), line);
        let log = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {log}");
        assert!(log.contains(words), "{line:?} should say `{words}`: {log}");
        assert_eq!(log.matches("error:").count(), 1, "{log}");
        assert!(!folder.path().join("out").exists() && !folder.path().join("scratch").exists());
    }
}

#[test]
fn without_a_name_the_suites_are_listed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = run(folder.path(), &["suite"]);
    assert_eq!(output.status.code(), Some(0));
    let names = text(&output.stdout);
    let names: Vec<_> = names
        .lines()
        .filter_map(|line| line.split_once("  "))
        .collect();
    let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["quick", "speed"]);
}
