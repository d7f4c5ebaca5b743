//! The scenarios of a command line.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;

use anyhow::anyhow;
use report::threshold;
use workloads::scenario::is_file;
use workloads::{Kind, MachineThresholds, PlainList, Scenario, Strategy};

use crate::exit::Failure;

/// The page sizes of a `--prefix` run.
const PREFIX_PAGES: [u32; 2] = [10_000, 500];

/// Returns the scenarios with these names or in these files; the default scenario if there are
/// none.
pub(super) fn named(names: &[String]) -> Result<Vec<Scenario>, Failure> {
    let default = [workloads::scenario::DEFAULT.to_owned()];
    let names = if names.is_empty() { &default } else { names };
    names
        .iter()
        .map(|name| {
            if is_file(name) {
                Scenario::from_path(Path::new(name))
            } else {
                Scenario::named(name)
            }
        })
        .map(|scenario| scenario.map_err(Failure::usage))
        .collect()
}

/// Adds the thresholds of a file to the scenarios. Returns a note for each scenario for which the
/// file has none.
pub(super) fn add_thresholds(
    scenarios: &mut [Scenario],
    file: Option<&Path>,
) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    let Some(file) = file else {
        return Ok(notes);
    };
    let thresholds = MachineThresholds::from_path(file).map_err(Failure::usage)?;
    for scenario in scenarios {
        if !thresholds.add_to(scenario).map_err(Failure::usage)? {
            let others: Vec<&str> = thresholds.scenarios().collect();
            notes.push(format!(
                "{} has no threshold for `{}`, only for {}",
                file.display(),
                scenario.name,
                others.join(", ")
            ));
        }
    }
    Ok(notes)
}

/// Checks that the metric of every threshold is in reports.
pub(super) fn check_thresholds(scenario: &Scenario) -> Result<(), Failure> {
    match scenario
        .thresholds
        .iter()
        .find(|threshold| !threshold::is_metric(&threshold.metric))
    {
        None => Ok(()),
        Some(threshold) => Err(Failure::usage(anyhow!(
            "scenario `{}`, threshold `{}`: cases of report.json have no number `{}`",
            scenario.name,
            threshold.name,
            threshold.metric
        ))),
    }
}

/// Returns the scenario of a `--prefix` run: unary, streamed and paged lists, three times each.
pub(super) fn prefix_scenario(prefix: &str) -> Result<Scenario, Failure> {
    if prefix.is_empty() {
        return Err(Failure::usage(anyhow!("--prefix is empty; `/` is not")));
    }
    let mut scenario = Scenario::named(workloads::scenario::DEFAULT).map_err(Failure::usage)?;
    "prefix".clone_into(&mut scenario.name);
    scenario.summary = format!("what is below {prefix}");
    scenario.description.clear();
    scenario.repeats = 3;
    scenario.first_chunk_streams = 20;
    scenario.thresholds.clear();
    scenario.cases.etcd = vec![
        Strategy::Plain(PlainList::Unary).into(),
        Strategy::Plain(PlainList::Stream).into(),
    ];
    let pages = PREFIX_PAGES.into_iter().filter_map(NonZeroU32::new);
    let pages = pages.map(|size| Strategy::Paged(size).into());
    scenario.cases.etcd.extend(pages);
    scenario.cases.kube.clear();
    // Nothing is loaded, but a scenario must have a data set. This one has raw values, so that it
    // is not for the Kubernetes tier.
    scenario.data_sets.truncate(1);
    scenario.data_sets[0].kind = Kind::Raw;
    scenario.data_sets[0].object_size = NonZeroU64::new(1);
    scenario.data_sets[0].namespaces = None;
    scenario.data_sets[0].nodes = None;
    Ok(scenario)
}
