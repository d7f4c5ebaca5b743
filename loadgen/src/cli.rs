//! The command line. Scripts and other people's CI call it: names stay, and what is not built is
//! not here.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use load::child::parent_death;
use report::compare::{Condition, Metric};
use serde::{Deserialize, Serialize};
use workloads::{CpuList, Tier};
use workloads::scenario::{Bandwidth, ByteSize, Network, Objective, Saturate};

use crate::exit::Exit;
use crate::isolation::network::{self, NetworkNamespace};
use crate::live::http::MetricsAddress;
use crate::safety::limits::{Allowed, PAUSE};
use crate::servers::baseline;

/// The environment variable that says what is logged.
pub const LOG_VARIABLE: &str = "LOADGEN_LOG";

/// What stands below the options: how the program may end, and what it reads besides them.
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
    /// The command that was given, or the default one.
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
    /// Only reads where somebody's keys are. Exit code 1 when a rule is broken.
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
    Guard(GuardArgs),
    /// Serves bytes from one contiguous buffer: what lists are held against.
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
    /// What each case is searched for.
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
    /// An etcd that is there: http://HOST:PORT or https://HOST:PORT
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

    /// Compare although these differ, comma separated; what differs is said
    #[arg(long, value_name = "CONDITION,…", value_delimiter = ',', value_enum)]
    pub allow: Vec<Condition>,

    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub format: CompareFormat,

    /// Also writes the worst lines to standard error as GitHub's annotations
    #[arg(long)]
    pub annotate: bool,

    /// Draws the ratios of the deciding metrics into this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
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

    /// As of `loadgen compare`
    #[arg(long, value_name = "PERCENT")]
    pub fail_above: Option<Percent>,

    /// As of `loadgen compare`
    #[arg(long, value_name = "PERCENT")]
    pub margin: Option<Percent>,

    /// As of `loadgen compare`
    #[arg(
        long = "metric",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum
    )]
    pub metrics: Vec<Metric>,

    /// As of `loadgen compare`, for what is still worse after --confirm
    #[arg(long)]
    pub annotate: bool,

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

/// What `loadgen guard` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GuardArgs {
    /// CPUs that the program may use
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,

    /// Process number of the parent
    pub parent: i32,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
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

/// The scenario that runs when none is named.
pub const DEFAULT_SCENARIO: &str = "pods-150k";

/// What `loadgen run` takes.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct RunArgs {
    /// Names of built-in scenarios, or paths of scenario files [default: pods-150k]
    #[arg(value_name = "SCENARIO|FILE.toml")]
    pub scenarios: Vec<String>,

    /// What to measure, repeatable [default: bench]:
    /// `bench` (our servers, started fresh for each strategy; `bench-log` keeps a log on disk
    /// without fsync, `bench-fsync` with), `etcd:PATH` (an etcd binary, likewise, in a temporary
    /// folder; without fsync where it can, `etcd-fsync:PATH` with, `bench+etcd:PATH` with our
    /// Kubernetes tier in front of it), `http://HOST:PORT` or `https://HOST:PORT` (an etcd that is
    /// there), `kube:URL` (a Kubernetes API that is there), `kubeconfig:CONTEXT` (that of a context
    /// of the file that kubectl reads; nothing behind the colon is the current one)
    #[arg(long = "target", value_name = "TARGET", verbatim_doc_comment)]
    pub targets: Vec<String>,

    /// An etcd that is there, all its endpoints comma separated: short for --target
    #[arg(long, value_name = "URL[,URL]")]
    pub etcd: Option<String>,

    /// A Kubernetes API that is there: short for --target kube:URL. Lists what it
    /// holds; with --seed-data, the objects that the run loads
    #[arg(long, value_name = "URL")]
    pub kube: Option<String>,

    /// List what is there under this prefix and write nothing; needs no scenario
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["seed_data", "scenarios"])]
    pub prefix: Option<String>,

    /// Allow writing to an etcd that already holds keys, under a prefix of our own; load objects
    /// into a Kubernetes API, into namespaces of our own. Both are removed at the end
    #[arg(long)]
    pub seed_data: bool,

    /// What may be done to an endpoint that holds somebody's data.
    #[command(flatten)]
    #[serde(default)]
    pub care: CareArgs,

    /// How to connect.
    #[command(flatten)]
    pub connect: ConnectArgs,

    /// Only these strategies, comma separated, instead of the scenario's
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub strategies: Vec<String>,

    /// Only these cases of several loads, comma separated, instead of all that the scenario has
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        conflicts_with = "strategies"
    )]
    pub cases: Vec<String>,

    /// Number of objects, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub objects: Option<u64>,

    /// Bytes of each object, instead of the scenario's
    #[arg(long, value_name = "BYTES")]
    pub object_size: Option<u64>,

    /// Lists that are measured per strategy, instead of the scenario's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: Option<u32>,

    /// Clients that list at the same time, instead of the scenario's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: Option<u32>,

    /// Small requests per second on a schedule (open loop), instead of the scenario's; for cases
    /// `get` and `put`
    #[arg(long, value_name = "R")]
    pub rate: Option<f64>,

    /// How long each case of small requests sends them, as 10s, instead of the scenario's
    #[arg(long, value_name = "T", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub duration: Option<Duration>,

    /// Seed of the data set, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Where the programs `clientv3` and `client-go` are, which cases of those names start
    /// [default: what CLIENTV3_BIN and CLIENT_GO_BIN say, else .tools/bin]
    #[arg(long, value_name = "DIR")]
    #[serde(default)]
    pub go_clients: Option<PathBuf>,

    /// Where the result folder goes
    #[arg(long, value_name = "DIR", default_value = "scratch")]
    pub out: PathBuf,

    /// What is printed on standard output at the end
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Delay what clients and servers say to one another, as 20ms for a round trip
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub rtt: Option<Duration>,

    /// Let so much through in each direction, of all connections together, as 100Mbit
    #[arg(long, value_name = "RATE")]
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,

    /// Let each client read so many bytes a second, as 10MiB
    #[arg(long, value_name = "SIZE")]
    #[serde(default)]
    pub client_read_rate: Option<ByteSize>,

    /// Serve `/metrics` for Prometheus while it runs: a port of 127.0.0.1, or IP:PORT
    #[arg(long, value_name = "[IP:]PORT")]
    #[serde(skip)]
    pub listen_metrics: Option<MetricsAddress>,

    /// End with exit code 1 where a threshold of the scenario is missed, with 3 where one cannot be
    /// told or has no figure
    #[arg(long)]
    #[serde(default)]
    pub fail_on_threshold: bool,

    /// Leave what was seeded on the endpoint
    #[arg(long)]
    pub keep_data: bool,

    /// Make only this generator's share of a load: its number from 0 and how many make it together,
    /// as 0/8; auto/8 in an Indexed Job of Kubernetes, which numbers its pods. One case on one etcd
    /// that is there and empty; needs --start-at
    #[arg(long, value_name = "I/N")]
    #[serde(skip)]
    pub shard: Option<ShardArg>,

    /// Begin the measured time at this moment: RFC 3339 in UTC, or seconds since 1970. Everything
    /// before it (seeding, warm-up) must be done by then
    #[arg(long, value_name = "TIME")]
    #[serde(skip)]
    pub start_at: Option<StartAt>,

    /// Run everything in a network namespace of its own, whose congestion control does not pace:
    /// possible where loadgen starts every target; the result says what held
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    #[serde(default)]
    pub network_namespace: NetworkNamespace,

    /// CPUs that started servers may use, as 0,2-3; all of a target's processes share them. With
    /// this flag or --client-cpus, neither list of a scenario is used
    #[arg(long, value_name = "LIST")]
    #[serde(default)]
    pub server_cpus: Option<CpuList>,

    /// CPUs that the generator may use
    #[arg(long, value_name = "LIST")]
    #[serde(default)]
    pub client_cpus: Option<CpuList>,

    /// Say what would be done, and what it needs in memory and disk, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl RunArgs {
    /// The network that is to be imitated, where any is.
    #[must_use]
    pub fn network(&self) -> Option<Network> {
        let network = Network {
            rtt: self.rtt,
            bandwidth: self.bandwidth,
            client_read_rate: self.client_read_rate,
        };
        (network != Network::default()).then_some(network)
    }
}

/// What may be done to an endpoint that holds somebody's data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct CareArgs {
    /// On an endpoint that holds data: run cases that may take more than a tenth of the server's
    /// memory, or nobody knows how much, too. What may take more than half is never run
    #[arg(long)]
    pub yes: bool,

    /// Memory of the server behind an endpoint that holds data, as 16GiB [default: what it has
    /// resident, and 2GiB at least]
    #[arg(long, value_name = "SIZE")]
    pub server_memory: Option<Size>,

    /// Bytes that lists may read from an endpoint that holds data, as 10GiB: a case that needs more
    /// is not run
    #[arg(long, value_name = "SIZE")]
    pub max_bytes: Option<Size>,

    /// Pause between two lists of an endpoint that holds data, never below three times what the
    /// last list took [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub pause: Option<Duration>,
}

impl CareArgs {
    /// The same with its defaults.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed {
            yes: self.yes,
            server_memory: self.server_memory.map(|size| size.0),
            max_bytes: self.max_bytes.map(|size| size.0),
            pause: self.pause.unwrap_or(PAUSE),
        }
    }
}

/// How to connect to an endpoint that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct ConnectArgs {
    /// Certificate authority that signed the server's certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,

    /// Our certificate, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,

    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,

    /// Bearer token for a Kubernetes API, in a file
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// etcd user
    #[arg(long, value_name = "NAME[:PASSWORD]")]
    #[serde(skip)]
    pub user: Option<String>,
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

/// The command line as a result may show it: the password is gone.
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

mod shard;
mod size;
mod start_at;
mod suite;

pub use shard::{INDEX_VARIABLE, ShardArg, ShardArgError};
pub use size::{Size, SizeError};
pub use start_at::{StartAt, StartAtError};
pub use suite::{SuiteArgs, SuiteFormat};

#[cfg(test)]
mod tests;
