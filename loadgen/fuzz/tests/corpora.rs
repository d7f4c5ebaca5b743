//! Runs every target on its seeds, on the inputs that have broken a rule before, and on mutations
//! of both.
//!
//! `FUZZ_MUTATIONS=N` makes N mutations for each target (default 2,000), `FUZZ_SEED=S` makes other
//! ones. A failure prints the target and writes the input into its corpus, to be committed with the
//! fix. The same happens for an input that takes longer than ten seconds, which ends the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use fuzz_targets::mutation::{self, Mutations};
use fuzz_targets::watchdog::{self, Watchdog};
use fuzz_targets::{TARGETS, Target, target};

/// Maximum size of an input, bytes.
const LARGEST: usize = 64 * 1024;

#[test]
fn every_target_holds_on_its_corpus_and_its_mutations() {
    let mutations = mutation::count();
    let seed = mutation::seed();
    let watchdog = Watchdog::start(watchdog::LIMIT, |name, input| {
        let target = target(name).expect("it is one of them");
        let file = keep(target, input).display().to_string();
        let seconds = watchdog::LIMIT.as_secs();
        eprintln!("{name}: still running after {seconds} s on the input in {file}");
        std::process::exit(1);
    });
    let mut failed = Vec::new();
    for target in TARGETS {
        let corpus = target.corpus();
        if let Err(input) = try_target(target, &corpus, (mutations, seed), &watchdog) {
            failed.push(format!("{}: {}", target.name, input.display()));
        }
    }
    assert!(failed.is_empty(), "broken by the inputs in {failed:#?}");
}

/// Runs a target on all inputs; the error is the file with the input that broke a rule.
fn try_target(
    target: &Target,
    corpus: &[Vec<u8>],
    (mutations, seed): (u64, u64),
    watchdog: &Watchdog,
) -> Result<(), PathBuf> {
    for input in corpus {
        try_input(target, input, watchdog)?;
    }
    for i in 0..mutations {
        let mut input = Mutations::new(seed, i).of(corpus);
        input.truncate(LARGEST);
        try_input(target, &input, watchdog)?;
    }
    Ok(())
}

fn try_input(target: &Target, input: &[u8], watchdog: &Watchdog) -> Result<(), PathBuf> {
    match catch_unwind(AssertUnwindSafe(|| watchdog.run(target, input))) {
        Ok(()) => Ok(()),
        Err(_) => Err(keep(target, input)),
    }
}

/// Writes an input into its target's corpus; returns the file.
fn keep(target: &Target, input: &[u8]) -> PathBuf {
    let name = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folder = target.folder();
    let file = folder.join(format!("{name:016x}"));
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&file, input))
        .expect("the corpus is writable");
    file
}
