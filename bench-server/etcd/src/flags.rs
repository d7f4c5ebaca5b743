//! Flags of the etcd tier, with etcd's names.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, ValueEnum};
use listen::flags::parse_duration;
use listen::{ClientCertificates, MAX_STREAMS, TlsFiles, TlsFlags};

use super::data_dir::DataFlags;
pub use without_effect::FlagsWithoutEffect;

mod without_effect;

/// Flags of the etcd tier.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "etcd tier", mut_arg("client_cert_auth", go_bool))]
pub struct EtcdFlags {
    /// URLs that serve etcd's API: http:// or https://, comma separated; port 0 picks a free port.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub listen_client_urls: Vec<String>,

    /// URLs in the member list for clients (default: the listen URLs).
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub advertise_client_urls: Vec<String>,

    /// URLs that serve only /metrics and health, over HTTP.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub listen_metrics_urls: Vec<String>,

    /// Name of this member.
    #[arg(long, default_value = "default")]
    pub name: String,

    /// Flags of the data directory.
    #[command(flatten)]
    pub data: DataFlags,

    /// Maximum size of a write request, bytes; also the target size of RangeStream's chunks.
    #[arg(long, default_value_t = 1_572_864, value_name = "BYTES", value_parser = parse_request_bytes)]
    pub max_request_bytes: usize,

    /// Maximum number of open streams per connection; more are refused.
    #[arg(long, default_value_t = MAX_STREAMS, value_name = "NUMBER")]
    pub max_concurrent_streams: u32,

    /// Maximum number of operations in a transaction.
    #[arg(long, default_value_t = 128)]
    pub max_txn_ops: usize,

    /// Size at which the NOSPACE alarm is raised, bytes; 0 means etcd's default of 2 GiB, a
    /// negative number no limit.
    #[arg(
        long,
        default_value_t = 0,
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    pub quota_backend_bytes: i64,

    /// Unit of --auto-compaction-retention: time or revisions.
    #[arg(long, value_enum, default_value_t = CompactionMode::Periodic)]
    pub auto_compaction_mode: CompactionMode,

    /// History to keep: a duration (periodic; a bare number means hours) or a number of revisions;
    /// 0 turns automatic compaction off.
    #[arg(long, default_value = "0", value_name = "RETENTION")]
    pub auto_compaction_retention: String,

    /// Encoding of unary Range responses: `buffered` collects the whole message first, as etcd
    /// does; `incremental` sends it while it is being read.
    #[arg(long, value_enum, default_value_t = RangeEncoding::Incremental)]
    pub range_encoding: RangeEncoding,

    /// Behave as this etcd minor version: below 3.7 there is no RangeStream.
    #[arg(long, default_value = "3.7", value_name = "MAJOR.MINOR")]
    pub emulate_version: EmulatedVersion,

    /// Period of watch progress notifications: at least 100ms, 0 means etcd's default of 10m.
    #[arg(
        long,
        alias = "experimental-watch-progress-notify-interval",
        value_parser = parse_progress_interval,
        default_value = "10m",
        value_name = "DURATION"
    )]
    pub watch_progress_notify_interval: Duration,

    /// Server certificate (PEM) for https:// listen URLs. This file and the next two are read for
    /// each connection; changes take effect once the files are consistent.
    #[arg(long, value_name = "FILE")]
    pub cert_file: Option<PathBuf>,

    /// Private key of --cert-file (PEM).
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// CA of client certificates (PEM). A client without a certificate of this CA is refused in the
    /// handshake.
    #[arg(long, value_name = "FILE")]
    pub trusted_ca_file: Option<PathBuf>,

    /// Require client certificates. --trusted-ca-file already implies this, and must be set.
    #[arg(long)]
    pub client_cert_auth: bool,

    /// Flags of etcd that have no effect here.
    #[command(flatten)]
    pub without_effect: FlagsWithoutEffect,
}

impl EtcdFlags {
    /// Returns the files for https:// listen URLs.
    pub fn tls_files(&self) -> TlsFiles {
        // As in etcd, either flag requires certificates.
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

/// The encoding of unary Range responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RangeEncoding {
    /// The whole message is in memory before the first byte is sent.
    Buffered,
    /// The message is sent while it is read. Its length prefix comes from the index's byte sums.
    Incremental,
}

/// The mode of automatic compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompactionMode {
    /// Keeps the revisions of a period of time.
    Periodic,
    /// Keeps a number of revisions.
    Revision,
}

/// The etcd version to emulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EmulatedVersion {
    /// Minor version of etcd 3.
    pub minor: u32,
}

impl EmulatedVersion {
    /// Returns whether this version has the RangeStream RPC.
    pub fn has_range_stream(self) -> bool {
        self.minor >= 7
    }

    /// Returns whether Status reports storage version and quota.
    pub fn has_storage_version(self) -> bool {
        self.minor >= 6
    }

    /// Returns the full version, as in `/version` and `Status.version`.
    pub fn server_version(self) -> String {
        match self.minor {
            7 => "3.7.3".to_owned(),
            minor => format!("3.{minor}.99"),
        }
    }

    /// Returns the cluster version.
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

/// Makes a flag that is true or false read as Go's flags are: `--flag` or `--flag=BOOL`.
pub(crate) fn go_bool(flag: Arg) -> Arg {
    flag.num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value("false")
        .action(ArgAction::Set)
        .value_parser(parse_go_bool)
        .hide_default_value(true)
        .value_name("BOOL")
}

/// Parses a truth value as Go's flags do (`strconv.ParseBool`).
fn parse_go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

/// Parses the maximum size of a request. Without an upper bound, a single request could use all
/// memory; with 0, every request would be refused.
fn parse_request_bytes(text: &str) -> Result<usize, String> {
    const MAX_BYTES: usize = 512 << 20;
    let bytes = text.parse().map_err(|e| format!("{e}"))?;
    match bytes {
        1..=MAX_BYTES => Ok(bytes),
        _ => Err(format!(
            "{bytes} is not between 1 and {MAX_BYTES} (512 MiB)"
        )),
    }
}

/// Parses a period of progress notifications as etcd does (`api/v3rpc/watch.go`, `NewWatchServer`).
fn parse_progress_interval(text: &str) -> Result<Duration, String> {
    const DEFAULT: Duration = Duration::from_secs(600);
    const MINIMUM: Duration = Duration::from_millis(100);
    parse_duration(text).map(|given| match given {
        Duration::ZERO => DEFAULT,
        given => given.max(MINIMUM),
    })
}

/// A command line with only the flags of this tier, for tests.
#[cfg(test)]
#[derive(Debug, clap::Parser)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) etcd: EtcdFlags,
    #[command(flatten)]
    pub(crate) common: listen::flags::CommonFlags,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_requests_has_bounds() {
        assert_eq!(parse_request_bytes("1"), Ok(1));
        assert_eq!(parse_request_bytes("536870912"), Ok(512 << 20));
        for bad in ["0", "536870913", "-1", "1.5MiB", ""] {
            assert!(parse_request_bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_progress_interval_is_etcds_for_the_same_flag() {
        for (given, taken) in [
            ("0s", Duration::from_secs(600)),
            ("1ms", Duration::from_millis(100)),
            ("200ms", Duration::from_millis(200)),
        ] {
            assert_eq!(parse_progress_interval(given), Ok(taken), "{given}");
        }
    }
}
