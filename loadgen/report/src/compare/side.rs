//! The description of a side of a comparison: its targets, programs, runs and machines.

use super::Side;
use crate::quantity::Quantity;
use crate::result::{Environment, SavedResult};

/// Returns the description of a side, `targets` of which are compared.
pub(super) fn side(results: &[SavedResult], targets: Vec<String>) -> Side {
    let environments = || results.iter().map(|result| &result.report.environment);
    let distinct = |values: &mut dyn Iterator<Item = String>| {
        let mut found: Vec<String> = Vec::new();
        for value in values {
            if !found.contains(&value) {
                found.push(value);
            }
        }
        found
    };
    let setups = environments().flat_map(|environment: &Environment| &environment.servers);
    let programs = setups.filter(|setup| targets.contains(&setup.target));
    let started = || results.iter().map(|result| result.report.started.clone());
    Side {
        programs: distinct(&mut programs.map(|setup| setup.program.clone())),
        runs: results.len(),
        first: started().min().unwrap_or_default(),
        last: started().max().unwrap_or_default(),
        commits: distinct(&mut environments().filter_map(|it| it.commit.clone())),
        machines: distinct(&mut environments().map(machine)),
        targets,
    }
}

/// Returns a short description of a machine: `vm, 2 cores of Some CPU, 24.0 GiB`.
fn machine(environment: &Environment) -> String {
    let Environment {
        host,
        cores,
        cpu_model,
        memory_bytes,
        ..
    } = environment;
    let memory = Quantity::bytes(*memory_bytes);
    format!("{host}, {cores} cores of {cpu_model}, {memory}")
}
