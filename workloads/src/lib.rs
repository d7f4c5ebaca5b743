//! What is replayed: scenarios, and the objects that they load.
//!
//! - [`scenario`]: scenario files, the built-in ones included
//! - [`strategy`]: the ways to list, by name; [`selector`]: the selectors in them
//! - [`data_set`]: objects by number: pods, ConfigMaps, raw values
//! - [`CpuList`]: the CPUs that a scenario runs on
//! - [`arrivals`]: when operations of an open loop begin; [`keys`]: which object operation n is about
//! - [`mix`]: small requests and weighted mixes of them; [`values`]: what they create
//! - [`writes`]: writes that change, delete and create again
//! - [`fingerprint`]: one number for a whole data set, from what was received

pub mod arrivals;
pub mod data_set;
pub mod fingerprint;
pub mod keys;
pub mod mix;
pub mod scenario;
pub mod selector;
pub mod strategy;
pub mod values;
pub mod writes;

mod config_maps;
mod cpu_list;
mod go_client;
mod names;
mod nearest;
mod pods;
mod random;
mod template;

pub use arrivals::{Arrivals, Profile};
pub use cpu_list::CpuList;
pub use data_set::{DataSet, Version};
pub use fingerprint::Fingerprint;
pub use go_client::GoClient;
pub use keys::Distribution;
pub use mix::{Mix, SmallRequest};
pub use random::coin;
pub use scenario::{BarSpec, DataSetSpec, Kind, Overrides, RowSpec, Scenario, ScenarioError};
pub use selector::Selector;
pub use strategy::{Shape, Strategy, Tier};
pub use values::Values;
