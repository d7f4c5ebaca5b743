//! Tells the program which commit it was built from, so that every result can say it.

use std::process::Command;

fn main() {
    // Everything the binary is made of: an edit anywhere may turn `-dirty` on or off.
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
