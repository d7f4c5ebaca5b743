//! Arguments of the commands that read saved results or end with a comparison: `report`, `compare`,
//! `merge`, `ab`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use report::compare::{Condition, Metric, Options};

use super::{Format, RunArgs};
use crate::servers::Given;

/// Arguments of `loadgen report`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ReportArgs {
    /// Result folders
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,

    /// The format of standard output; only `text` draws charts and pages again
    #[arg(long, value_enum, default_value_t)]
    pub format: ReportFormat,
}

/// A format in which saved results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A table for people; charts and pages are drawn again.
    #[default]
    Text,
    /// Go benchmark text, one line per start of a server: `benchstat base.txt new.txt`.
    Go,
    /// CSV, one value per line.
    Csv,
    /// PerfData, which Kubernetes' perfdash draws.
    Perfdash,
    /// The JSON list of github-action-benchmark's tool customSmallerIsBetter.
    GithubActionBenchmark,
    /// Bencher Metric Format: bencher run --adapter json.
    Bencher,
    /// OpenMetrics text: promtool tsdb create-blocks-from openmetrics.
    Openmetrics,
}

/// Arguments of `loadgen compare`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct CompareArgs {
    /// The base of the comparison: a result folder, or a folder of several, since it takes four
    /// runs a side to be sure of a difference
    #[arg(value_name = "BASE")]
    pub base: PathBuf,

    /// The result to judge, likewise. Without it, two targets of BASE are compared, for which six
    /// runs are enough
    #[arg(value_name = "NEW", required_unless_present = "base_target")]
    pub new: Option<PathBuf>,

    /// The target of BASE, by its name or a prefix of it [default: targets of the same name are
    /// compared]
    #[arg(long = "base", value_name = "TARGET", requires = "new_target")]
    pub base_target: Option<String>,

    /// The target of NEW, or of BASE if there is no NEW
    #[arg(long = "new", value_name = "TARGET", requires = "base_target")]
    pub new_target: Option<String>,

    /// What decides the verdict.
    #[command(flatten)]
    pub verdict: VerdictArgs,

    /// Compare even though these conditions differ, comma separated; the differences are reported
    #[arg(long, value_name = "CONDITION,…", value_delimiter = ',', value_enum)]
    pub allow: Vec<Condition>,

    /// The format of standard output
    #[arg(long, value_enum, default_value_t)]
    pub format: CompareFormat,

    /// Draw the ratios of the deciding metrics into this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
}

/// Arguments that decide the verdict of a comparison, and whether its worst lines are annotated.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct VerdictArgs {
    /// How much worse a deciding metric may be: exit code 1 if one is certainly worse by as much, 3
    /// if that cannot be told [default: each metric's margin]
    #[arg(long, value_name = "PERCENT")]
    pub fail_above: Option<Percent>,

    /// The largest change that counts as no change [default: 5% for medians, CPU and memory at
    /// rest, 10% for higher quantiles, first chunks and peaks, 1% for bytes; with --fail-above, its
    /// value]
    #[arg(long, value_name = "PERCENT")]
    pub margin: Option<Percent>,

    /// Compare only these metrics, comma separated, and let all of them decide [default: all, of
    /// which p50, server_cpu, peak_memory and idle_memory decide]
    #[arg(
        long = "metric",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum
    )]
    pub metrics: Vec<Metric>,

    /// Also write the worst lines to standard error as GitHub annotations; if they were measured
    /// again (`ab --confirm`), only those that are still worse
    #[arg(long)]
    pub annotate: bool,
}

impl VerdictArgs {
    /// Returns the options of a comparison in which the conditions of `allow` may differ.
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

/// Arguments of `loadgen merge`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct MergeArgs {
    /// The result folder of each generator, or folders that contain them
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,

    /// The folder in which the merged result's folder is created
    #[arg(long, value_name = "DIR", default_value = "scratch")]
    pub out: PathBuf,

    /// The format of standard output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Arguments of `loadgen ab`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct AbArgs {
    /// The base of the comparison, as --target of `loadgen run`, started for every pair: bench,
    /// bench:PATH (another build of loadgen or bench-server), bench-log, bench-fsync, etcd:PATH,
    /// etcd-fsync:PATH, bench+etcd:PATH
    #[arg(long, value_name = "TARGET")]
    pub base: String,

    /// The target to judge, likewise; may be the same target with other flags or environment
    #[arg(long, value_name = "TARGET")]
    pub new: String,

    /// A flag for the base's etcd or etcd tier, after loadgen's own; repeatable
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub base_flag: Vec<String>,

    /// A flag for the new side's etcd or etcd tier; repeatable
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub new_flag: Vec<String>,

    /// A flag for the base's Kubernetes tier, as --watch-cache=false; repeatable
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub base_kube_flag: Vec<String>,

    /// A flag for the new side's Kubernetes tier; repeatable
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub new_kube_flag: Vec<String>,

    /// An environment variable of the base's servers, as GOGC=50; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub base_env: Vec<String>,

    /// An environment variable of the new side's servers; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub new_env: Vec<String>,

    /// The time limit; verdicts that are not certain by then are "cannot tell"
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    pub within: Duration,

    /// Measure the cases that are worse a second time, with new starts: exit code 1 only if the
    /// same metric of the same case is worse twice, else 3. At most doubles the time
    #[arg(long)]
    pub confirm: bool,

    /// What decides the verdict.
    #[command(flatten)]
    pub verdict: VerdictArgs,

    /// The format of the verdict; with --confirm, a second verdict may follow
    #[arg(long = "show", value_enum, default_value_t)]
    pub show: CompareFormat,

    /// As for `loadgen run`, without targets; without a scenario, pods-150k with 10,000 objects
    #[command(flatten)]
    pub run: RunArgs,
}

impl AbArgs {
    /// Returns the flags and environment variables of the base's servers.
    #[must_use]
    pub fn given_to_base(&self) -> Given {
        Given {
            flags: self.base_flag.clone(),
            kube_flags: self.base_kube_flag.clone(),
            environment: self.base_env.clone(),
        }
    }

    /// Returns the flags and environment variables of the new side's servers.
    #[must_use]
    pub fn given_to_new(&self) -> Given {
        Given {
            flags: self.new_flag.clone(),
            kube_flags: self.new_kube_flag.clone(),
            environment: self.new_env.clone(),
        }
    }
}

/// A format in which a comparison is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// A table for people.
    #[default]
    Text,
    /// Markdown, for the summary of a CI job or a pull request.
    Markdown,
    /// JSON, for programs; its schema is `compare.schema.json`.
    Json,
    /// JUnit test cases, for a CI's list of tests: "worse" is a failed test, "cannot tell" a
    /// skipped one.
    Junit,
}

/// A percentage, typed as `10%` or `10`, and kept as a fraction.
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
