//! `report.json`.

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::conformance::Conformance;
use super::environment::Environment;
use super::generators::{Generator, RunShard};
use super::threshold::Threshold;

/// The version of `report.json`. It grows by one when a field changes its meaning or goes away; new
/// fields do not count.
pub const SCHEMA_VERSION: u32 = 2;

/// `report.json`, whole. Its published JSON Schema is `loadgen/report/schema/report.schema.json`.
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
    /// Where and with what it ran; of a merged result, the first generator's, and the command that
    /// merged them.
    pub environment: Environment,
    /// Which of several generators this is the result of; null where there was one alone, and where
    /// all are in it.
    #[serde(default)]
    pub shard: Option<RunShard>,
    /// The generators whose results were merged into this one, in order; empty where none were.
    /// Memory and CPU of the servers, which all of them saw, are those that the first one took, and
    /// so are the series.
    #[serde(default)]
    pub generators: Vec<Generator>,
    /// What was listed, each by itself.
    pub data_sets: Vec<DataSet>,
    /// Which target is the base and which the new one, where `loadgen ab` measured pairs of starts
    /// and looked after each whether to go on.
    #[serde(default)]
    pub ab: Option<AbTargets>,
    /// One entry per data set, target and strategy, in the order in which they ran. What could not
    /// run is here too, with its reason.
    pub cases: Vec<Case>,
    /// How what cases cost grows with the number of objects, where a run has three data sets or
    /// more of objects of one size.
    #[serde(default)]
    pub growth: Vec<Growth>,
    /// The scenario's thresholds and what the run made of them.
    #[serde(default)]
    #[serde(rename = "bars")]
    pub thresholds: Vec<Threshold>,
    /// What each etcd that holds other people's data honours of the contract, by rules that only
    /// read.
    #[serde(default)]
    pub conformance: Vec<Conformance>,
}

/// How one figure of a case grows with the number of objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Growth {
    /// The target.
    pub target: String,
    /// The case, without data set and target: `etcd/stream`.
    pub case: String,
    /// The figure, by its name in a case.
    pub metric: String,
    /// The slope on logarithmic axes: 1 where the figure grows in proportion to the objects.
    pub exponent: f64,
    /// Objects and figure of each data set, in the order of their numbers.
    pub points: Vec<[f64; 2]>,
}

/// The two targets of `loadgen ab`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AbTargets {
    /// What is compared with.
    pub base: String,
    /// What is judged.
    pub new: String,
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
    /// The fingerprint of the whole set, which every case must have received; null when the data
    /// was not ours.
    pub fingerprint: Option<String>,
}
