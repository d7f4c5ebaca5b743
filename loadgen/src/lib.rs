//! The generator: starts or reaches targets, seeds them, runs the cases of a scenario, saves and
//! shows the result.
//!
//! [`run`] drives it: [`servers`] → [`seed`] → operations and clients (crate `load`), memory and
//! CPU meanwhile (crate `measure`) → [`to_result`] → files, thresholds, charts and comparisons
//! (crate `report`). [`probe`] asks what an endpoint can; [`safety`] is what must hold before an
//! endpoint that is not ours is written to. Around them: [`cli`] (what may be typed), [`command`]
//! (what it does), [`environment`] (what a result says of machine and program),
//! [`isolation`] (a run's own network and CPUs), [`timeouts`] (how long an endpoint may be silent),
//! [`exit`] (how the program ends), [`progress`] (what is seen meanwhile), [`live`] (what programs
//! see meanwhile).

pub mod capture;
pub mod cli;
pub mod command;
pub mod environment;
pub mod exit;
pub mod isolation;
pub mod live;
pub mod probe;
pub mod progress;
pub mod run;
pub mod safety;
pub mod seed;
pub mod servers;
pub mod timeouts;
pub mod to_result;

#[cfg(test)]
#[path = "../tests/support/http1_server.rs"]
mod http1_server;
