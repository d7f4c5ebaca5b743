//! Results in the formats of other programs. What is not measured, or does not count, is left out
//! or empty: a reader that takes a missing value for 0 would take it for the fastest ever.
//!
//! - [`go_benchmark`]: for benchstat; [`csv`]: one value a line, for spreadsheets and notebooks

pub mod csv;
pub mod go_benchmark;

use crate::result::{Environment, ServerSetup};

/// Returns how a target was set up, where that is known.
fn setup<'a>(environment: &'a Environment, target: &str) -> Option<&'a ServerSetup> {
    let mut servers = environment.servers.iter();
    servers.find(|server| server.target == target)
}
