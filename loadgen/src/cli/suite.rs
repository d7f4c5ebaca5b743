//! Arguments of `loadgen suite`.

use std::path::PathBuf;

use clap::{Args, Parser as _, ValueEnum};
use workloads::suite::Size;
use workloads::{CpuList, SuiteRun};

use super::{CareArgs, ConnectArgs, RunArgs};
use crate::isolation::network::NetworkNamespace;
use crate::run::target_names;
use crate::servers::target_spec::TargetSpec;

/// Arguments of `loadgen suite`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SuiteArgs {
    /// Name of a suite, or path of a suite file; without it, the suites are listed
    #[arg(value_name = "NAME|FILE.toml")]
    pub name: Option<String>,

    /// Use few objects and repeats, to check that everything works: thresholds that depend on the
    /// number of objects are not judged
    #[arg(long)]
    pub small: bool,

    /// The target to measure, as for `loadgen run`, repeatable [default: bench]. Thresholds apply
    /// to the first. A target that syncs each write (etcd-fsync:PATH) is measured only in scenarios
    /// that write
    #[arg(long = "target", value_name = "TARGET")]
    pub targets: Vec<String>,

    /// As for `loadgen run`
    #[arg(long, value_name = "URL[,URL]")]
    pub etcd: Option<String>,

    /// As for `loadgen run`
    #[arg(long, value_name = "URL")]
    pub kube: Option<String>,

    /// As for `loadgen run`
    #[arg(long)]
    pub seed_data: bool,

    /// What may be done to an endpoint that holds other people's data.
    #[command(flatten)]
    pub care: CareArgs,

    /// How to connect.
    #[command(flatten)]
    pub connect: ConnectArgs,

    /// Number of objects, instead of every scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub objects: Option<u64>,

    /// Number of measured lists per strategy, instead of every scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: Option<u32>,

    /// As for `loadgen run`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub starts: Option<u32>,

    /// As for `loadgen run`
    #[arg(long, value_name = "DIR")]
    pub go_clients: Option<PathBuf>,

    /// The folder in which the result folders are created: one for each run, and one for the suite
    #[arg(long, value_name = "DIR", default_value = "scratch")]
    pub out: PathBuf,

    /// As for `loadgen run`
    #[arg(long, value_name = "FILE.toml")]
    pub thresholds: Option<PathBuf>,

    /// The format of standard output
    #[arg(long, value_enum, default_value_t)]
    pub format: SuiteFormat,

    /// As for `loadgen run`
    #[arg(long)]
    pub keep_data: bool,

    /// As for `loadgen run`
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub network_namespace: NetworkNamespace,

    /// As for `loadgen run`
    #[arg(long, value_name = "LIST")]
    pub server_cpus: Option<CpuList>,

    /// As for `loadgen run`
    #[arg(long, value_name = "LIST")]
    pub client_cpus: Option<CpuList>,

    /// As for `loadgen run`
    #[arg(long)]
    pub dry_run: bool,
}

/// A format in which a suite's result is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SuiteFormat {
    /// The table of each run, and the verdict.
    #[default]
    Text,
    /// The verdict, as `suite.json`.
    Json,
    /// The verdict, for the summary of a CI job.
    Markdown,
}

/// The command line of a `loadgen run` without arguments.
#[derive(clap::Parser)]
struct Bare {
    #[command(flatten)]
    run: RunArgs,
}

impl SuiteArgs {
    /// Returns the arguments of `loadgen run` for one run of the suite.
    #[must_use]
    pub fn run_args(&self, run: &SuiteRun) -> RunArgs {
        let Size {
            objects,
            repeats,
            duration,
        } = run.size(self.small);
        // Parsed instead of constructed: flags that a suite does not have keep the defaults that
        // their help names.
        RunArgs {
            scenarios: vec![run.scenario.clone()],
            targets: self.targets_of(run),
            seed_data: self.seed_data,
            care: self.care.clone(),
            connect: self.connect.clone(),
            strategies: run.strategies.iter().map(ToString::to_string).collect(),
            objects: self.objects.or(objects.map(Into::into)),
            repeats: self.repeats.or(repeats.map(Into::into)),
            duration,
            starts: self.starts,
            thresholds: self.thresholds.clone(),
            go_clients: self.go_clients.clone(),
            out: self.out.clone(),
            keep_data: self.keep_data,
            network_namespace: self.network_namespace,
            server_cpus: self.server_cpus.clone(),
            client_cpus: self.client_cpus.clone(),
            ..Bare::parse_from(["run"]).run
        }
    }

    /// Returns the targets that take part in a run. The first one always does.
    fn targets_of(&self, run: &SuiteRun) -> Vec<String> {
        let names = target_names(&self.targets, self.etcd.as_deref(), self.kube.as_deref());
        let mut names = names.into_iter();
        let first = names.next();
        let others = names.filter(|name| {
            let syncs = name.parse().is_ok_and(|spec: TargetSpec| spec.is_synced());
            !run.first_target_only && (run.writes || !syncs)
        });
        first.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};

    fn suite(line: &[&str]) -> SuiteArgs {
        let words = ["loadgen", "suite"].iter().chain(line);
        match Cli::parse_from(words).into_command() {
            Command::Suite(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn one(more: &str) -> SuiteRun {
        let text = format!(
            "name = \"mine\"\nsummary = \"\"\n[[run]]\nscenario = \"watchers\"\n\
             size = {{ repeats = 7 }}\nsmall = {{ repeats = 2 }}\n{more}"
        );
        let suite = workloads::Suite::parse(&text, "mine").expect("a suite");
        suite.runs[0].clone()
    }

    #[test]
    fn each_run_has_its_targets_the_first_always() {
        let args = suite(&[
            "speed",
            "--target",
            "bench",
            "--target",
            "etcd:a",
            "--target",
            "etcd-fsync:a",
        ]);
        let targets = |more| args.run_args(&one(more)).targets;
        assert_eq!(targets(""), ["bench", "etcd:a"]);
        assert_eq!(
            targets("writes = true"),
            ["bench", "etcd:a", "etcd-fsync:a"]
        );
        assert_eq!(targets("first_target_only = true"), ["bench"]);
        let only = suite(&["speed", "--target", "bench-fsync"]);
        assert_eq!(only.run_args(&one("")).targets, ["bench-fsync"]);
        assert_eq!(suite(&["speed"]).run_args(&one("")).targets, ["bench"]);
    }

    #[test]
    fn the_command_line_goes_before_small_and_that_before_the_suite() {
        let repeats = |line: &[&str]| suite(line).run_args(&one("")).repeats;
        assert_eq!(repeats(&["speed"]), Some(7));
        assert_eq!(repeats(&["speed", "--small"]), Some(2));
        assert_eq!(repeats(&["speed", "--small", "--repeats", "5"]), Some(5));
    }

    #[test]
    fn every_run_has_the_starts_of_the_command_line() {
        let starts = |line: &[&str]| suite(line).run_args(&one("")).starts;
        assert_eq!(starts(&["speed"]), None);
        assert_eq!(starts(&["speed", "--starts", "3"]), Some(3));
    }
}
