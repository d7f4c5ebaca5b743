//! The root of `report.json`: the report of a run, with its data sets, cases and thresholds.

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::conformance::Conformance;
use super::environment::Environment;
use super::generators::{Generator, RunShard};
use super::threshold::Threshold;

/// The version of `report.json`. It increases by one when a field changes its meaning or is
/// removed. New fields do not increase it.
pub const SCHEMA_VERSION: u32 = 2;

/// The root of `report.json`. Its published JSON Schema is
/// `loadgen/report/schema/report.schema.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// Name of the scenario, or `prefix` when existing keys of an endpoint were read.
    pub scenario: String,
    /// When the run began: RFC 3339, UTC.
    pub started: String,
    /// Wall-clock length of the whole run, seeding and settling included.
    pub elapsed_s: f64,
    /// True when the run was stopped from outside: the cases hold what was measured up to then.
    pub interrupted: bool,
    /// The environment of the run. In a merged result it is the first generator's, with the command
    /// that merged the results.
    pub environment: Environment,
    /// The generator that this result belongs to, of several. Null where there was only one, and in
    /// a merged result.
    #[serde(default)]
    pub shard: Option<RunShard>,
    /// The generators whose results were merged into this one, in order; empty where none were.
    /// Memory and CPU of the servers, which every generator sampled, are those of the first one,
    /// and so are the series.
    #[serde(default)]
    pub generators: Vec<Generator>,
    /// The data sets that were listed.
    pub data_sets: Vec<DataSet>,
    /// The base and the new target, where `loadgen ab` measured pairs of starts and decided after
    /// each pair whether to measure another.
    #[serde(default)]
    pub ab: Option<AbTargets>,
    /// One entry per data set, target and strategy, in the order in which they ran. Cases that
    /// could not run are included, with the reason.
    pub cases: Vec<Case>,
    /// How the cost of cases grows with the number of objects, where a run has at least three data
    /// sets whose objects have the same size.
    #[serde(default)]
    pub growth: Vec<Growth>,
    /// The scenario's thresholds, each with its verdict.
    #[serde(default)]
    #[serde(rename = "bars")]
    pub thresholds: Vec<Threshold>,
    /// The rules of the contract that each etcd with other people's data honours, as far as they
    /// can be checked by reads alone.
    #[serde(default)]
    pub conformance: Vec<Conformance>,
}

/// How one metric of a case grows with the number of objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Growth {
    /// The target.
    pub target: String,
    /// The case, without data set and target: `etcd/stream`.
    pub case: String,
    /// The metric, by its name in a case.
    pub metric: String,
    /// The slope on logarithmic axes: 1 where the metric grows in proportion to the objects.
    pub exponent: f64,
    /// Number of objects and value of the metric for each data set, in ascending order of objects.
    pub points: Vec<[f64; 2]>,
}

/// The two targets of `loadgen ab`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AbTargets {
    /// The target that the other is compared with.
    pub base: String,
    /// The target that is judged.
    pub new: String,
}

/// A data set that was listed: enough to generate the same bytes again on any machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DataSet {
    /// The name in the scenario, or `prefix:…` for existing keys of an endpoint.
    pub name: String,
    /// Seed of the generator; null when loadgen did not generate the data.
    pub seed: Option<u64>,
    /// Number of objects.
    pub objects: u64,
    /// Keys and values together, without any envelope.
    pub bytes: u64,
    /// Whether the objects have several sizes, by `object_sizes`.
    #[serde(default)]
    pub has_mixed_sizes: bool,
    /// The fingerprint of the whole data set, which every case must have received; null when
    /// loadgen did not generate the data.
    pub fingerprint: Option<String>,
}

impl DataSet {
    /// The largest ratio of mean sizes that count as the same.
    const SAME_SIZE: f64 = 1.1;

    /// Returns whether objects of both data sets are about as large, so that the data sets differ
    /// only in the number of objects.
    pub(crate) fn has_objects_as_large_as(&self, other: &Self) -> bool {
        let mean = |data: &Self| data.bytes as f64 / data.objects.max(1) as f64;
        let ratio = mean(self) / mean(other);
        self.has_mixed_sizes == other.has_mixed_sizes
            && (1.0 / Self::SAME_SIZE..=Self::SAME_SIZE).contains(&ratio)
    }
}
