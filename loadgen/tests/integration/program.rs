//! The program as a process: exit codes, the contents of both output streams, and one message for
//! each invalid argument.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use report::result::ResultFolder;

use crate::support::program::text;
use crate::support::synthetic;

fn loadgen(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("LOADGEN_LOG")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

#[track_caller]
fn fails_with(arguments: &[&str], code: i32, saying: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(arguments, folder.path());
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(
        error.contains(saying),
        "{arguments:?} should say `{saying}`: {error}"
    );
    assert_eq!(text(&output.stdout), "", "{arguments:?} has no result");
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    fails_with(
        &["run", "pod-150k"],
        2,
        "unknown scenario `pod-150k`, did you mean `pods-150k`?",
    );
    fails_with(
        &["run", "--strategies", "steam"],
        2,
        "unknown strategy `steam`, did you mean `stream`?",
    );
    fails_with(&["run", "missing.toml"], 2, "missing.toml");
    fails_with(&["report", "missing"], 2, "missing is not a result");
    fails_with(&["compare", "a", "b"], 2, "a is not a result");
    fails_with(&["rnu"], 2, "unrecognized subcommand 'rnu'");
    fails_with(&["serve"], 2, "nothing to serve");
}

#[test]
fn help_tells_the_exit_codes_and_only_what_is_built() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let help = text(&loadgen(&["--help"], folder.path()).stdout);
    for line in [
        "run ",
        "scenarios ",
        "report ",
        "compare ",
        "serve ",
        "130  interrupted",
        "LOADGEN_LOG  what is logged",
    ] {
        assert!(help.contains(line), "`{line}` is missing: {help}");
    }
    let serve = text(&loadgen(&["serve", "--help"], folder.path()).stdout);
    assert!(
        serve.contains("--listen-client-urls"),
        "the server's own help: {serve}"
    );
}

#[test]
fn a_misspelt_log_level_is_refused() {
    let scenarios = |asked: &str| {
        Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .arg("scenarios")
            .env("LOADGEN_LOG", asked)
            .output()
            .expect("the program starts")
    };
    for asked in ["vebrose", "h2=warn,ifno"] {
        let output = scenarios(asked);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{asked}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with("error: LOADGEN_LOG="), "{error}");
    }
    for asked in ["", "INFO", "off", "warn,h2=debug", "loadgen::run=trace"] {
        let output = scenarios(asked);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{asked}: {error}");
    }
}

#[test]
fn scenarios_are_one_line_each() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(&["scenarios"], folder.path());
    let lines = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(lines.lines().count(), workloads::scenario::built_in().len());
    assert!(lines.starts_with("pods-150k "), "{lines}");
}

#[test]
fn a_saved_result_is_drawn_again_and_compared() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    // A verdict needs at least four starts of a server for each side.
    for (n, (side, speed)) in (0..8).zip([("base", 1.0), ("slow", 3.0)].into_iter().cycle()) {
        let side = parent.path().join(side);
        let folder = ResultFolder::create(&side, &format!("run-{n}")).expect("a fresh name");
        let mut result = synthetic::result(speed);
        result.report.started = format!("2026-01-02T03:0{n}:00Z");
        folder.write(&result).expect("a writable folder");
        folder.finish().expect("a free name");
    }
    let drawn = loadgen(&["report", "base/run-0"], parent.path());
    assert_eq!(drawn.status.code(), Some(0), "{}", text(&drawn.stderr));
    for file in ["report.html", "README.md", "latency.svg", "latency.png"] {
        assert!(
            parent.path().join("base/run-0").join(file).exists(),
            "{file}"
        );
    }
    let lost = loadgen(
        &["compare", "base", "slow", "--fail-above", "10%"],
        parent.path(),
    );
    assert_eq!(lost.status.code(), Some(1), "{}", text(&lost.stderr));
    let won = loadgen(
        &["compare", "slow", "base", "--fail-above", "10%"],
        parent.path(),
    );
    assert_eq!(won.status.code(), Some(0), "{}", text(&won.stdout));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .arg("scenarios")
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("the program starts");
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(0), "")
    );
}
