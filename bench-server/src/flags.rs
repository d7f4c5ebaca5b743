//! The command line of both tiers. Flags of etcd and kube-apiserver keep their names.

use clap::Parser;
use tracing_subscriber::EnvFilter;

pub use etcd_tier::flags::{CompactionMode, EmulatedVersion, EtcdFlags, RangeEncoding};
pub use kube_tier::server::{FeatureGates, KubeFlags};
pub use listen::flags::CommonFlags;

/// The exit codes, for the help text.
const EXIT_CODES: &str = "\
Exit codes:
  0  stopped by SIGINT or SIGTERM
  1  a part of the server failed
  2  wrong usage, or the server cannot be started";

/// A server with etcd's API over an in-memory store, or the Kubernetes API in front of any etcd,
/// to measure lists and watches with.
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
    /// Log level (off, error, warn, info, debug, trace), or a filter like bench_server=debug; logs
    /// go to standard error.
    #[arg(long, default_value = "info", env = "BENCH_SERVER_LOG", value_parser = parse_log_filter)]
    pub log_level: String,

    /// Flags of both tiers.
    #[command(flatten)]
    pub common: CommonFlags,
}

/// Parses an `EnvFilter`. A single word must be a level and not the name of a target, because a
/// mistyped level would turn off all logs.
fn parse_log_filter(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    // etcd's levels above error, at which this server logs nothing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_level_is_rejected() {
        let read = |text| {
            let line = ["bench-server", "--log-level", text];
            Flags::try_parse_from(line).map(|flags| flags.log_level)
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
}
