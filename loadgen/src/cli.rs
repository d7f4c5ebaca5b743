//! The command line. Scripts and CI jobs of other projects use it, so names are stable, and only
//! what is implemented is listed.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use load::child::parent_death;
use serde::{Deserialize, Serialize};
use workloads::scenario::{Objective, Saturate};
use workloads::{CpuList, Tier};

use crate::exit::Exit;
use crate::isolation::network;
use crate::servers::baseline;

/// The environment variable that sets the log level or filter.
pub const LOG_VARIABLE: &str = "LOADGEN_LOG";

/// Returns the text below the options of `--help`: exit codes and environment variables.
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
    /// The command to run.
    #[command(subcommand)]
    command: Option<Command>,
}

impl Cli {
    /// Returns the given command, or the default one.
    #[must_use]
    pub fn into_command(self) -> Command {
        // Parsed instead of constructed, so that every argument has the default that its help
        // names.
        self.command
            .or_else(|| Self::parse_from(["loadgen", "run"]).command)
            .expect("the second line names a command")
    }
}

/// A command of `loadgen`.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Runs scenarios: starts servers if the target asks for it, seeds, measures, verifies, and
    /// writes a result.
    #[command(after_help = after_help())]
    Run(Box<RunArgs>),
    /// Searches for the highest rate of small requests at which a latency objective is met.
    #[command(after_help = after_help())]
    Saturate(Box<SaturateArgs>),
    /// Runs several scenarios, each as `run` does, and judges their thresholds in one verdict.
    /// Without a name, lists the suites. The exit code is the worst of the runs and of the verdict,
    /// where a missed threshold is 1 and a threshold without a verdict 3.
    #[command(after_help = after_help())]
    Suite(Box<SuiteArgs>),
    /// Checks, rule by rule, how far an endpoint honours the contract that lists and watches depend
    /// on. Only reads if the endpoint holds keys. Exit code 1 if a rule is broken.
    Probe(ProbeArgs),
    /// Captures a scenario from an etcd that holds a cluster's objects: counts and samples them,
    /// writes nothing to it, and keeps no names.
    Capture(CaptureArgs),
    /// Lists the built-in scenarios, one line each, or prints one of them as a file to start from.
    Scenarios(ScenariosArgs),
    /// Draws the charts, page, README and table of saved results again, or prints results for other
    /// programs.
    Report(ReportArgs),
    /// Compares saved results: what is better, worse, no different, or cannot be told and why.
    #[command(after_help = Exit::HELP)]
    Compare(CompareArgs),
    /// Merges the results of several generators that applied a load together (run --shard) into
    /// one.
    #[command(after_help = Exit::HELP)]
    Merge(MergeArgs),
    /// Compares two targets in pairs of fresh starts, until the verdict is certain or the time is
    /// up.
    #[command(after_help = Exit::HELP)]
    Ab(Box<AbArgs>),
    /// Writes completions for a shell: `loadgen completions bash
    /// >~/.local/share/bash-completion/completions/loadgen`.
    Completions(CompletionsArgs),
    /// Writes the manual page: `loadgen man | man -l -`.
    Man,
    /// Runs bench-server with the given flags; `loadgen serve --help` lists them.
    #[command(disable_help_flag = true)]
    Serve(ServeArgs),
    /// Replaces this process by a program that dies with its parent: starts servers.
    #[command(name = parent_death::COMMAND, hide = true, disable_help_flag = true)]
    ExecChild(ExecChildArgs),
    /// Serves bytes from one contiguous buffer: the baseline that lists are compared with.
    #[command(name = baseline::COMMAND, hide = true, disable_help_flag = true)]
    ServeBaseline {
        /// The number of bytes
        bytes: usize,
    },
    /// Enters a network namespace of its own and exits: tests whether this system permits one.
    #[command(name = network::COMMAND, hide = true, disable_help_flag = true)]
    TryNetworkNamespace,
}

/// Arguments of `loadgen scenarios`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ScenariosArgs {
    /// The scenario to print, with its comments
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Arguments of `loadgen completions`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// The scenario that `loadgen saturate` runs if none is named.
pub const SATURATE_SCENARIO: &str = "small-requests";

/// Arguments of `loadgen saturate`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SaturateArgs {
    /// The objective that a rate must meet: a quantile of the latency from the intended start, and
    /// its limit, as p99=10ms
    #[arg(long, value_name = "pQ=TIME")]
    pub slo: Objective,

    /// The first rate, in requests per second; the search doubles it until the objective is missed
    /// [default: 1000]
    #[arg(long, value_name = "R")]
    pub from: Option<f64>,

    /// The highest rate that is tried [default: 1000000]
    #[arg(long, value_name = "R")]
    pub to: Option<f64>,

    /// How close to one another the highest rate that meets the objective and the lowest that
    /// misses it must be for the search to end [default: 5%]
    #[arg(long, value_name = "PERCENT")]
    pub width: Option<Percent>,

    /// The number of complete searches
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    pub searches: NonZeroU32,

    /// As for `loadgen run`; --duration is the length of a trial, and the default scenario is
    /// small-requests
    #[command(flatten)]
    pub run: RunArgs,
}

impl SaturateArgs {
    /// Returns the parameters of each case's search.
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

/// Arguments of `loadgen probe`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ProbeArgs {
    /// The target to probe, as `--target` of `loadgen run`
    #[arg(value_name = "TARGET")]
    pub target: String,

    /// The API to probe [default: etcd's, if the target has it]
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<ProbedTier>,

    /// Also check the rules that need writes if the endpoint holds data: below a prefix of
    /// loadgen's own that is emptied again, or in a namespace of its own that is removed again
    #[arg(long)]
    pub seed_data: bool,

    /// The format of standard output
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

/// Arguments of `loadgen capture`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CaptureArgs {
    /// An existing etcd: http://HOST:PORT or https://HOST:PORT
    #[arg(value_name = "TARGET")]
    pub target: String,

    /// The prefix of the objects' keys
    #[arg(long, value_name = "PREFIX", default_value = "/registry/")]
    pub prefix: String,

    /// Count the requests to the etcd for this long, by its metrics; 0s not to
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub observe: Duration,

    /// Count the requests in this audit log of an apiserver of the etcd, too
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,

    /// The scenario file to write; an existing file is not overwritten
    #[arg(long, value_name = "FILE.toml", default_value = "captured.toml")]
    pub out: PathBuf,

    /// How to connect.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Arguments of `loadgen serve`.
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

/// Arguments of `loadgen exec-child`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExecChildArgs {
    /// The CPUs that the program may use
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,

    /// The PID of the parent
    pub parent: i32,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

/// The format in which a result is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A table for people.
    #[default]
    Text,
    /// `report.json`.
    Json,
}

/// Returns the command line for a result, with the password replaced.
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
pub use run::{CareArgs, ConnectArgs, RunArgs};
pub use shard::{INDEX_VARIABLE, ShardArg, ShardArgError};
pub use size::{Size, SizeError};
pub use start_at::{StartAt, StartAtError};
pub use suite::{SuiteArgs, SuiteFormat};

#[cfg(test)]
mod tests;
