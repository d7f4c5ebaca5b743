//! The folder of a suite: `suite.json` and a README.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{SCHEMA_VERSION, SuiteResult, markdown, text};
use crate::result::{FolderError, Report, SavedResult};
use crate::terminal;

/// Name of the file that identifies a folder as that of a suite.
pub const SUITE_FILE: &str = "suite.json";

/// Why a suite could not be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A file or folder could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file cannot be parsed or serialized.
    #[error("{}: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error.
        source: serde_json::Error,
    },
    /// The file has another schema version.
    #[error("{} has schema version {found}; this program reads version {SCHEMA_VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: u32,
    },
    /// The folder of a run is not next to that of the suite.
    #[error("{}: the folder of a run is `{name}`, which is no name beside it", path.display())]
    NotBeside {
        /// The suite's file.
        path: PathBuf,
        /// The name of the folder in that file.
        name: String,
    },
    /// A run of the suite cannot be read.
    #[error(transparent)]
    Run(#[from] FolderError),
}

/// Returns whether a folder belongs to a suite.
#[must_use]
pub fn is_suite(folder: &Path) -> bool {
    folder.join(SUITE_FILE).is_file()
}

/// Writes a suite into a new folder.
///
/// # Errors
/// [`SuiteError::File`] when the folder exists or cannot be written.
pub fn save(result: &SuiteResult, folder: &Path) -> Result<(), SuiteError> {
    fs::create_dir(folder).map_err(at(folder))?;
    write(result, folder)
}

/// Evaluates a saved suite again from the runs next to its folder, and rewrites its files. Returns
/// its table.
///
/// # Errors
/// [`SuiteError`] when the suite or one of its runs cannot be read, or the files cannot be written.
pub fn draw_again(folder: &Path) -> Result<String, SuiteError> {
    let path = folder.join(SUITE_FILE);
    let json = fs::read(&path).map_err(at(&path))?;
    let malformed = |source| SuiteError::Malformed {
        path: path.clone(),
        source,
    };
    let mut result: SuiteResult = serde_json::from_slice(&json).map_err(malformed)?;
    if result.schema_version != SCHEMA_VERSION {
        return Err(SuiteError::Version {
            path,
            found: result.schema_version,
        });
    }
    let folder = folder.canonicalize().map_err(at(folder))?;
    let beside = folder.parent().unwrap_or(&folder);
    let names = result.runs.iter().filter_map(|run| run.folder.as_ref());
    let runs = names.map(|name| {
        if !is_name(name) {
            return Err(SuiteError::NotBeside {
                path: path.clone(),
                name: name.clone(),
            });
        }
        let run = beside.join(name);
        let report = SavedResult::load(&run)?.report;
        Ok((run, report))
    });
    let runs = runs.collect::<Result<Vec<(PathBuf, Report)>, SuiteError>>()?;
    result.judge(runs.iter().map(|(run, report)| (run.as_path(), report)));
    write(&result, &folder)?;
    Ok(text(&result, terminal::width()))
}

/// Returns whether the name is a single path component, so that it names nothing outside of a
/// folder.
fn is_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}

/// Writes the files of a suite into its folder.
fn write(result: &SuiteResult, folder: &Path) -> Result<(), SuiteError> {
    let path = folder.join(SUITE_FILE);
    let json = serde_json::to_string_pretty(result).map_err(|source| SuiteError::Malformed {
        path: path.clone(),
        source,
    })?;
    fs::write(&path, json + "\n").map_err(at(&path))?;
    let path = folder.join("README.md");
    fs::write(&path, markdown(result)).map_err(at(&path))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SuiteError + use<'_> {
    move |source| SuiteError::File {
        path: path.to_owned(),
        source,
    }
}
