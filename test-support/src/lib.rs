//! For tests: the programs that `scripts/oracle` provides, and files that are made and kept. A
//! machine may lack a program, and its tests are skipped there by name; in CI nothing may be
//! missing, and they fail.

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};

/// Returns whether this is CI: `CI` is `true` or `1`.
#[must_use]
pub fn in_ci() -> bool {
    matches!(std::env::var("CI").as_deref(), Ok("true" | "1"))
}

/// Checks that a file that is kept is what it is made of. With `update`, a variable of the
/// environment, it is written anew before.
///
/// # Panics
/// When it is another, cannot be read or, with `update`, written.
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

/// Returns a program that `scripts/oracle` provides: named by `variable`, or lying where it is
/// installed, in `.tools/bin` of the repository or of a folder above.
///
/// # Errors
/// Why there is none, in words.
pub fn program(variable: &str, name: &str) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable) {
        let path = PathBuf::from(path);
        return match path.is_file() {
            // Its test may run it in another folder.
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

/// Returns the same program, or `None` after a line that says that the test is skipped.
///
/// # Panics
/// In CI, where the program is missing.
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

/// Returns the test `name` of a runner of its own, which `run` makes. Where something is `missing`
/// it is ignored, and in CI it fails and says what.
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
