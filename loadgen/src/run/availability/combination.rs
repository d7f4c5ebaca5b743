//! Checks before anything is started: whether a target can ever run a case.

use anyhow::anyhow;
use workloads::scenario::{Keys, LoadSpec, LoadsSpec};
use workloads::{CaseSpec, Driver, Kind, Scenario, SmallRequest, Strategy, Tier};

use crate::exit::Failure;
use crate::run::target::Target;
use crate::servers::target_spec::TargetSpec;

/// Returns why a target can never run a case; `None` if it may. `loaded` is the kind of the objects
/// that are written for the case, if any are.
pub(in crate::run) fn never(
    target: &TargetSpec,
    scenario: &Scenario,
    tier: Tier,
    case: &CaseSpec,
    loaded: Option<Kind>,
) -> Option<&'static str> {
    let needs = || loaded.and_then(|kind| needs_kubernetes(kind, tier));
    if let Some(reason) = target.lacks(tier).or_else(needs) {
        return Some(reason);
    }
    if let Some(case) = &case.loads
        && case.uses_etcd()
        && let Some(reason) = target.lacks(Tier::Etcd)
    {
        return Some(reason);
    }
    if target.is_started() {
        return None;
    }
    if case
        .loads
        .as_ref()
        .is_some_and(|case| case.rounds.is_some())
    {
        return Some(
            "what it holds at rest depends on its other clients: only on servers that we start",
        );
    }
    let through_api = case
        .loads
        .as_ref()
        .is_some_and(LoadsSpec::writes_through_api);
    if through_api && loaded.is_none() {
        return Some(
            "its requests write objects into namespaces of the run, which --seed-data makes and removes",
        );
    }
    if writes_what_stays(scenario, case) {
        return Some("it leaves keys behind, or compacts: only on servers that loadgen starts");
    }
    (!case.server.is_empty())
        .then_some("it needs other flags of the server, which loadgen does not start")
}

/// Returns why a tier cannot serve objects of a kind; `None` when it can.
pub(in crate::run) fn needs_kubernetes(kind: Kind, tier: Tier) -> Option<&'static str> {
    (tier == Tier::Kube && !kind.is_kubernetes())
        .then_some("the Kubernetes tier serves Kubernetes objects, and these are raw values")
}

/// Returns the kind of the objects that are written to a target before its cases. `None` for an API
/// that is only read: its own objects are listed, whatever the data set is.
pub(in crate::run) fn loaded(target: &TargetSpec, seed_data: bool, kind: Kind) -> Option<Kind> {
    (target.is_started() || seed_data).then_some(kind)
}

/// Rejects a scenario of which no target can run any case: it would succeed without any result.
///
/// # Errors
/// [`Failure`] with exit code 2 and each target's reasons.
pub(in crate::run) fn measures_something(
    scenario: &Scenario,
    targets: &[Target],
    seed_data: bool,
) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    for target in targets {
        for spec in &scenario.data_sets {
            let loaded = loaded(&target.spec, seed_data, spec.kind);
            for (tier, case) in scenario.cases_on(&spec.name) {
                let Some(reason) = never(&target.spec, scenario, tier, case, loaded) else {
                    return Ok(());
                };
                let reason = format!("{target}: {reason}");
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
    }
    Err(Failure::usage(anyhow!(
        "scenario `{}` can measure nothing: {}",
        scenario.name,
        reasons.join("; ")
    )))
}

/// Returns whether a case writes data that is not deleted afterwards from an endpoint that loadgen
/// did not start, or compacts history that other clients may need. Objects of the data set, and the
/// keys and leases of its loads, are deleted.
fn writes_what_stays(scenario: &Scenario, case: &CaseSpec) -> bool {
    let mut writers = scenario
        .background
        .iter()
        .filter(|load| load.strategy == Strategy::Put && load.keys == Keys::Elsewhere);
    // Objects that are written through a Kubernetes API are deleted again.
    let loads = case.loads.iter().flat_map(|case| &case.load);
    let requests = loads.filter(|load| load.tier() == Tier::Etcd);
    let requests = requests.flat_map(LoadSpec::small_requests);
    case.strategy.driver() == Driver::Delivery
        || requests.into_iter().any(SmallRequest::needs_own_server)
        || writers.any(|load| case.background.contains(&load.name))
}
