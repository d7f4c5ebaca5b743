//! Support for tests: the programs that `scripts/oracle` provides, comparison with generated files
//! that are committed, free ports, certificates, random choices, HTTP servers whose responses a
//! test defines, and a proxy for faults of connections. On a machine that lacks a program, its
//! tests are skipped and reported by name; in CI they fail.

pub mod http1_server;
pub mod identity;
pub mod own_thread;
pub mod ports;
pub mod proxy;
pub mod rng;
pub mod scripted_api;

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};

/// Returns whether the tests run in CI: the environment variable `CI` is `true` or `1`.
#[must_use]
pub fn in_ci() -> bool {
    matches!(std::env::var("CI").as_deref(), Ok("true" | "1"))
}

/// Checks that the committed file `path` equals `made`, the text generated for it. If the
/// environment variable `update` is set, the file is written first.
///
/// # Panics
/// If the file differs, cannot be read or, with `update`, cannot be written.
#[track_caller]
pub fn assert_kept(path: &Path, made: &str, update: &str) {
    if std::env::var_os(update).is_some() {
        std::fs::write(path, made).expect("a writable source tree");
    }
    let kept = std::fs::read_to_string(path).expect("a file that is kept");
    assert!(
        kept == made,
        "{} is out of date: run this test with {update}=1 and look at the difference",
        path.display()
    );
}

/// Returns the path of a program that `scripts/oracle` provides: the value of the environment
/// variable `variable`, or the program installed in `.tools/bin` of the repository or of a folder
/// above.
///
/// # Errors
/// The reason why the program was not found, as a message.
pub fn program(variable: &str, name: &str) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable) {
        let path = PathBuf::from(path);
        return match path.is_file() {
            // The test may run the program in another folder.
            true => Ok(std::path::absolute(&path).unwrap_or(path)),
            false => Err(format!("{variable} names no file: {}", path.display())),
        };
    }
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut installed = above.map(|folder| folder.join(".tools/bin").join(name));
    match installed.find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => Err(format!(
            "{variable} is not set; scripts/oracle provides {name}"
        )),
    }
}

/// Returns the program like [`program`]. If it is missing, prints that the test is skipped and
/// returns `None`.
///
/// # Panics
/// If the program is missing in CI.
#[track_caller]
#[must_use]
pub fn program_or_skip(variable: &str, name: &str) -> Option<PathBuf> {
    match program(variable, name) {
        Ok(path) => Some(path),
        Err(reason) => {
            assert!(!in_ci(), "{reason}");
            println!("skipped: {reason}");
            None
        }
    }
}

/// Returns the test `name` for a binary with its own test runner (libtest-mimic), which executes
/// `run`. If something is `missing`, the test is ignored; in CI it fails with that reason.
pub fn trial<E: Into<Failed>>(
    name: impl Into<String>,
    missing: Option<String>,
    run: impl FnOnce() -> Result<(), E> + Send + 'static,
) -> Trial {
    let is_skipped = missing.is_some() && !in_ci();
    Trial::test(name, move || match missing {
        Some(reason) => Err(Failed::from(reason)),
        None => run().map_err(Into::into),
    })
    .with_ignored_flag(is_skipped)
}
