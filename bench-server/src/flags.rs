//! The command line of both tiers. Flags that etcd or kube-apiserver have keep their names.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use tracing_subscriber::EnvFilter;

pub use crate::kube::tier::{FeatureGates, KubeFlags};
use crate::listen::{ClientCertificates, MAX_STREAMS, TlsFiles, TlsFlags};

/// The codes as the help lists them.
const EXIT_CODES: &str = "\
Exit codes:
  0  stopped by SIGINT or SIGTERM
  1  a part of the server failed
  2  wrong usage, or the server cannot be started";

/// A server that shows how cheap a list can be: etcd's API over an in-memory store, or the
/// Kubernetes list API in front of any etcd.
///
/// Prints `ready etcd=URL` (or `ready kube=URL`) on standard output once it accepts connections.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-server", version, after_help = EXIT_CODES)]
pub struct Flags {
    /// The etcd tier.
    #[command(flatten)]
    pub etcd: EtcdFlags,
    /// The Kubernetes tier.
    #[command(flatten)]
    pub kube: KubeFlags,
    /// What both tiers share.
    #[command(flatten)]
    pub common: CommonFlags,
}

/// Flags that both tiers have.
#[derive(Debug, Clone, Args)]
pub struct CommonFlags {
    /// Log level (off, error, warn, info, debug, trace), or a filter like bench_server=debug; logs go to standard
    /// error.
    #[arg(long, default_value = "info", env = "BENCH_SERVER_LOG", value_parser = parse_log_filter)]
    pub log_level: String,

    /// Threads that serve connections; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    pub worker_threads: usize,

    /// Gather small writes to a socket that are ready together. Off only to measure what it does.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, hide = true)]
    pub gather_writes: bool,

    /// Serve what measuring needs and nobody else does: POST /debug/settle waits until freed memory is given back.
    #[arg(long)]
    pub enable_debug_endpoints: bool,

    /// Bytes that responses may hold over all connections of a tier: those that are gathered as a whole wait for room and are
    /// refused after 15 s; others get small frames while more than a quarter of it is under way. 0 means a quarter of the
    /// memory of the machine or of the control group.
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub response_memory_bytes: u64,

    /// How long a client may take nothing of a response that waits for it before its stream is reset; one that reads
    /// slowly, or has nothing to read, stays. 0s means for ever.
    #[arg(long, value_parser = parse_duration, default_value = "90s", value_name = "DURATION")]
    pub stalled_reader_timeout: Duration,

    /// How long a peer may acknowledge nothing that was sent, or keep its TCP window shut, before its connection is closed
    /// (Linux). 0s leaves it to the kernel.
    #[arg(long, value_parser = parse_duration, default_value = "20s", value_name = "DURATION")]
    pub tcp_user_timeout: Duration,
}

/// Flags of the etcd tier.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "etcd tier")]
pub struct EtcdFlags {
    /// Where etcd's API is served: http:// or https:// URLs, comma separated; port 0 picks one.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub listen_client_urls: Vec<String>,

    /// URLs told to clients that ask for the member list (default: the listen URLs).
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub advertise_client_urls: Vec<String>,

    /// Where only /metrics and health are served, over HTTP.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub listen_metrics_urls: Vec<String>,

    /// Name of this member.
    #[arg(long, default_value = "default")]
    pub name: String,

    /// Largest write request, bytes; RangeStream aims at chunks of this size.
    #[arg(long, default_value_t = 1_572_864, value_name = "BYTES")]
    pub max_request_bytes: usize,

    /// Streams that a client may have open on one connection; more are refused.
    #[arg(long, default_value_t = MAX_STREAMS, value_name = "NUMBER")]
    pub max_concurrent_streams: u32,

    /// Largest number of operations in a transaction.
    #[arg(long, default_value_t = 128)]
    pub max_txn_ops: usize,

    /// Size at which the NOSPACE alarm is raised, bytes; 0 means etcd's default of 2 GiB, negative
    /// none.
    #[arg(
        long,
        default_value_t = 0,
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    pub quota_backend_bytes: i64,

    /// How the retention below is read.
    #[arg(long, value_enum, default_value_t = CompactionMode::Periodic)]
    pub auto_compaction_mode: CompactionMode,

    /// History to keep: a duration (periodic; a bare number means hours) or a number of revisions;
    /// 0 turns automatic compaction off.
    #[arg(long, default_value = "0", value_name = "RETENTION")]
    pub auto_compaction_retention: String,

    /// How unary Range answers are made: `buffered` gathers the whole message first, as etcd does;
    /// `incremental` sends it while it is being read.
    #[arg(long, value_enum, default_value_t = RangeEncoding::Incremental)]
    pub range_encoding: RangeEncoding,

    /// Behave as this etcd minor version: below 3.7 there is no RangeStream.
    #[arg(long, default_value = "3.7", value_name = "MAJOR.MINOR")]
    pub emulate_version: EmulatedVersion,

    /// Period of watch progress notifications: at least 100ms, 0 means etcd's default of 10m.
    #[arg(long, value_parser = parse_progress_interval, default_value = "10m", value_name = "DURATION")]
    pub watch_progress_notify_interval: Duration,

    /// Server certificate (PEM) for https:// listen URLs. This file and the next two are read again for each
    /// connection, and used once they have changed and fit together.
    #[arg(long, value_name = "FILE")]
    pub cert_file: Option<PathBuf>,

    /// Its private key (PEM).
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// CA of client certificates (PEM). A client without a certificate of this CA is refused in the handshake.
    #[arg(long, value_name = "FILE")]
    pub trusted_ca_file: Option<PathBuf>,

    /// Require client certificates, which --trusted-ca-file does already; needs it.
    #[arg(long)]
    pub client_cert_auth: bool,
}

impl EtcdFlags {
    /// The files for https:// listen URLs.
    pub fn tls_files(&self) -> TlsFiles {
        // As etcd: either flag demands certificates.
        let required = self.client_cert_auth || self.trusted_ca_file.is_some();
        TlsFiles {
            cert: self.cert_file.clone(),
            key: self.key_file.clone(),
            client_ca: self.trusted_ca_file.clone(),
            clients: match required {
                true => ClientCertificates::Required,
                false => ClientCertificates::Ignored,
            },
            flags: TlsFlags {
                cert: "--cert-file",
                key: "--key-file",
                client_ca: "--trusted-ca-file",
            },
        }
    }
}

/// How unary Range answers are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RangeEncoding {
    /// The whole message in memory before the first byte is sent.
    Buffered,
    /// Sent while it is read; the length prefix comes from the index's byte sums.
    Incremental,
}

/// How automatic compaction counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompactionMode {
    /// Keep a span of time.
    Periodic,
    /// Keep a number of revisions.
    Revision,
}

/// An etcd version to behave as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EmulatedVersion {
    /// Minor version of etcd 3.
    pub minor: u32,
}

impl EmulatedVersion {
    /// Whether this version has the RangeStream RPC.
    pub fn has_range_stream(self) -> bool {
        self.minor >= 7
    }

    /// Whether Status reports storage version and quota.
    pub fn has_storage_version(self) -> bool {
        self.minor >= 6
    }

    /// The full version text, as in `/version` and `Status.version`.
    pub fn server_version(self) -> String {
        match self.minor {
            7 => "3.7.1".to_owned(),
            minor => format!("3.{minor}.99"),
        }
    }

    /// The cluster version text.
    pub fn cluster_version(self) -> String {
        format!("3.{}.0", self.minor)
    }
}

impl std::str::FromStr for EmulatedVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "3.4" => Ok(Self { minor: 4 }),
            "3.5" => Ok(Self { minor: 5 }),
            "3.6" => Ok(Self { minor: 6 }),
            "3.7" => Ok(Self { minor: 7 }),
            other => Err(format!("{other:?} is none of 3.4, 3.5, 3.6, 3.7")),
        }
    }
}

/// Reads `300ms`, `5s`, `10m`, `1h30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|e| e.to_string())
}

/// Reads what `EnvFilter` takes, but for a word alone: that is a level here and never the name of a target, since a mistyped
/// level would turn off every log.
fn parse_log_filter(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    // etcd's levels above error, at which nothing is logged here.
    if ["dpanic", "panic", "fatal"].contains(&text) {
        return Ok("off".to_owned());
    }
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let unknown = text.split(',').find(|word| {
        let names_target = word.contains(['=', '[']);
        !names_target && !word.is_empty() && !is_level(word)
    });
    if let Some(word) = unknown {
        let levels = LEVELS.join(", ");
        return Err(format!(
            "`{word}` is none of {levels}, nor a filter like bench_server=debug"
        ));
    }
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A period of progress notifications as etcd takes it (`api/v3rpc/watch.go`, `NewWatchServer`).
fn parse_progress_interval(text: &str) -> Result<Duration, String> {
    const DEFAULT: Duration = Duration::from_secs(600);
    const MINIMUM: Duration = Duration::from_millis(100);
    parse_duration(text).map(|given| match given {
        Duration::ZERO => DEFAULT,
        given => given.max(MINIMUM),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        let read = |text| {
            let line = ["bench-server", "--log-level", text];
            Flags::try_parse_from(line).map(|flags| flags.common.log_level)
        };
        for good in [
            "warn",
            "INFO",
            "off",
            "info,hyper=warn",
            "bench_server::kube=debug",
            "[span]=trace",
        ] {
            assert_eq!(read(good).expect("a filter"), good);
        }
        assert_eq!(read("panic").expect("a level of etcd's"), "off");
        for (bad, told) in [
            ("wran", "`wran` is none of off, error, warn"),
            ("info,hyper", "`hyper` is none of"),
            ("hyper=wran", "expected one of"),
        ] {
            let error = read(bad).expect_err(bad);
            assert_eq!(error.exit_code(), 2, "{bad}");
            assert!(error.to_string().contains(told), "{bad}: {error}");
        }
    }

    #[test]
    fn progress_comes_as_often_as_from_etcd_with_the_same_flag() {
        for (given, taken) in [
            ("0s", Duration::from_secs(600)),
            ("1ms", Duration::from_millis(100)),
            ("200ms", Duration::from_millis(200)),
        ] {
            assert_eq!(parse_progress_interval(given), Ok(taken), "{given}");
        }
    }
}
