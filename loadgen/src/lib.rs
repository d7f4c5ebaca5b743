//! The load generator: starts targets or connects to existing ones, seeds them, runs the cases of a
//! scenario, saves and prints the result.
//!
//! [`run`] is the driver: [`servers`] → [`seed`] → operations and clients (crate `load`), with
//! memory and CPU measured meanwhile (crate `measure`) → [`to_result`] → files, thresholds, charts
//! and comparisons (crate `report`).
//!
//! - [`probe`]: checks which rules of its contract an endpoint honours
//! - [`safety`]: the precautions before an existing endpoint is written to
//! - [`capture`]: makes a scenario from an existing etcd
//! - [`cli`]: the command line; [`command`]: runs its commands; [`exit`]: exit codes
//! - [`environment`]: the machine and the program, as a result describes them
//! - [`isolation`]: a run's own network and CPUs
//! - [`timeouts`]: how long a response may take
//! - [`progress`]: progress for people; [`live`]: metrics for programs during a run

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
