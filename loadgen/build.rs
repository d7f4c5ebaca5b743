//! Sets `LOADGEN_COMMIT` to the commit of the checkout, so that every result can name it.

use std::process::Command;

fn main() {
    // Everything that the binary is built from: an edit of any of it may add or remove `-dirty`.
    for path in [
        "src",
        "load",
        "measure",
        "plot-font",
        "report",
        "../api",
        "../workloads",
        "../bench-server",
        "../Cargo.lock",
        "../Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(args)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if let Some(head) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={head}");
    }
    // Empty outside a repository: a source archive has no commit.
    let commit = git(&[
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ])
    .unwrap_or_default();
    println!("cargo::rustc-env=LOADGEN_COMMIT={commit}");
}
