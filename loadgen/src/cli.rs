//! The command line. Scripts and other people's CI call it: names stay, and what is not built is
//! not here.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use load::child::parent_death;
use serde::{Deserialize, Serialize};
use workloads::scenario::{Objective, Saturate};
use workloads::{CpuList, Tier};

use crate::exit::Exit;
use crate::isolation::network;
use crate::servers::baseline;

/// The environment variable that says what is logged.
pub const LOG_VARIABLE: &str = "LOADGEN_LOG";

/// Returns what stands below the options: how the program may end, and what it reads besides them.
fn after_help() -> String {
    format!(
        "{}\n\nEnvironment:\n  {LOG_VARIABLE}  what is logged to standard error: off, error, warn (the default), info,\n               debug, trace, or a filter such as h2=debug",
        Exit::HELP
    )
}

/// Measures what it costs to list large sets of objects from etcd and Kubernetes.
///
/// Without a command: `loadgen run pods-150k`.
#[derive(Debug, Clone, Parser)]
#[command(name = "loadgen", version, after_help = after_help())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Option<Command>,
}

impl Cli {
    /// Returns the command that was given, or the default one.
    #[must_use]
    pub fn into_command(self) -> Command {
        // Parsed again rather than built, so that every argument has the default that its help
        // names.
        self.command
            .or_else(|| Self::parse_from(["loadgen", "run"]).command)
            .expect("the second line names a command")
    }
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Runs scenarios: starts servers where the target says so, seeds, measures, verifies, writes a
    /// result.
    #[command(after_help = after_help())]
    Run(Box<RunArgs>),
    /// Searches for the highest rate of small requests that keeps an objective.
    #[command(after_help = after_help())]
    Saturate(Box<SaturateArgs>),
    /// Runs several scenarios, each as `run` does, and ends with one verdict on their thresholds.
    /// Without a name: lists the suites. Exit code: the worst of the runs and of the verdict, where
    /// a missed threshold is 1 and one without a verdict 3.
    #[command(after_help = after_help())]
    Suite(Box<SuiteArgs>),
    /// Says rule by rule what an endpoint honours of the contract that lists and watches lean on.
    /// Only reads where there are keys. Exit code 1 when a rule is broken.
    Probe(ProbeArgs),
    /// Makes a scenario like an etcd that holds a cluster's objects: counts and samples it, writes
    /// nothing, and keeps no names.
    Capture(CaptureArgs),
    /// Lists the built-in scenarios, one line each, or shows one of them as a file to start from.
    Scenarios(ScenariosArgs),
    /// Draws saved results again: charts, page, README and table. Or prints them for other
    /// programs.
    Report(ReportArgs),
    /// Compares saved results: what is better, worse, no different, or cannot be told and why.
    #[command(after_help = Exit::HELP)]
    Compare(CompareArgs),
    /// Merges the results of several generators that made a load together (run --shard) into one.
    #[command(after_help = Exit::HELP)]
    Merge(MergeArgs),
    /// Compares two targets in pairs of fresh starts, until the verdict is sure or time is up.
    #[command(after_help = Exit::HELP)]
    Ab(Box<AbArgs>),
    /// Writes completions for a shell: `loadgen completions bash
    /// >~/.local/share/bash-completion/completions/loadgen`.
    Completions(CompletionsArgs),
    /// Writes the manual page: `loadgen man | man -l -`.
    Man,
    /// Runs a server: takes bench-server's flags, `loadgen serve --help` lists them.
    #[command(disable_help_flag = true)]
    Serve(ServeArgs),
    /// Becomes a program that dies with its parent: how servers are started.
    #[command(name = parent_death::COMMAND, hide = true, disable_help_flag = true)]
    ExecChild(ExecChildArgs),
    /// Serves bytes from one contiguous buffer: what lists are compared with.
    #[command(name = baseline::COMMAND, hide = true, disable_help_flag = true)]
    ServeBaseline {
        /// How many
        bytes: usize,
    },
    /// Enters a network namespace of its own and ends: whether this system allows one.
    #[command(name = network::COMMAND, hide = true, disable_help_flag = true)]
    TryNetworkNamespace,
}

/// What `loadgen scenarios` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ScenariosArgs {
    /// Show this one, with its comments
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// What `loadgen completions` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CompletionsArgs {
    /// For which shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// The scenario whose requests `loadgen saturate` sends when none is named.
pub const SATURATE_SCENARIO: &str = "small-requests";

/// What `loadgen saturate` takes.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SaturateArgs {
    /// What every trial must keep: a quantile of the latency from the intended start, and a time,
    /// as p99=10ms
    #[arg(long, value_name = "pQ=TIME")]
    pub slo: Objective,

    /// The first rate, requests a second; the search doubles it until the objective is missed
    /// [default: 1000]
    #[arg(long, value_name = "R")]
    pub from: Option<f64>,

    /// No higher rate is tried [default: 1000000]
    #[arg(long, value_name = "R")]
    pub to: Option<f64>,

    /// How close the highest rate that is kept and the lowest that is missed shall come [default:
    /// 5%]
    #[arg(long, value_name = "PERCENT")]
    pub width: Option<Percent>,

    /// How often the whole search is made
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    pub searches: NonZeroU32,

    /// As of `loadgen run`; --duration is how long a trial lasts, and the default scenario is
    /// small-requests
    #[command(flatten)]
    pub run: RunArgs,
}

impl SaturateArgs {
    /// Returns what each case is searched for.
    #[must_use]
    pub fn saturate(&self) -> Saturate {
        let defaults = Saturate::for_objective(self.slo);
        Saturate {
            from: self.from.unwrap_or(defaults.from),
            to: self.to.unwrap_or(defaults.to),
            width: self.width.map_or(defaults.width, |width| width.0),
            searches: self.searches,
            ..defaults
        }
    }
}

/// What `loadgen probe` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ProbeArgs {
    /// What to probe: as `--target` of `loadgen run`
    #[arg(value_name = "TARGET")]
    pub target: String,

    /// Which API of servers that are started for it
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<ProbedTier>,

    /// Try the rules that write also where somebody's data is: below a prefix of our own that is
    /// emptied again, or in a namespace of our own that is removed again
    #[arg(long)]
    pub seed_data: bool,

    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// How to connect.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// An API that can be probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProbedTier {
    /// etcd's API v3.
    Etcd,
    /// The Kubernetes API.
    Kube,
}

impl From<ProbedTier> for Tier {
    fn from(tier: ProbedTier) -> Self {
        match tier {
            ProbedTier::Etcd => Self::Etcd,
            ProbedTier::Kube => Self::Kube,
        }
    }
}

/// What `loadgen capture` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CaptureArgs {
    /// An existing etcd: http://HOST:PORT or https://HOST:PORT
    #[arg(value_name = "TARGET")]
    pub target: String,

    /// Where objects are
    #[arg(long, value_name = "PREFIX", default_value = "/registry/")]
    pub prefix: String,

    /// The scenario file; one that exists is not overwritten
    #[arg(long, value_name = "FILE.toml", default_value = "captured.toml")]
    pub out: PathBuf,

    /// How to connect.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// What `loadgen serve` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ServeArgs {
    /// bench-server's flags
    #[arg(
        value_name = "FLAGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub flags: Vec<OsString>,
}

/// What `loadgen exec-child` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExecChildArgs {
    /// CPUs that the program may use
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,

    /// Process number of the parent
    pub parent: i32,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

/// What is printed at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A table for people.
    #[default]
    Text,
    /// `report.json`.
    Json,
}

/// Returns the command line as a result may show it: the password is gone.
#[must_use]
pub fn shown_command(args: impl IntoIterator<Item = String>) -> Vec<String> {
    let hidden = |user: &str| match user.split_once(':') {
        Some((name, _)) => format!("{name}:***"),
        None => user.to_owned(),
    };
    let mut after_user = false;
    args.into_iter()
        .map(|arg| {
            let is_value = std::mem::replace(&mut after_user, arg == "--user");
            match arg.strip_prefix("--user=") {
                Some(user) => format!("--user={}", hidden(user)),
                None if is_value => hidden(&arg),
                None => arg,
            }
        })
        .collect()
}

mod results;
mod run;
mod shard;
mod size;
mod start_at;
mod suite;

pub use results::{
    AbArgs, CompareArgs, CompareFormat, MergeArgs, Percent, ReportArgs, ReportFormat, VerdictArgs,
};
pub use run::{CareArgs, ConnectArgs, DEFAULT_SCENARIO, RunArgs};
pub use shard::{INDEX_VARIABLE, ShardArg, ShardArgError};
pub use size::{Size, SizeError};
pub use start_at::{StartAt, StartAtError};
pub use suite::{SuiteArgs, SuiteFormat};

#[cfg(test)]
mod tests;
