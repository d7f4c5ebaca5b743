//! Results in the formats of other programs. What is not measured, or does not count, is left out:
//! a reader that takes a missing value for 0 would take it for the fastest ever. Each metric has
//! one name and one unit in a format for ever, and no name holds the address of a target.
//!
//! - [`go_benchmark`]: for benchstat; [`csv`]: one value a line, for spreadsheets and notebooks;
//!   both have each start of a server
//! - [`perfdash`], [`github_action_benchmark`], [`bencher`]: one value for each metric of a case,
//!   over all runs that are given: `measurement`
//! - [`openmetrics`]: one value for each run, at its time
//! - `target_names`: what targets are called

pub mod bencher;
pub mod csv;
pub mod github_action_benchmark;
pub mod go_benchmark;
mod measurement;
pub mod openmetrics;
pub mod perfdash;
mod target_names;

use crate::result::{Environment, ServerSetup};

/// Why results cannot be put into a format that has one value for each name.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// One run is given twice.
    #[error("the run of {started} on {host} is there twice: its starts count once")]
    SameRun {
        /// When it began.
        started: String,
        /// Where it ran.
        host: String,
    },
    /// Runs of one scenario that must not be one value.
    #[error("{what} is {first} in one run of {scenario} and {other} in another: export them apart")]
    Mixed {
        /// The scenario.
        scenario: String,
        /// What differs, as `the host`.
        what: String,
        /// Its value in the first of the runs.
        first: String,
        /// Its value in a later one.
        other: String,
    },
    /// Nothing is there.
    #[error("nothing to export: no case of these results counts")]
    Nothing,
}

/// Returns how a target was set up, where that is known.
fn setup<'a>(environment: &'a Environment, target: &str) -> Option<&'a ServerSetup> {
    let mut servers = environment.servers.iter();
    servers.find(|server| server.target == target)
}
