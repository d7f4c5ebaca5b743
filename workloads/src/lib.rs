//! Scenarios, and the objects and operations that they are made of.
//!
//! - [`scenario`]: scenario files, including the built-in ones; [`suite`]: scenarios that are run
//!   one after the other and judged together
//! - [`strategy`]: the ways to list, by name; [`selector`]: label and field selectors of lists
//! - [`data_set`]: objects by number: pods, ConfigMaps, raw values
//! - [`CpuList`]: the CPUs that a scenario runs on; [`GeneratorShard`]: the part of a load that one
//!   of several generators runs
//! - [`arrivals`]: intended starts of an open loop; [`keys`]: the object that operation n uses
//! - [`mix`]: small requests and weighted mixes of them; [`values`]: sizes and entropy of the
//!   values that they create
//! - [`writes`]: writes that change, delete and recreate objects
//! - [`fingerprint`]: the hash of a whole data set, from received objects

pub mod arrivals;
pub mod data_set;
pub mod fingerprint;
pub mod keys;
pub mod mix;
pub mod scenario;
pub mod selector;
pub mod strategy;
pub mod suite;
pub mod values;
pub mod writes;

mod config_maps;
mod cpu_list;
mod did_you_mean;
mod generator_shard;
mod go_client;
mod names;
mod pods;
mod random;
mod sizes;
mod template;

pub use arrivals::{Arrivals, Profile};
pub use cpu_list::CpuList;
pub use data_set::{DataSet, Version};
pub use fingerprint::Fingerprint;
pub use generator_shard::{GeneratorShard, GeneratorShardError};
pub use go_client::GoClient;
pub use keys::Distribution;
pub use mix::{Mix, SmallRequest};
pub use random::coin;
pub use scenario::{
    CaseSpec, DataSetSpec, Kind, MachineThresholds, MachineThresholdsError, Overrides, Scenario,
    ScenarioError, ThresholdSpec,
};
pub use selector::Selector;
pub use sizes::{WeightedSize, WeightsError};
pub use strategy::{Driver, EtcdResponse, PlainList, Strategy, Tier};
pub use suite::{Suite, SuiteError, SuiteRun};
pub use values::Values;
