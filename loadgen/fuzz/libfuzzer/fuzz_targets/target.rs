//! Runs the target that the environment variable `FUZZ_TARGET` names: one program for all, so that
//! it is built once.

#![no_main]

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

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
