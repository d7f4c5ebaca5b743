//! The folder of a result: raw data first, under a temporary name until everything is in it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::case::Case;
use super::cpu_profile::{PROFILES, Profiler};
use super::histogram_log::{LogError, TaggedHistogram, log_name, read_log, write_log};
use super::report::{Report, SCHEMA_VERSION};
use super::series::{Series, SeriesError, read_series, write_series};
use crate::latency::Latencies;

/// Name of the report within a result folder; a folder without it is none.
pub const REPORT_FILE: &str = "report.json";
const HISTOGRAMS_FILE: &str = "histograms.hlog";
const SERIES_FILE: &str = "series.csv.gz";
/// The series of results that were saved uncompressed. Still read, no longer written.
const PLAIN_SERIES_FILE: &str = "series.csv";
const SCENARIO_FILE: &str = "scenario.toml";
/// Files that may have the same name but for a number behind it.
const SAME_NAMES: usize = 1_000;
/// Bytes of a name: file systems allow 255, endings included.
const LONGEST_NAME: usize = 200;
/// What a folder's name ends with while it is being filled.
const PARTIAL: &str = ".partial";

/// Everything that is measured, before any of it is drawn.
#[derive(Debug, Clone)]
pub struct SavedResult {
    /// `report.json`.
    pub report: Report,
    /// `histograms.hlog`.
    pub histograms: Vec<TaggedHistogram>,
    /// `series.csv.gz`.
    pub series: Vec<Series>,
    /// `scenario.toml`: the scenario as it was run, in full.
    pub scenario_toml: String,
}

/// Why a result could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is a result of that name already.
    #[error("{} exists already: results are never overwritten, choose another --out", .0.display())]
    Exists(PathBuf),
    /// The folder is there but was never finished, nor any case of it.
    #[error("{} is what an unfinished run left behind, not a result", .0.display())]
    Partial(PathBuf),
    /// The folder is there and has cases, but was never finished; a run may still be at it.
    #[error("{} is what an unfinished run left behind: if it runs no more, rename the folder without `{PARTIAL}` to read the rows that it measured", .0.display())]
    Unfinished(PathBuf),
    /// The folder holds no report.
    #[error("{} is not a result: it holds no {REPORT_FILE}", .0.display())]
    NoReport(PathBuf),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The report is not one of ours.
    #[error("{}: {source}", path.display())]
    Report {
        /// Which one.
        path: PathBuf,
        /// What is wrong in it.
        source: serde_json::Error,
    },
    /// A report of another version.
    #[error("{} has schema version {found}; this program reads version {SCHEMA_VERSION}", path.display())]
    Version {
        /// Which one.
        path: PathBuf,
        /// The version in it.
        found: u64,
    },
    /// The histograms are damaged.
    #[error("{}: {source}", path.display())]
    Histograms {
        /// Which file.
        path: PathBuf,
        /// What is wrong in it.
        source: LogError,
    },
    /// The series are damaged.
    #[error("{}: {source}", path.display())]
    Series {
        /// Which file.
        path: PathBuf,
        /// What is wrong in it.
        source: SeriesError,
    },
}

/// A result that is being written. Dropped unfinished, it leaves a folder whose name ends in
/// `.partial`, which nothing takes for a result.
#[derive(Debug)]
pub struct ResultFolder {
    partial: PathBuf,
    whole: PathBuf,
}

impl ResultFolder {
    /// Claims `parent/name` by making `parent/name.partial`. Call it before the run: an existing
    /// result must not be found out about only after an hour of measuring.
    ///
    /// # Errors
    /// When either folder exists, or cannot be made.
    pub fn create(parent: &Path, name: &str) -> Result<Self, FolderError> {
        let whole = parent.join(name);
        let partial = parent.join(format!("{name}{PARTIAL}"));
        if whole.exists() {
            return Err(FolderError::Exists(whole));
        }
        fs::create_dir_all(parent).map_err(at(parent))?;
        fs::create_dir(&partial).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => FolderError::Exists(partial.clone()),
            _ => FolderError::File {
                path: partial.clone(),
                source,
            },
        })?;
        Ok(Self { partial, whole })
    }

    /// Returns where files go until [`ResultFolder::finish`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes the raw data, over what was written before: each file is whole at any moment, and the
    /// report, the last of them, tells of nothing that the others do not have.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, result: &SavedResult) -> Result<(), FolderError> {
        result.write_into(&self.partial)
    }

    /// Keeps the stacks of a profile of a server; returns its path in the folder, for
    /// [`super::CpuProfile::file`].
    ///
    /// # Errors
    /// When the file cannot be written, or there is one of that name.
    pub fn keep_profile(
        &self,
        case: &Case,
        process: &str,
        profiler: Profiler,
        stacks: &[u8],
    ) -> Result<String, FolderError> {
        let folder = self.partial.join(PROFILES);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let name = plain(&format!("{}-{process}", case.id()));
        let end = profiler.extension();
        // Names that differ in what file systems dislike only are told apart by a number.
        for number in 1..=SAME_NAMES {
            let apart = if number == 1 {
                String::new()
            } else {
                format!("-{number}")
            };
            let path = format!("{PROFILES}{name}{apart}{end}");
            let file = self.partial.join(&path);
            match File::create_new(&file) {
                Ok(mut new) => {
                    new.write_all(stacks).map_err(at(&file))?;
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&file)(error)),
            }
        }
        Err(FolderError::Exists(folder.join(name)))
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// When it cannot be renamed, or a result of that name has appeared meanwhile.
    pub fn finish(self) -> Result<PathBuf, FolderError> {
        if self.whole.exists() {
            return Err(FolderError::Exists(self.whole));
        }
        fs::rename(&self.partial, &self.whole).map_err(at(&self.partial))?;
        Ok(self.whole)
    }

    /// Removes the folder and what is in it: for a run that ended before it measured anything.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn discard(self) -> Result<(), FolderError> {
        fs::remove_dir_all(&self.partial).map_err(at(&self.partial))
    }
}

impl SavedResult {
    /// Returns the histogram of a case: `latency`, `null_sink`, `first_chunk` or `lag`.
    #[must_use]
    pub fn histogram(&self, measure: &str, case: &Case) -> Option<&Latencies> {
        let case = log_name(&case.id());
        self.histograms
            .iter()
            .find(|entry| entry.measure == measure && log_name(&entry.case) == case)
            .map(|entry| &entry.histogram)
    }

    fn write_into(&self, folder: &Path) -> Result<(), FolderError> {
        let base = humantime::parse_rfc3339(&self.report.started).unwrap_or(SystemTime::UNIX_EPOCH);
        write_file(&folder.join(HISTOGRAMS_FILE), |path, file| {
            write_log(file, base, &self.histograms).map_err(|source| FolderError::Histograms {
                path: path.to_owned(),
                source,
            })
        })?;
        write_file(&folder.join(SERIES_FILE), |path, file| {
            let mut gzip = GzEncoder::new(file, Compression::default());
            write_series(&mut gzip, &self.series).map_err(|source| FolderError::Series {
                path: path.to_owned(),
                source,
            })?;
            gzip.finish().map(drop).map_err(at(path))
        })?;
        write_file(&folder.join(SCENARIO_FILE), |path, file| {
            file.write_all(self.scenario_toml.as_bytes())
                .map_err(at(path))
        })?;
        write_file(&folder.join(REPORT_FILE), |path, file| {
            serde_json::to_writer_pretty(&mut *file, &self.report).map_err(|source| {
                FolderError::Report {
                    path: path.to_owned(),
                    source,
                }
            })?;
            file.write_all(b"\n").map_err(at(path))
        })
    }

    /// Reads a finished result.
    ///
    /// # Errors
    /// When the folder is unfinished, is no result, is of another schema version, or a file in it
    /// is missing or damaged.
    pub fn load(folder: &Path) -> Result<Self, FolderError> {
        if folder
            .as_os_str()
            .to_string_lossy()
            .trim_end_matches('/')
            .ends_with(PARTIAL)
        {
            let path = folder.to_owned();
            return Err(match folder.join(REPORT_FILE).exists() {
                true => FolderError::Unfinished(path),
                false => FolderError::Partial(path),
            });
        }
        let path = folder.join(REPORT_FILE);
        let json = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                FolderError::NoReport(folder.to_owned())
            }
            _ => FolderError::File {
                path: path.clone(),
                source,
            },
        })?;
        let malformed = |source| FolderError::Report {
            path: path.clone(),
            source,
        };
        // The version first: a report of another version should say so, not complain about a field.
        let versioned: Versioned = serde_json::from_slice(&json).map_err(malformed)?;
        if versioned.schema_version != u64::from(SCHEMA_VERSION) {
            return Err(FolderError::Version {
                path,
                found: versioned.schema_version,
            });
        }
        let report = serde_json::from_slice(&json).map_err(malformed)?;
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path)
                .map_err(at(&path))
                .map(|bytes| (path, bytes))
        };
        let (path, bytes) = read(HISTOGRAMS_FILE)?;
        let histograms =
            read_log(&bytes).map_err(|source| FolderError::Histograms { path, source })?;
        let is_plain = folder.join(PLAIN_SERIES_FILE).exists();
        let (path, bytes) = match is_plain {
            true => read(PLAIN_SERIES_FILE)?,
            false => read(SERIES_FILE)?,
        };
        let series = match is_plain {
            true => read_series(bytes.as_slice()),
            false => read_series(MultiGzDecoder::new(bytes.as_slice())),
        }
        .map_err(|source| FolderError::Series { path, source })?;
        let (_, scenario) = read(SCENARIO_FILE)?;
        Ok(Self {
            report,
            histograms,
            series,
            scenario_toml: String::from_utf8_lossy(&scenario).into_owned(),
        })
    }
}

#[derive(serde::Deserialize)]
struct Versioned {
    schema_version: u64,
}

/// Returns the name of a result: `<date>T<time>-<host>-<scenario>`, in UTC and without what file
/// systems dislike.
#[must_use]
pub fn folder_name(started: SystemTime, host: &str, scenario: &str) -> String {
    let time = humantime::format_rfc3339_seconds(started)
        .to_string()
        .replace([':', 'Z'], "");
    format!("{time}-{}-{}", plain(host), plain(scenario))
}

/// Returns a name without what file systems dislike, and no longer than they allow.
fn plain(text: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || "-_.".contains(c) {
        true => c,
        false => '_',
    };
    text.chars().take(LONGEST_NAME).map(plain).collect()
}

fn write_file(
    path: &Path,
    fill: impl FnOnce(&Path, &mut BufWriter<File>) -> Result<(), FolderError>,
) -> Result<(), FolderError> {
    let new = path.with_added_extension("new");
    let mut file = BufWriter::new(File::create(&new).map_err(at(&new))?);
    fill(path, &mut file)?;
    file.flush().map_err(at(&new))?;
    fs::rename(&new, path).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::File { path, source }
}
