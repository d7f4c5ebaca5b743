//! What a run found, as it is kept on disk: the structs of `report.json`, the folder around it, and the
//! environment that the numbers were made in. The run driver fills these; `report` and `compare` read only what was saved.

mod bar;
mod case;
mod environment;
mod folder;
mod machine;
mod rounds;
mod server;
mod server_start;
mod shards;
mod warm_up;
mod yardstick;

pub use bar::{Bar, OtherTarget};
pub use case::{
    Beside, Case, ClientFigures, LEAST_ROUNDS, Outcome, Quantiles, ServedFrom, Verified,
};
pub use environment::{ClientSettings, Disk, Environment, ServerSetup};
pub use folder::{FolderError, REPORT_FILE, ResultFolder, SavedResult, folder_name};
pub use machine::MachineLoad;
pub use rounds::Round;
pub use server::{ServerFigures, TierFigures};
pub use server_start::ServerStart;
pub use shards::{Resharding, ShardEvents, ShardFigures, Sharding};
pub use warm_up::{Cold, WarmUp};
pub use workloads::strategy::Tier;
pub use yardstick::{Spread, Transfer, Yardstick, YardstickRound};

use serde::{Deserialize, Serialize};

/// The version of `report.json`. It grows by one when a field changes its meaning or goes away; new fields do not count.
pub const SCHEMA_VERSION: u32 = 2;

/// `report.json`, whole. Its published JSON Schema is `loadgen/schema/report.schema.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// Name of the scenario, or `prefix` when what was there was read.
    pub scenario: String,
    /// When the run began: RFC 3339, UTC.
    pub started: String,
    /// Wall-clock length of the whole run, seeding and settling included.
    pub elapsed_s: f64,
    /// True when the run was stopped from outside: the cases hold what was measured up to then.
    pub interrupted: bool,
    /// Where and with what it ran.
    pub environment: Environment,
    /// What was listed, each by itself.
    pub data_sets: Vec<DataSet>,
    /// One entry per data set, target and strategy, in the order in which they ran. What could not run is here too, with its reason.
    pub cases: Vec<Case>,
    /// The scenario's bars and what the run made of them.
    #[serde(default)]
    pub bars: Vec<Bar>,
}

/// What was listed: enough to make the same bytes again anywhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DataSet {
    /// Its name in the scenario, or `prefix:…` for what was found on an endpoint.
    pub name: String,
    /// Seed of the generator; null when the data was not ours.
    pub seed: Option<u64>,
    /// Number of objects.
    pub objects: u64,
    /// Keys and values together, without any envelope.
    pub bytes: u64,
    /// The fingerprint of the whole set, which every case must have received; null when the data was not ours.
    pub fingerprint: Option<String>,
}

#[cfg(test)]
mod schema;
