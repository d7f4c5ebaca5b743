//! The program as a child process: what it prints and saves.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// Returns the command `loadgen`, which runs in this folder.
pub(crate) fn loadgen(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("loadgen").expect("it is built for its tests");
    command.current_dir(folder);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns exit code, standard output and standard error of a process.
pub(crate) fn ended(output: &Output) -> (Option<i32>, String, String) {
    let code = output.status.code();
    (code, text(&output.stdout), text(&output.stderr))
}

/// Returns exit code, the JSON on standard output (null if there is none) and standard error of a
/// process.
pub(crate) fn ended_with_json(output: &Output) -> (Option<i32>, Value, String) {
    let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), json, text(&output.stderr))
}

/// Returns the report of the first result in a folder of results.
#[track_caller]
pub(crate) fn first_report(results: &Path) -> Value {
    let mut folders = fs::read_dir(results).expect("a result was saved").flatten();
    let folder = folders.next().expect("there is one").path();
    let report = fs::read(folder.join("report.json")).expect("a report");
    serde_json::from_slice(&report).expect("JSON")
}
