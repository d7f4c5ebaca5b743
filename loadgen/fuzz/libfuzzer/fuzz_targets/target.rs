//! Runs the target that the environment variable `FUZZ_TARGET` names: one program for all, so that
//! it is built once. `FUZZ_WRITE_SEEDS=FOLDER` writes what each of them begins with, and ends.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use fuzz_targets::{TARGETS, Target, target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("FUZZ_TARGET is `{name}`, and none of {}", names.join(", "));
        std::process::exit(2);
    })
});

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        (TARGET.run)(bytes);
    }
);

fn write_seeds() {
    let Some(folder) = std::env::var_os("FUZZ_WRITE_SEEDS") else {
        return;
    };
    for target in TARGETS {
        if let Err(error) = target.write_corpus(Path::new(&folder)) {
            eprintln!("{}: {error}", target.name);
            std::process::exit(2);
        }
    }
    std::process::exit(0);
}
