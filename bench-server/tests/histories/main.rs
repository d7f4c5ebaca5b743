//! Runs concurrent clients, watches and faults, and checks the recorded history for linearizability
//! and etcd's watch guarantees (the crate `history`).
//!
//! ```text
//! cargo test -p bench-server --test histories                                # 3 s each
//! HISTORY_SEED=7 HISTORY_SECONDS=60 cargo test -p bench-server --test histories -- bench::kill
//! HISTORY_FILE=PATH cargo test -p bench-server --test histories              # a history again
//! ```
//!
//! The seed determines the requests of each client and the times of faults. How requests interleave
//! differs from run to run, so a history that fails is written to a file, whose path is printed.
//! The cases named `planted` run with a server or a wrapper that breaks a guarantee, and must find
//! a violation of the broken rule.

mod client;
mod convert;
mod expiry;
mod faults;
mod lies;
mod members;
#[allow(dead_code, reason = "the conformance table uses more of it")]
#[path = "../conformance/peer.rs"]
mod peer;
mod random_requests;
mod run;
mod watcher;

use std::process::ExitCode;

use history::{History, Rule, Violation};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::faults::Faults;
use crate::lies::Lie;
use crate::peer::Peer;
use crate::run::{Plan, Ran};

/// The program that serves the etcd tier.
const SERVER: &str = env!("CARGO_BIN_EXE_bench-server");

/// Flags of a server that loses no acknowledged write.
const DURABLE: &[&str] = &["--data-dir=data", "--fsync=always"];
/// Minimum number of writes, of reads and of events in a run on any machine, besides one lease that
/// expires. A run with fewer checks too little to prove anything.
const MIN_OPERATIONS: usize = 10;
/// Maximum number of violations that a failed run prints; the file has the whole history.
const SHOWN: usize = 5;

/// A run that must find no violation or, in a `planted` case, a violation of one of the rules
/// `broken`.
struct Case {
    name: &'static str,
    peer: Peer,
    members: usize,
    flags: &'static [&'static str],
    faults: Faults,
    lie: Option<Lie>,
    broken: &'static [Rule],
}

const fn case(name: &'static str, peer: Peer, faults: Faults) -> Case {
    Case {
        name,
        peer,
        members: 1,
        flags: &[],
        faults,
        lie: None,
        broken: &[],
    }
}

const fn planted(name: &'static str, lie: Lie, broken: &'static [Rule]) -> Case {
    Case {
        lie: Some(lie),
        broken,
        ..case(name, Peer::Bench, Faults::None)
    }
}

const CASES: &[Case] = &[
    case("bench::calm", Peer::Bench, Faults::None),
    case("bench-buffered::calm", Peer::BenchBuffered, Faults::None),
    case("bench::pauses_and_cuts", Peer::Bench, Faults::PauseAndCut),
    Case {
        flags: DURABLE,
        ..case("bench::kill", Peer::Bench, Faults::Kill)
    },
    case("etcd::calm", Peer::Etcd, Faults::None),
    case("etcd::pauses_and_cuts", Peer::Etcd, Faults::PauseAndCut),
    case("etcd::kill", Peer::Etcd, Faults::Kill),
    Case {
        members: 3,
        ..case(
            "etcd-cluster::pauses_and_cuts",
            Peer::Etcd,
            Faults::PauseAndCut,
        )
    },
    Case {
        members: 3,
        ..case("etcd-cluster::kill", Peer::Etcd, Faults::Kill)
    },
    planted("planted::stale_read", Lie::StaleRead, &[Rule::StaleRead]),
    planted("planted::lost_write", Lie::LostWrite, &[Rule::LostWrite]),
    planted("planted::lost_event", Lie::LostEvent, &[Rule::WatchGap]),
    planted(
        "planted::early_expiry",
        Lie::EarlyExpiry,
        &[Rule::EarlyExpiry],
    ),
    // A server that stores nothing on disk assigns the same revisions again.
    Case {
        broken: &[Rule::LostWrite, Rule::RevisionTwice, Rule::StaleRead],
        ..case("planted::forgotten", Peer::Bench, Faults::Kill)
    },
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match std::env::var("HISTORY_FILE") {
        Ok(path) => vec![Trial::test("file", move || check_file(&path))],
        Err(_) => CASES.iter().map(trial).collect(),
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns the test of a case. If the peer is missing, the test is ignored; in CI it fails.
fn trial(case: &'static Case) -> Trial {
    let missing = case.peer.missing();
    if let Some(reason) = &missing {
        eprintln!("no case {}: {reason}", case.name);
    }
    test_support::trial(case.name, missing, move || run_case(case))
}

/// Reads a number from an environment variable.
fn setting(name: &str, default: u64) -> Result<u64, Failed> {
    match std::env::var(name) {
        Ok(text) => match text.parse() {
            Ok(number) => Ok(number),
            Err(_) => Err(format!("{name} is no number: {text}").into()),
        },
        Err(_) => Ok(default),
    }
}

fn run_case(case: &Case) -> Result<(), Failed> {
    let seed = setting("HISTORY_SEED", 1)?;
    let plan = Plan {
        peer: case.peer,
        members: case.members,
        flags: case.flags,
        faults: case.faults,
        lie: case.lie,
        seed,
        seconds: setting("HISTORY_SECONDS", 3)?,
    };
    let Ran {
        history,
        unfinished,
    } = run::run(&plan)?;
    let result = history::check(&history);
    if !case.broken.is_empty() {
        let Err(found) = result else {
            return Err("what was planted was not found".into());
        };
        let is_found = found.iter().any(|one| case.broken.contains(&one.rule));
        return match is_found {
            true => Ok(()),
            false => Err(violations_text(&found).into()),
        };
    }
    let problem = match (result, unfinished) {
        (Ok(_), Some(unfinished)) => unfinished,
        // An incomplete log makes writes look lost, so that is reported first.
        (Err(found), Some(unfinished)) => format!("{unfinished}; {}", violations_text(&found)),
        (Err(found), None) => violations_text(&found),
        (Ok(checked), None) => {
            println!("{}: seed {seed}: {checked:?}", case.name);
            let least = checked.writes.min(checked.reads).min(checked.events);
            return match least >= MIN_OPERATIONS && checked.expiries > 0 {
                true => Ok(()),
                false => Err(format!("hardly anything was done: {checked:?}").into()),
            };
        }
    };
    let path = format!(
        "{}/history-{}-{seed}.json",
        env!("CARGO_TARGET_TMPDIR"),
        case.name
    );
    let path = path.replace("::", "-");
    std::fs::write(&path, serde_json::to_vec(&history)?)?;
    Err(format!("seed {seed}: {problem}\nHISTORY_FILE={path} checks it again").into())
}

/// Checks a history that a failed run has written to a file.
fn check_file(path: &str) -> Result<(), Failed> {
    let history: History = serde_json::from_slice(&std::fs::read(path)?)?;
    match history::check(&history) {
        Ok(checked) => {
            println!("{checked:?}");
            Ok(())
        }
        Err(found) => Err(violations_text(&found).into()),
    }
}

/// Returns the first violations as lines.
fn violations_text(found: &[Violation]) -> String {
    let lines = found.iter().take(SHOWN).map(ToString::to_string);
    let lines: Vec<String> = lines.collect();
    format!("{} violations:\n{}", found.len(), lines.join("\n"))
}
