//! Tests of the command line as scripts type it.

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use report::compare::Metric;

use super::*;

fn run_args(line: &str) -> RunArgs {
    match Cli::try_parse_from(line.split(' '))
        .expect(line)
        .into_command()
    {
        Command::Run(args) => *args,
        other => panic!("`{line}` is a run, not {other:?}"),
    }
}

#[track_caller]
fn refused(line: &str) -> String {
    let error = Cli::try_parse_from(line.split(' ')).expect_err(line);
    assert_eq!(error.exit_code(), Exit::Usage as i32, "{line}");
    error.to_string()
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn no_command_is_the_default_run() {
    let default = run_args("loadgen");
    assert_eq!(
        default,
        run_args("loadgen run"),
        "defaults must not depend on which way they are reached"
    );
    assert_eq!(default.out, PathBuf::from("scratch"));
}

#[test]
fn a_resource_is_named_as_kubectl_names_it() {
    let args = run_args("loadgen run --kube http://a --resource Deploy.v1.apps --namespace team-a");
    let named = args.resource.map(|name| name.to_string());
    assert_eq!(named.as_deref(), Some("deploy.v1.apps"));
    assert_eq!(args.namespace.as_deref(), Some("team-a"));
    for (bad, says) in [
        ("--resource pods/status", "is a part of a resource"),
        ("--resource deployments..apps", "deployments.v1.apps"),
        ("--resource=", "is no name of a resource"),
        ("--namespace Team", "small letters"),
        ("--namespace a/b", "small letters"),
        ("--resource pods --seed-data", "--seed-data"),
        ("--resource pods --prefix /a", "--prefix"),
        ("--namespace a --seed-data", "--seed-data"),
    ] {
        let error = refused(&format!("loadgen run --kube http://a {bad}"));
        assert!(error.contains(says), "{bad}: {error}");
    }
}

#[test]
fn a_run_takes_what_the_design_names() {
    let args = run_args(
        "loadgen run pods-150k my.toml --target bench --target etcd:/usr/bin/etcd --strategies stream,paged:500 \
--objects 10000 --clients 5 --repeats 3 --seed 7 --out results --format json --dry-run",
    );
    assert_eq!(args.scenarios, ["pods-150k", "my.toml"]);
    assert_eq!(args.targets, ["bench", "etcd:/usr/bin/etcd"]);
    assert_eq!(args.strategies, ["stream", "paged:500"]);
    assert_eq!(
        (args.objects, args.clients, args.repeats, args.seed),
        (Some(10_000), Some(5), Some(3), Some(7))
    );
    assert_eq!(
        (args.format, args.dry_run, args.seed_data),
        (Format::Json, true, false)
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    refused("loadgen run --prefix /registry/ --seed-data");
    refused("loadgen run --objects 0");
    refused("loadgen run --cert a.pem");
    refused("loadgen run --format yaml");
    refused("loadgen run --duration soon");
}

#[test]
fn what_is_not_built_is_not_there() {
    refused("loadgen replay a");
    let help = Cli::command().render_long_help().to_string();
    assert!(!help.contains("replay"), "{help}");
    assert!(help.contains(Exit::HELP), "{help}");
}

#[test]
fn results_of_several_generators_have_a_command_and_a_shard_is_of_one_of_them() {
    let args = run_args("loadgen run --shard 3/8 --start-at 2026-11-24T12:00:00Z");
    let shard = args.shard.map(|shard| shard.resolved(Some("0")));
    let shard = shard.and_then(Result::ok).map(|shard| shard.to_string());
    assert_eq!(shard.as_deref(), Some("3/8"));
    assert_eq!(args.start_at, "1795521600".parse().ok());
    refused("loadgen run --shard 8/8");
    refused("loadgen run --start-at soon");
    refused("loadgen merge");
    let line = "loadgen merge a b --out c";
    let merge = Cli::try_parse_from(line.split(' '))
        .expect(line)
        .into_command();
    match merge {
        Command::Merge(args) => assert_eq!((args.folders.len(), args.out), (2, "c".into())),
        other => panic!("`{line}` is a merge, not {other:?}"),
    }
}

#[test]
fn help_is_no_error() {
    let error = Cli::try_parse_from(["loadgen", "--help"]).expect_err("help is asked for");
    assert_eq!(
        (error.kind(), error.exit_code()),
        (ErrorKind::DisplayHelp, 0)
    );
}

#[test]
fn a_password_does_not_get_into_a_result() {
    let shown = |line: &str| shown_command(line.split(' ').map(str::to_owned)).join(" ");
    assert_eq!(
        shown("loadgen run --user root:secret --etcd http://a:1"),
        "loadgen run --user root:*** --etcd http://a:1"
    );
    assert_eq!(
        shown("loadgen run --user=root:secret"),
        "loadgen run --user=root:***"
    );
    assert_eq!(shown("loadgen run --user root"), "loadgen run --user root");
}

#[test]
fn a_comparison_takes_a_threshold_and_numbers() {
    let line = "loadgen compare a b --fail-above 10% --metric peak_memory,p99";
    let Command::Compare(args) = Cli::try_parse_from(line.split(' '))
        .expect(line)
        .into_command()
    else {
        panic!("`{line}` is a comparison");
    };
    assert_eq!(args.verdict.fail_above, Some(Percent(0.1)));
    assert_eq!(args.verdict.metrics, [Metric::PeakMemory, Metric::P99]);
    assert!(
        refused("loadgen compare a b --fail-above much").contains("`much` is not a percentage")
    );
    assert!(
        refused("loadgen compare a b --metric peek_memory").contains("peak_memory"),
        "the nearest name is suggested"
    );
}

#[test]
fn a_server_gets_its_own_flags() {
    let line = "loadgen serve --listen-client-urls http://127.0.0.1:0 --help";
    let Command::Serve(args) = Cli::try_parse_from(line.split(' '))
        .expect(line)
        .into_command()
    else {
        panic!("`{line}` starts a server");
    };
    assert_eq!(
        args.flags,
        ["--listen-client-urls", "http://127.0.0.1:0", "--help"]
    );
}
