//! For tests: the programs that `scripts/oracle` provides. A machine may lack one, and its tests
//! are skipped there by name; in CI nothing may be missing, and they fail.

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};

/// Returns whether this is CI: `CI` is `true` or `1`.
#[must_use]
pub fn in_ci() -> bool {
    matches!(std::env::var("CI").as_deref(), Ok("true" | "1"))
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
