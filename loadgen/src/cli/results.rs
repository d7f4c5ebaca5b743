//! What the commands take that read saved results, or end with a comparison: `report`, `compare`,
//! `merge`, `ab`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use report::compare::{Condition, Metric, Options};

use super::{Format, RunArgs};

/// What `loadgen report` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ReportArgs {
    /// Result folders
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,

    /// What is printed on standard output; only `text` draws charts and pages again
    #[arg(long, value_enum, default_value_t)]
    pub format: ReportFormat,
}

/// How saved results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A table for people, and everything drawn again.
    #[default]
    Text,
    /// Go benchmark text, a line for each start of a server: `benchstat base.txt new.txt`.
    Go,
    /// One value a line.
    Csv,
    /// PerfData, which Kubernetes' perfdash draws.
    Perfdash,
    /// A list for github-action-benchmark's tool customSmallerIsBetter.
    GithubActionBenchmark,
    /// Bencher Metric Format: bencher run --adapter json.
    Bencher,
    /// OpenMetrics text: promtool tsdb create-blocks-from openmetrics.
    Openmetrics,
}

/// What `loadgen compare` takes.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct CompareArgs {
    /// What to compare with: a result folder, or a folder of several, since it takes four runs a
    /// side to be sure of a difference
    #[arg(value_name = "BASE")]
    pub base: PathBuf,

    /// The result to judge, likewise. Without it two targets of BASE are compared; six runs are
    /// enough
    #[arg(value_name = "NEW", required_unless_present = "base_target")]
    pub new: Option<PathBuf>,

    /// The target of BASE, by its name or the beginning of it [default: those of the same name]
    #[arg(long = "base", value_name = "TARGET", requires = "new_target")]
    pub base_target: Option<String>,

    /// The target of NEW, or of BASE
    #[arg(long = "new", value_name = "TARGET", requires = "base_target")]
    pub new_target: Option<String>,

    /// What decides.
    #[command(flatten)]
    pub verdict: VerdictArgs,

    /// Compare although these differ, comma separated; what differs is said
    #[arg(long, value_name = "CONDITION,…", value_delimiter = ',', value_enum)]
    pub allow: Vec<Condition>,

    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub format: CompareFormat,

    /// Draws the ratios of the deciding metrics into this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
}

/// What decides a comparison, and where its worst lines are told besides.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct VerdictArgs {
    /// How much worse a deciding metric may be: exit code 1 where one is surely worse by as much, 3
    /// where that cannot be told [default: each metric's margin]
    #[arg(long, value_name = "PERCENT")]
    pub fail_above: Option<Percent>,

    /// A change that counts as none [default: 5% for medians, CPU and memory at rest, 10% for
    /// higher quantiles, first chunks and peaks, 1% for bytes; with --fail-above, its value]
    #[arg(long, value_name = "PERCENT")]
    pub margin: Option<Percent>,

    /// Only these metrics, comma separated, and all of them decide [default: all, of which p50,
    /// server_cpu and peak_memory decide]
    #[arg(
        long = "metric",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum
    )]
    pub metrics: Vec<Metric>,

    /// Also writes the worst lines to standard error as GitHub's annotations; where they were
    /// measured again (`ab --confirm`), those that are still worse
    #[arg(long)]
    pub annotate: bool,
}

impl VerdictArgs {
    /// Returns the options of a comparison that lets these conditions differ.
    #[must_use]
    pub fn options(&self, allow: Vec<Condition>) -> Options {
        Options {
            metrics: self.metrics.clone(),
            margin: self.margin.map(|margin| margin.0),
            fail_above: self.fail_above.map(|limit| limit.0),
            allow,
        }
    }
}

/// What `loadgen merge` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct MergeArgs {
    /// The result folder of each generator, or folders in which they are
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,

    /// Where the merged result's folder goes
    #[arg(long, value_name = "DIR", default_value = "scratch")]
    pub out: PathBuf,

    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// What `loadgen ab` takes.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct AbArgs {
    /// What to compare with: as --target of `loadgen run`, and started for every pair: bench,
    /// bench:PATH (another build of loadgen or bench-server), bench-log, bench-fsync, etcd:PATH,
    /// etcd-fsync:PATH, bench+etcd:PATH
    #[arg(long, value_name = "TARGET")]
    pub base: String,

    /// What is judged, likewise; the same target with other flags or environment will do
    #[arg(long, value_name = "TARGET")]
    pub new: String,

    /// A flag for the base's servers, behind ours; repeatable
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub base_flag: Vec<String>,

    /// A flag for the new side's servers; repeatable
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub new_flag: Vec<String>,

    /// An environment variable of the base's servers, as GOGC=50; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub base_env: Vec<String>,

    /// An environment variable of the new side's servers; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub new_env: Vec<String>,

    /// How long it may take; verdicts that are not sure by then are "cannot tell"
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    pub within: Duration,

    /// Measure the cases that are worse a second time, with new starts: exit code 1 only where the
    /// same metric of the same case is worse twice, else 3. Takes as long again at most
    #[arg(long)]
    pub confirm: bool,

    /// What decides.
    #[command(flatten)]
    pub verdict: VerdictArgs,

    /// How the verdict is printed; a confirmation follows it
    #[arg(long = "show", value_enum, default_value_t)]
    pub show: CompareFormat,

    /// As of `loadgen run`, without targets; without a scenario pods-150k of 10,000 objects
    #[command(flatten)]
    pub run: RunArgs,
}

/// How a comparison is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// A table for people.
    #[default]
    Text,
    /// For the summary of a CI job, or a pull request.
    Markdown,
    /// For programs; its schema is `compare.schema.json`.
    Json,
    /// Test cases for a CI's list of tests: worse failed, cannot tell is skipped.
    Junit,
}

/// A part of something, typed as `10%` or `10`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim_end_matches('%').trim().parse::<f64>() {
            Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(Self(percent / 100.0)),
            _ => Err(format!("`{text}` is not a percentage like 10%")),
        }
    }
}
