//! Arguments of `loadgen run`, and the groups of arguments that other commands share: how to
//! connect to an endpoint, and limits for endpoints with other people's data.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube_api::ResourceName;
use serde::{Deserialize, Serialize};
use workloads::CpuList;
use workloads::scenario::{Bandwidth, ByteSize, Network};

use super::{Format, ShardArg, Size, StartAt};
use crate::isolation::network::NetworkNamespace;
use crate::live::http::MetricsAddress;
use crate::safety::limits::{Allowed, PAUSE};

/// Arguments of `loadgen run`.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct RunArgs {
    /// Names of built-in scenarios, or paths of scenario files [default: pods-150k]
    #[arg(value_name = "SCENARIO|FILE.toml")]
    pub scenarios: Vec<String>,

    /// The target to measure, repeatable [default: bench]:
    /// `bench` (our servers, started fresh for each strategy; `bench-log` keeps a log on disk
    /// without fsync, `bench-fsync` with), `etcd:PATH` (an etcd binary, likewise, in a temporary
    /// folder; without fsync if it can, `etcd-fsync:PATH` with, `bench+etcd:PATH` with our
    /// Kubernetes tier in front of it), `http://HOST:PORT` or `https://HOST:PORT` (an existing
    /// etcd), `kube:URL` (an existing Kubernetes API), `kubeconfig:CONTEXT` (the Kubernetes API
    /// of a context in kubectl's configuration file; the current context if CONTEXT is empty)
    #[arg(long = "target", value_name = "TARGET", verbatim_doc_comment)]
    pub targets: Vec<String>,

    /// An existing etcd, all its endpoints comma separated: short for --target
    #[arg(long, value_name = "URL[,URL]")]
    pub etcd: Option<String>,

    /// An existing Kubernetes API: short for --target kube:URL. Lists the objects that it holds or,
    /// with --seed-data, the objects that the run loads
    #[arg(long, value_name = "URL")]
    pub kube: Option<String>,

    /// List these objects of a Kubernetes API instead of the scenario's, as kubectl names them:
    /// pods, deployments.apps, deployments.v1.apps, widgets.example.com; writes nothing
    #[arg(long, value_name = "RESOURCE", conflicts_with_all = ["seed_data", "prefix"])]
    #[serde(default)]
    pub resource: Option<ResourceName>,

    /// List the objects in this namespace of a Kubernetes API [default: in all of them]
    #[arg(long, value_name = "NAME", value_parser = namespace, conflicts_with_all = ["seed_data", "prefix"])]
    #[serde(default)]
    pub namespace: Option<String>,

    /// List the existing keys below this prefix and write nothing; needs no scenario
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["seed_data", "scenarios"])]
    pub prefix: Option<String>,

    /// Allow writing to an etcd that already holds keys, below a prefix of loadgen's own, and
    /// loading objects into a Kubernetes API, in namespaces of loadgen's own. Both are removed at
    /// the end
    #[arg(long)]
    pub seed_data: bool,

    /// What may be done to an endpoint that holds other people's data.
    #[command(flatten)]
    #[serde(default)]
    pub care: CareArgs,

    /// How to connect.
    #[command(flatten)]
    pub connect: ConnectArgs,

    /// Run only these strategies, comma separated, instead of the scenario's
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub strategies: Vec<String>,

    /// Run only these cases of several loads, comma separated, instead of all of the scenario's
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

    /// One size for all objects in bytes, instead of the scenario's size or sizes
    #[arg(long, value_name = "BYTES")]
    pub object_size: Option<u64>,

    /// Number of measured lists per strategy, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: Option<u32>,

    /// Fresh starts of its servers that each case is measured on, in rounds over the targets: how
    /// far starts differ is known only from several. A case shows the start whose median time is
    /// the middle one, and the range of all; comparisons count starts [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "profile", value_parser = clap::value_parser!(u32).range(1..=100))]
    #[serde(default)]
    pub starts: Option<u32>,

    /// Number of clients that list at the same time, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: Option<u32>,

    /// Small requests per second on a schedule (open loop), instead of the scenario's rate; for
    /// cases `get` and `put`
    #[arg(long, value_name = "R")]
    pub rate: Option<f64>,

    /// Duration of each case of small requests, as 10s, instead of the scenario's
    #[arg(long, value_name = "T", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub duration: Option<Duration>,

    /// Seed of the data set, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// The folder of the programs `clientv3` and `client-go`, which the cases of those names start
    /// [default: CLIENTV3_BIN and CLIENT_GO_BIN, else .tools/bin]
    #[arg(long, value_name = "DIR")]
    #[serde(default)]
    pub go_clients: Option<PathBuf>,

    /// The folder in which the result folder is created
    #[arg(long, value_name = "DIR", default_value = "scratch")]
    pub out: PathBuf,

    /// The format of standard output at the end
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Delay the traffic between clients and servers, by this time per round trip, as 20ms
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub rtt: Option<Duration>,

    /// Limit the bandwidth in each direction, of all connections together, as 100Mbit
    #[arg(long, value_name = "RATE")]
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,

    /// Limit the bytes that each client reads per second, as 10MiB
    #[arg(long, value_name = "SIZE")]
    #[serde(default)]
    pub client_read_rate: Option<ByteSize>,

    /// Profile the servers while cases are measured, for half a minute each at most, and draw flame
    /// graphs: Go servers by their `/debug/pprof`, other servers that loadgen starts by `perf`. The
    /// metrics then include the profiler's cost, so these cases are not ranked, judged or compared
    #[arg(long, conflicts_with = "shard")]
    #[serde(default)]
    pub profile: bool,

    /// Serve `/metrics` for Prometheus during the run: a port of 127.0.0.1, or IP:PORT
    #[arg(long, value_name = "[IP:]PORT")]
    #[serde(skip)]
    pub listen_metrics: Option<MetricsAddress>,

    /// Also judge the thresholds of this file: limits in time and CPU, which hold for one machine.
    /// Each is a table like a scenario's `[[threshold]]`, named after the scenario: `[[pods-150k]]`
    #[arg(long, value_name = "FILE.toml")]
    #[serde(default)]
    pub thresholds: Option<PathBuf>,

    /// End with exit code 1 if a threshold is missed, and with 3 if one cannot be judged or was not
    /// measured, or if there is none
    #[arg(long)]
    #[serde(default)]
    pub fail_on_threshold: bool,

    /// Leave the seeded objects on the endpoint
    #[arg(long)]
    pub keep_data: bool,

    /// Apply only this generator's share of a load: its number from 0, and the number of
    /// generators, as 0/8; auto/8 in an Indexed Job of Kubernetes, which numbers its pods. For one
    /// case on one existing, empty etcd, or with --seed-data on a Kubernetes API; needs --start-at
    #[arg(long, value_name = "I/N")]
    #[serde(skip)]
    pub shard: Option<ShardArg>,

    /// Begin the measured time at this moment: RFC 3339 in UTC, or seconds since 1970. Everything
    /// before it (seeding, warm-up) must be done by then
    #[arg(long, value_name = "TIME")]
    #[serde(skip)]
    pub start_at: Option<StartAt>,

    /// Run everything in a network namespace of its own, whose congestion control does not pace:
    /// possible if loadgen starts every target; the result records which was used
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    #[serde(default)]
    pub network_namespace: NetworkNamespace,

    /// The CPUs that started servers may use, as 0,2-3; all processes of a target share them. With
    /// this flag or --client-cpus, neither CPU list of a scenario is used
    #[arg(long, value_name = "LIST")]
    #[serde(default)]
    pub server_cpus: Option<CpuList>,

    /// The CPUs that the generator may use
    #[arg(long, value_name = "LIST")]
    #[serde(default)]
    pub client_cpus: Option<CpuList>,

    /// Print what would be done and the memory and disk that it needs, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Parses the name of a namespace.
fn namespace(text: &str) -> Result<String, String> {
    const MAX_BYTES: usize = 63;
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=MAX_BYTES).contains(&text.len())
        && text.bytes().all(is_part)
        && !text.starts_with('-')
        && !text.ends_with('-');
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a namespace has 1 to {MAX_BYTES} small letters, digits and inner hyphens"
        )),
    }
}

impl RunArgs {
    /// Returns the network to emulate, if any.
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

/// What may be done to an endpoint that holds other people's data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct CareArgs {
    /// On an endpoint that holds data, also run cases that may take more than a tenth of the
    /// server's memory, or an unknown amount. Cases that may take more than half are never run
    #[arg(long)]
    pub yes: bool,

    /// Memory of the server behind an endpoint that holds data, as 16GiB [default: its resident
    /// size, and at least 2GiB]
    #[arg(long, value_name = "SIZE")]
    pub server_memory: Option<Size>,

    /// The most bytes that lists may read from an endpoint that holds data, as 10GiB: a case that
    /// needs more is not run
    #[arg(long, value_name = "SIZE")]
    pub max_bytes: Option<Size>,

    /// Pause between two lists of an endpoint that holds data, never shorter than three times the
    /// last list [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub pause: Option<Duration>,
}

impl CareArgs {
    /// Returns these arguments with their defaults.
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

/// How to connect to an existing endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct ConnectArgs {
    /// Certificate authority that signed the server's certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,

    /// The client's certificate, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,

    /// The key of the client's certificate, PEM
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
