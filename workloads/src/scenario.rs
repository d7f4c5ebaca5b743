//! Scenarios: the data sets to load, the cases to measure on them, and the number of repeats.
//!
//! A scenario is a TOML file. The built-in ones are part of the program, so that the binary alone
//! can run them, and are examples for users' own files.
//!
//! - [`data`]: data sets
//! - [`case`]: cases of one strategy; [`loads`]: cases of several loads
//! - [`background`]: loads that run in the background of a case; [`network`]: the emulated network
//! - [`threshold`]: limits of metrics; [`machine_thresholds`]: those of one machine
//! - [`overrides`]: the parts of a scenario that the command line replaces
//! - [`saturate`]: searches for the highest rate that keeps an objective; [`units`]: sizes and
//!   durations with their units

mod background;
mod case;
mod data;
mod loads;
mod machine_thresholds;
mod network;
mod overrides;
mod saturate;
mod threshold;
mod units;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::cpu_list::CpuList;
use crate::did_you_mean::did_you_mean;
use crate::strategy::Tier;

pub use background::{Background, Keys};
pub use case::{BaselineMode, CaseSpec, Cases, Http, Media, Reshard, ShardKey, ShardPlan, Writes};
pub use data::{DataSetSpec, Kind};
pub use loads::{LoadSpec, LoadsSpec, Operation, OperationError, Stall, Start, Streams};
pub use machine_thresholds::{MachineThresholds, MachineThresholdsError};
pub use network::{Bandwidth, BandwidthError, Network};
pub use overrides::Overrides;
pub use saturate::{Objective, ObjectiveError, Saturate};
pub use threshold::ThresholdSpec;
pub(crate) use units::duration_text;
pub use units::{ByteSize, ByteSizeError, parse_with_unit};

/// The scenario that `loadgen` runs by default.
pub const DEFAULT: &str = "pods-150k";

/// Returns the name and the text of each file `../scenarios/NAME.toml`.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../scenarios/", $name, ".toml")))),*]
    };
}

const BUILT_IN: [(&str, &str); 37] = built_in![
    "pods-150k",
    "list-large",
    "objects-1mb",
    "mixed-sizes",
    "stream-shapes",
    "small-requests",
    "watchers",
    "speed-lists",
    "speed-together",
    "speed-flat",
    "kube-150k",
    "sel-small",
    "sel-large",
    "kubelets",
    "informers-1mb",
    "informers-1024",
    "pods-80k",
    "chunk-sweep",
    "slow-reader",
    "real-clients",
    "sharded-150k",
    "list-under-write",
    "kubernetes-mix",
    "kubernetes-writes",
    "write-watch",
    "check-perf",
    "txn-mixed",
    "growth",
    "cache-fill",
    "lease-keepalive",
    "watch-latency",
    "etcd-benchmark",
    "consistent-100",
    "slow-network",
    "sustained",
    "soak",
    "soak-kube",
];

/// The data sets to load, the cases to measure on them, and the number of repeats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// Name on the command line.
    pub name: String,
    /// Summary in one line, for `loadgen scenarios`.
    pub summary: String,
    /// What the scenario's report shows.
    pub description: String,
    /// Measured whole lists per case and client.
    pub repeats: u32,
    /// Concurrent lists.
    pub clients: u32,
    /// Minimum number of whole lists before measuring. On servers that the run starts, lists
    /// continue until time and memory are stable. 0 measures without a warm-up.
    pub warmup: u32,
    /// Streams that are cancelled after their first chunk; 0 for none.
    pub first_chunk_streams: u32,
    /// Time limit of all streams of [`Self::first_chunk_streams`] together; 5 s by default, 20 s
    /// with other loads.
    #[serde(
        with = "duration_text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub first_chunk_within: Option<Duration>,
    /// Duration of a case of small requests.
    #[serde(with = "duration_text")]
    pub duration: Duration,
    /// Small requests per second (open loop); without it each client waits for its response (closed
    /// loop).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// CPUs of the servers that the run starts; all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpus: Option<CpuList>,
    /// CPUs of the generator; all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cpus: Option<CpuList>,
    /// The cases to measure, including [`Self::loads`].
    pub cases: Cases,
    /// Cases of several loads.
    #[serde(rename = "case", skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LoadsSpec>,
    /// Loads that run in the background of the cases that name them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<Background>,
    /// Limits of metrics.
    #[serde(rename = "threshold", skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdSpec>,
    /// Data sets, which are loaded and measured one by one in this order; never empty.
    #[serde(rename = "data_set")]
    pub data_sets: Vec<DataSetSpec>,
}

/// An error of a scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// No built-in scenario has this name.
    #[error(
        "unknown scenario `{name}`, did you mean `{suggestion}`? (`loadgen scenarios` lists them)"
    )]
    Unknown {
        /// The given name.
        name: String,
        /// The most similar built-in name.
        suggestion: &'static str,
    },
    /// The file could not be read.
    #[error("scenario {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a scenario.
    #[error("scenario {origin}, line {line}: {message}")]
    Invalid {
        /// File or built-in name.
        origin: String,
        /// Line of the offending value, from 1.
        line: usize,
        /// The error.
        message: String,
    },
    /// An override cannot be applied.
    #[error("scenario `{scenario}`: {message}")]
    Override {
        /// The scenario.
        scenario: String,
        /// The error.
        message: String,
    },
}

/// The content of a scenario file, with spans for the line numbers of errors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    summary: String,
    #[serde(default)]
    description: String,
    repeats: NonZeroU32,
    #[serde(default = "one")]
    clients: NonZeroU32,
    #[serde(default)]
    warmup: u32,
    #[serde(default)]
    first_chunk_streams: u32,
    #[serde(default, with = "duration_text::option")]
    first_chunk_within: Option<Duration>,
    #[serde(default = "five_seconds", with = "duration_text")]
    duration: Duration,
    #[serde(default)]
    rate: Option<f64>,
    #[serde(default)]
    server_cpus: Option<CpuList>,
    #[serde(default)]
    client_cpus: Option<CpuList>,
    #[serde(default, alias = "rows")]
    cases: Option<Spanned<Cases>>,
    #[serde(default)]
    case: Vec<Spanned<LoadsSpec>>,
    #[serde(default)]
    background: Vec<Spanned<Background>>,
    #[serde(default, alias = "bar")]
    threshold: Vec<Spanned<ThresholdSpec>>,
    data_set: Vec<Spanned<DataSetSpec>>,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

// === impl Scenario ===

impl Scenario {
    /// Returns the built-in scenario of this name.
    ///
    /// # Errors
    /// [`ScenarioError::Unknown`] with a suggestion.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        Self::parse(text_of(name)?, name)
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// [`ScenarioError::Read`], or [`ScenarioError::Invalid`] with the line.
    pub fn from_path(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses a scenario; `origin` names it in errors.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`] with the line of the unknown, missing or contradictory value.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ScenarioError> {
        let invalid = |start: usize, message: String| ScenarioError::Invalid {
            origin: origin.to_owned(),
            line: line_at(text, start),
            message,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            invalid(start, error.message().to_owned())
        })?;

        let name_start = file.name.span().start;
        let name = file.name.into_inner();
        check_name(&name).map_err(|message| invalid(name_start, message))?;

        let cases_start = file.cases.as_ref().map_or(0, |cases| cases.span().start);
        let mut cases = file.cases.map(Spanned::into_inner).unwrap_or_default();
        let at = |(start, message)| invalid(start, message);
        let data_sets = checked(file.data_set, |spec, others| {
            spec.check()?;
            match others.iter().any(|other| other.name == spec.name) {
                true => Err(format!("data set `{}` is defined twice", spec.name)),
                false => Ok(()),
            }
        });
        let data_sets = data_sets.map_err(at)?;
        if data_sets.is_empty() {
            return Err(invalid(0, "at least one [[data_set]] is needed".to_owned()));
        }
        let loads = checked(file.case, |case: &LoadsSpec, _| {
            case.check(file.duration)?;
            check_data_set_names(case, &data_sets)
        });
        let loads = loads.map_err(at)?;
        cases.set_loads(&loads);
        cases
            .check()
            .map_err(|message| invalid(cases_start, message))?;
        case::check_rate(file.rate).map_err(|message| invalid(0, message))?;
        let background = checked(file.background, |load: &Background, others| {
            load.check()?;
            match others.iter().any(|other| other.name == load.name) {
                true => Err(format!("background `{}` is defined twice", load.name)),
                false => Ok(()),
            }
        });
        let background = background.map_err(at)?;
        check_background_names(&cases, &background)
            .map_err(|message| invalid(cases_start, message))?;

        let mut scenario = Self {
            name,
            summary: file.summary,
            description: file.description.trim().to_owned(),
            repeats: file.repeats.get(),
            clients: file.clients.get(),
            warmup: file.warmup,
            first_chunk_streams: file.first_chunk_streams,
            first_chunk_within: file.first_chunk_within,
            duration: file.duration,
            rate: file.rate,
            server_cpus: file.server_cpus,
            client_cpus: file.client_cpus,
            cases,
            loads,
            background,
            thresholds: Vec::with_capacity(file.threshold.len()),
            data_sets,
        };
        for threshold in file.threshold {
            let start = threshold.span().start;
            let threshold = threshold.into_inner();
            threshold
                .check(&scenario)
                .map_err(|message| invalid(start, message))?;
            scenario.thresholds.push(threshold);
        }
        Ok(scenario)
    }

    /// Returns the cases that run on the data set of this name, in the order in which they run.
    pub fn cases_on(&self, data_set: &str) -> impl Iterator<Item = (Tier, &CaseSpec)> {
        self.cases
            .all()
            .filter(move |(_, case)| case.is_for(data_set))
    }

    /// Returns the scenario as the text of a scenario file, which is saved with its result.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a scenario holds nothing that TOML cannot say")
    }
}

/// Returns the tables of a file without their spans, after checking each against those before it;
/// otherwise, the position of the first invalid table and its error.
fn checked<T>(
    tables: Vec<Spanned<T>>,
    check: impl Fn(&T, &[T]) -> Result<(), String>,
) -> Result<Vec<T>, (usize, String)> {
    let mut all = Vec::with_capacity(tables.len());
    for table in tables {
        let start = table.span().start;
        let table = table.into_inner();
        check(&table, &all).map_err(|message| (start, message))?;
        all.push(table);
    }
    Ok(all)
}

/// Checks that each `[[background]]` that a case names exists.
fn check_background_names(cases: &Cases, background: &[Background]) -> Result<(), String> {
    let mut named = cases.all().flat_map(|(_, case)| &case.background);
    match named.find(|name| !background.iter().any(|load| load.name == **name)) {
        Some(name) => Err(format!("there is no [[background]] named `{name}`")),
        None => Ok(()),
    }
}

/// Checks that each data set that a case names exists.
fn check_data_set_names(case: &LoadsSpec, data_sets: &[DataSetSpec]) -> Result<(), String> {
    let known = |name: &str| data_sets.iter().any(|spec| spec.name == name);
    match case.data_sets.iter().find(|name| !known(name)) {
        Some(name) => Err(format!(
            "case `{}`: there is no data set `{name}`",
            case.name
        )),
        None => Ok(()),
    }
}

/// Checks the name of a scenario or a suite, which becomes part of a folder's name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    match !name.is_empty() && name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "name `{name}` may hold only letters, digits, `-`, `_` and `.`"
        )),
    }
}

/// Returns the line, from 1, of a byte of a file.
pub(crate) fn line_at(text: &str, byte: usize) -> usize {
    1 + text[..byte.min(text.len())].matches('\n').count()
}

/// Returns whether the name of a scenario or a suite is a file's path: it ends in `.toml` or
/// contains a slash.
#[must_use]
pub fn is_file(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/')
}

/// Returns the file of the built-in scenario of this name, with its comments.
///
/// # Errors
/// [`ScenarioError::Unknown`] with a suggestion.
pub fn text_of(name: &str) -> Result<&'static str, ScenarioError> {
    let mut all = BUILT_IN.iter();
    let (_, text) =
        all.find(|(built_in, _)| *built_in == name)
            .ok_or_else(|| ScenarioError::Unknown {
                name: name.to_owned(),
                suggestion: did_you_mean(name, &BUILT_IN.map(|(name, _)| name)).unwrap_or(DEFAULT),
            })?;
    Ok(text)
}

/// Returns the built-in scenarios, the default one first.
pub fn built_in() -> Vec<Scenario> {
    BUILT_IN
        .iter()
        .map(|(origin, text)| Scenario::parse(text, origin).expect("built-in scenarios are tested"))
        .collect()
}

#[cfg(test)]
mod tests;
