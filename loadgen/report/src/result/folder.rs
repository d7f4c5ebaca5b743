//! The folder of a result. It has a temporary name until the raw data and everything else is in it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::case::Case;
use super::cpu_profile::{PROFILES, Profiler};
use super::histogram_log::{LogError, TaggedHistogram, log_name, read_log, write_log};
use super::load_intervals::{LoadInterval, read_load_intervals, write_load_intervals};
use super::report::{Report, SCHEMA_VERSION};
use super::series::{Series, SeriesError, read_series, write_series};
use crate::latency::Latencies;

/// Name of the report within a result folder. A folder without it is not a result.
pub const REPORT_FILE: &str = "report.json";
const HISTOGRAMS_FILE: &str = "histograms.hlog";
const SERIES_FILE: &str = "series.csv.gz";
/// Missing in results without small requests or loads, and in older ones.
const LOAD_INTERVALS_FILE: &str = "load_intervals.csv.gz";
/// The uncompressed series in older results, which are read but not written.
const PLAIN_SERIES_FILE: &str = "series.csv";
const SCENARIO_FILE: &str = "scenario.toml";
/// The highest number that is appended to make a file name unique.
const SAME_NAMES: usize = 1_000;
/// The maximal length of a name in bytes. File systems allow 255, including endings.
const LONGEST_NAME: usize = 200;
/// The ending of a folder's name while the folder is being filled.
const PARTIAL: &str = ".partial";

/// A result: everything that was measured, without charts and pages.
#[derive(Debug, Clone)]
pub struct SavedResult {
    /// `report.json`.
    pub report: Report,
    /// `histograms.hlog`.
    pub histograms: Vec<TaggedHistogram>,
    /// `series.csv.gz`.
    pub series: Vec<Series>,
    /// `load_intervals.csv.gz`.
    pub load_intervals: Vec<LoadInterval>,
    /// `scenario.toml`: the scenario as it was run, in full.
    pub scenario_toml: String,
}

/// Why a result could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A result of that name exists already.
    #[error("{} exists already: results are never overwritten, choose another --out", .0.display())]
    Exists(PathBuf),
    /// The folder was left behind by an unfinished run and holds no measured case.
    #[error("{} is what an unfinished run left behind, not a result", .0.display())]
    Partial(PathBuf),
    /// The folder was left behind by an unfinished run and holds measured cases. The run may still
    /// be in progress.
    #[error("{} is what an unfinished run left behind: if it runs no more, rename the folder without `{PARTIAL}` to read the rows that it measured", .0.display())]
    Unfinished(PathBuf),
    /// The folder holds no report.
    #[error("{} is not a result: it holds no {REPORT_FILE}", .0.display())]
    NoReport(PathBuf),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The report cannot be parsed or serialized.
    #[error("{}: {source}", path.display())]
    Report {
        /// The file.
        path: PathBuf,
        /// The error.
        source: serde_json::Error,
    },
    /// The report has another schema version.
    #[error("{} has schema version {found}; this program reads version {SCHEMA_VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: u64,
    },
    /// The histograms are damaged.
    #[error("{}: {source}", path.display())]
    Histograms {
        /// The file.
        path: PathBuf,
        /// The error.
        source: LogError,
    },
    /// The series, or the intervals of loads, are damaged.
    #[error("{}: {source}", path.display())]
    Series {
        /// The file.
        path: PathBuf,
        /// The error.
        source: SeriesError,
    },
}

/// A result that is being written. If it is dropped before [`ResultFolder::finish`], the folder
/// remains under a name that ends in `.partial`, and is not read as a result.
#[derive(Debug)]
pub struct ResultFolder {
    partial: PathBuf,
    whole: PathBuf,
}

impl ResultFolder {
    /// Claims `parent/name` by creating `parent/name.partial`. Call it before the run, so that an
    /// existing result is discovered before an hour of measuring and not after it.
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

    /// Returns the folder that files are written to until [`ResultFolder::finish`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes the raw data and replaces what was written before. Each file is complete at any
    /// moment. The report is written last, so it never refers to data that the other files lack.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, result: &SavedResult) -> Result<(), FolderError> {
        result.write_into(&self.partial)
    }

    /// Saves the stacks of a server's profile. Returns the file's path in the folder, for
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
        // Cases whose ids differ only in replaced characters get the same name; a number
        // distinguishes them.
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

    /// Renames the folder to its final name.
    ///
    /// # Errors
    /// When it cannot be renamed, or a result of that name has been created meanwhile.
    pub fn finish(self) -> Result<PathBuf, FolderError> {
        if self.whole.exists() {
            return Err(FolderError::Exists(self.whole));
        }
        fs::rename(&self.partial, &self.whole).map_err(at(&self.partial))?;
        Ok(self.whole)
    }

    /// Removes the folder and its contents, for a run that ended before it measured anything.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn discard(self) -> Result<(), FolderError> {
        fs::remove_dir_all(&self.partial).map_err(at(&self.partial))
    }
}

impl SavedResult {
    /// Returns the histogram of a case. `measure` is [`TaggedHistogram::measure`].
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
        write_compressed(&folder.join(SERIES_FILE), |to| {
            write_series(to, &self.series)
        })?;
        if !self.load_intervals.is_empty() {
            write_compressed(&folder.join(LOAD_INTERVALS_FILE), |to| {
                write_load_intervals(to, &self.load_intervals)
            })?;
        }
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
        // The version is checked first, so that a report of another version yields that error and
        // not one about a field.
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
        let load_intervals = match folder.join(LOAD_INTERVALS_FILE).exists() {
            true => {
                let (path, bytes) = read(LOAD_INTERVALS_FILE)?;
                read_load_intervals(MultiGzDecoder::new(bytes.as_slice()))
                    .map_err(|source| FolderError::Series { path, source })?
            }
            false => Vec::new(),
        };
        let (_, scenario) = read(SCENARIO_FILE)?;
        Ok(Self {
            report,
            histograms,
            series,
            load_intervals,
            scenario_toml: String::from_utf8_lossy(&scenario).into_owned(),
        })
    }
}

#[derive(serde::Deserialize)]
struct Versioned {
    schema_version: u64,
}

/// Returns the name of a result: `<date>T<time>-<host>-<scenario>`, in UTC, without characters that
/// file systems dislike.
#[must_use]
pub fn folder_name(started: SystemTime, host: &str, scenario: &str) -> String {
    let time = humantime::format_rfc3339_seconds(started)
        .to_string()
        .replace([':', 'Z'], "");
    format!("{time}-{}-{}", plain(host), plain(scenario))
}

/// Replaces the characters that file systems dislike and cuts the name to the length they allow.
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

/// Writes CSV, compressed.
fn write_compressed(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), SeriesError>,
) -> Result<(), FolderError> {
    write_file(path, |path, file| {
        let mut gzip = GzEncoder::new(file, Compression::default());
        fill(&mut gzip).map_err(|source| FolderError::Series {
            path: path.to_owned(),
            source,
        })?;
        gzip.finish().map(drop).map_err(at(path))
    })
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::File { path, source }
}
