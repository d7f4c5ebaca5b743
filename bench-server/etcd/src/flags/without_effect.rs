//! Flags of etcd that are accepted and have no effect, because they concern raft, peers, a database
//! or logs that this server does not have. So the command line of an etcd starts this server, too.

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

/// The members of a new cluster, as `NAME=URL,NAME=URL`. More than one is refused.
const INITIAL_CLUSTER: &str = "initial-cluster";

/// The names of the flags. Not among them are those that would make a server less open if they had
/// an effect, such as `--client-crl-file` and `--tls-min-version`: they are unknown.
const NAMES: [&str; 59] = [
    INITIAL_CLUSTER,
    "initial-advertise-peer-urls",
    "initial-cluster-state",
    "initial-cluster-token",
    "initial-corrupt-check",
    "initial-election-tick-advance",
    "listen-peer-urls",
    "peer-auto-tls",
    "peer-cert-allowed-cn",
    "peer-cert-allowed-hostname",
    "peer-cert-file",
    "peer-client-cert-auth",
    "peer-client-cert-file",
    "peer-client-key-file",
    "peer-crl-file",
    "peer-key-file",
    "peer-skip-client-san-verification",
    "peer-trusted-ca-file",
    "election-timeout",
    "heartbeat-interval",
    "max-learners",
    "pre-vote",
    "raft-read-timeout",
    "raft-write-timeout",
    "strict-reconfig-check",
    "max-snapshots",
    "max-wals",
    "snapshot-catchup-entries",
    "snapshot-count",
    "wal-dir",
    "backend-batch-interval",
    "backend-batch-limit",
    "backend-bbolt-freelist-type",
    "bootstrap-defrag-threshold-megabytes",
    "memory-mlock",
    "compact-hash-check-time",
    "compaction-batch-limit",
    "compaction-sleep-interval",
    "corrupt-check-time",
    "downgrade-check-time",
    "experimental-initial-corrupt-check",
    "enable-grpc-gateway",
    "enable-log-rotation",
    "enable-pprof",
    "grpc-keepalive-interval",
    "grpc-keepalive-min-time",
    "grpc-keepalive-timeout",
    "log-format",
    "log-outputs",
    "log-rotation-config-json",
    "logger",
    "metrics",
    "warning-apply-duration",
    "warning-unary-request-duration",
    "discovery-fallback",
    "self-signed-cert-validity",
    "socket-reuse-address",
    "socket-reuse-port",
    "v2-deprecation",
];

/// The flags of this kind that were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlagsWithoutEffect {
    given: Vec<&'static str>,
}

impl FlagsWithoutEffect {
    /// Returns the names of those that were given, as `--name`, comma separated; `None` if none
    /// was.
    #[must_use]
    pub fn names(&self) -> Option<String> {
        let names: Vec<String> = self.given.iter().map(|name| format!("--{name}")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

impl Args for FlagsWithoutEffect {
    fn augment_args(command: Command) -> Command {
        let flag = |name: &'static str| {
            // A flag of Go that is true or false may stand without a value, and of several of one
            // name the last counts.
            let flag = Arg::new(name).long(name).hide(true);
            let flag = flag.num_args(0..=1).default_missing_value("true");
            flag.overrides_with(name)
        };
        command.args(NAMES.map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FlagsWithoutEffect {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let cluster = matches.get_one::<String>(INITIAL_CLUSTER);
        let members = cluster.map_or(1, |cluster| cluster.split(',').count());
        if members > 1 {
            return Err(Error::raw(
                ErrorKind::ValueValidation,
                format!(
                    "--{INITIAL_CLUSTER} names {members} members, and this server is always the only one"
                ),
            ));
        }
        let given = NAMES.into_iter().filter(|name| matches.contains_id(name));
        Ok(Self {
            given: given.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::flags::Flags;

    fn read(flags: &[&str]) -> Result<Flags, clap::Error> {
        Flags::try_parse_from([&["bench-server"], flags].concat())
    }

    #[test]
    fn the_command_line_of_kubeadm_is_accepted() {
        let flags = read(&[
            "--advertise-client-urls=https://10.0.0.1:2379",
            "--cert-file=server.crt",
            "--client-cert-auth=true",
            "--data-dir=/var/lib/etcd",
            "--experimental-initial-corrupt-check=true",
            "--experimental-watch-progress-notify-interval=5s",
            "--initial-advertise-peer-urls=https://10.0.0.1:2380",
            "--initial-cluster=node=https://10.0.0.1:2380",
            "--key-file=server.key",
            "--listen-client-urls=https://127.0.0.1:2379,https://10.0.0.1:2379",
            "--listen-metrics-urls=http://127.0.0.1:2381",
            "--listen-peer-urls=https://10.0.0.1:2380",
            "--name=node",
            "--peer-cert-file=peer.crt",
            "--peer-client-cert-auth=true",
            "--peer-key-file=peer.key",
            "--peer-trusted-ca-file=ca.crt",
            "--snapshot-count=10000",
            "--trusted-ca-file=ca.crt",
        ]);
        let flags = flags.expect("flags").etcd;
        assert!(flags.client_cert_auth);
        assert_eq!(flags.watch_progress_notify_interval.as_secs(), 5);
        let names = flags.without_effect.names().expect("some");
        assert!(names.starts_with("--initial-cluster, --initial-advertise-peer-urls, "));
        assert!(names.ends_with("--snapshot-count, --experimental-initial-corrupt-check"));
    }

    #[test]
    fn flags_of_go_may_stand_without_a_value() {
        let flags = read(&[
            "--strict-reconfig-check",
            "--logger",
            "zap",
            "--logger=zap",
            "--client-cert-auth=1",
            "--pre-vote=false",
        ]);
        let flags = flags.expect("flags").etcd;
        assert!(flags.client_cert_auth);
        let names = flags.without_effect.names();
        assert_eq!(
            names.as_deref(),
            Some("--pre-vote, --strict-reconfig-check, --logger")
        );
        assert_eq!(read(&[]).expect("none").etcd.without_effect.names(), None);
    }

    #[test]
    fn a_cluster_of_several_members_is_refused() {
        let error = read(&["--initial-cluster", "a=http://a:2380,b=http://b:2380"]);
        let error = error.expect_err("two members");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("names 2 members"), "{error}");
        let error = read(&["--client-crl-file=x"]).expect_err("would matter");
        assert_eq!(error.exit_code(), 2);
    }
}
