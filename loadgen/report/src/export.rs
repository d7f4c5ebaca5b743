//! Exports results in the formats of other programs. What is not measured, or does not count, is
//! left out: a program that takes a missing value for 0 would take it for the fastest ever. In each
//! format a metric's name and unit must never change, and no name contains the address of a target.
//!
//! - [`go_benchmark`]: for benchstat; [`csv`]: one value per line, for spreadsheets and notebooks.
//!   Both contain each start of a server
//! - [`perfdash`], [`github_action_benchmark`], [`bencher`]: one value for each metric of a case,
//!   over all given runs, which `measurement` computes
//! - [`openmetrics`]: one value for each run, at its time
//! - `target_names`: the names of targets in these formats

pub mod bencher;
pub mod csv;
pub mod github_action_benchmark;
pub mod go_benchmark;
mod measurement;
pub mod openmetrics;
pub mod perfdash;
mod target_names;

use crate::result::{Environment, ServerSetup};

/// Why results cannot be exported to a format that has one value for each name.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The same run was given twice.
    #[error("the run of {started} on {host} is given twice: its starts count once")]
    SameRun {
        /// When the run began.
        started: String,
        /// The host that it ran on.
        host: String,
    },
    /// Runs of one scenario differ in something that forbids combining them into one value.
    #[error("{what} is {first} in one run of {scenario} and {other} in another: export them apart")]
    Mixed {
        /// The scenario.
        scenario: String,
        /// What differs, as `the host`.
        what: String,
        /// Its value in the first run.
        first: String,
        /// Its value in a later run.
        other: String,
    },
    /// No case counts.
    #[error("nothing to export: no case of these results counts")]
    Nothing,
}

/// Returns the setup of a target, where it is known.
fn setup<'a>(environment: &'a Environment, target: &str) -> Option<&'a ServerSetup> {
    let mut servers = environment.servers.iter();
    servers.find(|server| server.target == target)
}
