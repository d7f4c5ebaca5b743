//! Checks which cases several generators can run together, and which can begin at a given time,
//! before any request to a target.

use std::time::SystemTime;

use anyhow::anyhow;
use workloads::scenario::{LoadSpec, Operation, Start};
use workloads::{CaseSpec, Driver, Scenario, Strategy, Tier};

use super::GeneratorGroup;
use crate::cli::RunArgs;
use crate::exit::Failure;
use crate::run::target::Target;
use crate::servers::target_spec::TargetSpec;

/// Checks that the run has only one case, which can be shared and can wait for its start time.
///
/// # Errors
/// [`Failure`] with exit code 2 and one line that says what to change.
pub(in crate::run) fn check(
    together: GeneratorGroup,
    scenarios: &[Scenario],
    targets: &[Target],
    args: &RunArgs,
) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::usage(anyhow!(why)));
    let GeneratorGroup {
        shard,
        start_at,
        is_shard,
    } = together;
    if !is_shard && start_at.is_none() {
        return Ok(());
    }
    let flag = match is_shard {
        false => "--start-at",
        true => "--shard",
    };
    if args.prefix.is_some() {
        return refused(format!(
            "{flag} is for loads, and --prefix lists what is there"
        ));
    }
    let (scenario, tier, case) = match one_case(scenarios, targets) {
        Ok(one) => one,
        Err(cases) => {
            return refused(format!(
                "{flag} is for one case on one target, and these are {cases}: choose with --cases or --strategies, and one --target"
            ));
        }
    };
    let name = format!("{tier}/{}", case.name());
    if case.saturate.is_some() {
        return refused(format!(
            "{flag}: a search for the highest rate is made by one generator, at once"
        ));
    }
    let is_load = matches!(case.strategy.driver(), Driver::Loads | Driver::Requests);
    if !is_load || !case.background.is_empty() {
        return refused(format!(
            "{flag} is for small requests and for cases of loads, and `{name}` is neither: lists are a load as well, {{ list = \"stream\" }}"
        ));
    }
    if !shard.is_whole() {
        shared(together, scenario, case, targets, args)?;
    }
    match start_at.map(|at| at.duration_since(SystemTime::now())) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(past)) => refused(format!(
            "--start-at is {:.1} s ago",
            past.duration().as_secs_f64()
        )),
    }
}

/// Returns the only case of a run, or else the number of cases.
fn one_case<'a>(
    scenarios: &'a [Scenario],
    targets: &[Target],
) -> Result<(&'a Scenario, Tier, &'a CaseSpec), usize> {
    let all: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| scenario.data_sets.iter().map(move |spec| (scenario, spec)))
        .flat_map(|(scenario, spec)| {
            let cases = scenario.cases_on(&spec.name);
            cases.map(move |(tier, case)| (scenario, tier, case))
        })
        .collect();
    match (all.len() * targets.len(), all.first().copied()) {
        (1, Some(one)) => Ok(one),
        (cases, _) => Err(cases),
    }
}

/// Checks that several generators can run the case together.
fn shared(
    together: GeneratorGroup,
    scenario: &Scenario,
    case: &CaseSpec,
    targets: &[Target],
    args: &RunArgs,
) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::usage(anyhow!(why)));
    let GeneratorGroup {
        shard, start_at, ..
    } = together;
    if start_at.is_none() {
        return refused(format!(
            "--shard {shard} needs --start-at, the same for all generators: they meet by it"
        ));
    }
    for target in targets {
        match target.spec {
            TargetSpec::Etcd(_) if args.seed_data => {
                return refused(
                    "--shard needs an etcd without keys, since several generators are too much load for one in use: remove --seed-data".to_owned(),
                );
            }
            TargetSpec::Etcd(_) => {}
            TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) => of_kubernetes(case, target, args)?,
            _ => {
                return refused(format!(
                    "--shard: `{target}` would be started by this generator for itself: start a server and name it with --etcd URL or --kube URL"
                ));
            }
        }
    }
    let parts: Vec<Parts> = match &case.loads {
        Some(case) => case.load.iter().map(parts_of_load).collect(),
        None => vec![parts_of_case(scenario, case)],
    };
    let too_few = parts
        .into_iter()
        .find(|(_, _, count)| *count < shard.count());
    match too_few {
        None => Ok(()),
        Some((name, what, count)) => refused(format!(
            "--shard: `{name}` has {count} {what} for {0} generators, which have one each at least: {what} = {0} or more",
            shard.count()
        )),
    }
}

/// Checks that generators can share the case on a Kubernetes API.
fn of_kubernetes(case: &CaseSpec, target: &Target, args: &RunArgs) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::usage(anyhow!(why)));
    if !args.seed_data {
        return refused(format!(
            "--shard: generators meet in a namespace of the run, and `{target}` is only read: --seed-data allows it"
        ));
    }
    let loads = case.loads.iter().flat_map(|case| &case.load);
    let mut selecting =
        loads.filter(|load| matches!(load.operation, Operation::List(Strategy::Selector(_))));
    match selecting.next() {
        None => Ok(()),
        Some(load) => refused(format!(
            "--shard: `{}` lists by a selector, and which objects a Kubernetes API has stored is known to generator 0 alone",
            load.name
        )),
    }
}

/// The name of a load, what is divided between the generators (clients or connections), and how
/// many of those there are. If both are divided, the smaller number counts.
type Parts = (String, &'static str, u32);

fn parts_of_load(load: &LoadSpec) -> Parts {
    let clients = ("clients", load.clients.get());
    let connections = load.connections.map_or(1, std::num::NonZeroU32::get);
    let connections = ("connections", connections);
    let (what, count) = match (&load.operation, &load.arrivals) {
        (Operation::List(_), _) => clients,
        (Operation::Small(_), Start::Open(_)) => connections,
        // Each watcher has a connection of its own.
        (Operation::Watch, _) if load.tier() == Tier::Kube => clients,
        (Operation::Small(_), Start::Closed { .. }) | (Operation::Watch, _) => {
            fewer(clients, connections)
        }
    };
    (load.name.clone(), what, count)
}

fn parts_of_case(scenario: &Scenario, case: &CaseSpec) -> Parts {
    let clients = case.clients.map(std::num::NonZeroU32::get);
    let clients = ("clients", clients.unwrap_or(scenario.clients));
    let connections = case.connections.map_or(1, std::num::NonZeroU32::get);
    let connections = ("connections", connections);
    let (what, count) = match case.profile(scenario.rate) {
        Some(_) => connections,
        None => fewer(clients, connections),
    };
    (case.name(), what, count)
}

fn fewer(one: (&'static str, u32), other: (&'static str, u32)) -> (&'static str, u32) {
    if other.1 < one.1 { other } else { one }
}
