//! The result of a run as it is saved: the structs of `report.json`, the folder that contains it,
//! and the environment in which it was measured. The run driver fills the structs. Charts, pages
//! and comparisons read only what was saved.
//!
//! - [`histogram_log`], [`series`], [`load_intervals`]: the raw data in the same folder

mod at_rest;
mod baseline;
mod case;
mod conformance;
mod cpu_profile;
mod environment;
mod folder;
mod generators;
pub mod histogram_log;
mod load;
pub mod load_intervals;
mod machine;
mod outcome;
pub(crate) mod quantiles;
mod report;
mod rounds;
mod saturation;
pub mod series;
mod server;
mod server_start;
mod shards;
mod spread;
mod threshold;
mod warm_up;

pub use at_rest::{AtRest, Held, HeldKind, LoadRound, Verdict};
pub use baseline::{Baseline, BaselineRound, Transfer};
pub(crate) use case::targets_of;
pub use case::{BackgroundLoad, Case, ClientMetrics, MIN_ROUNDS, ServedFrom, Verified};
pub use conformance::{Conformance, RuleFinding};
pub use cpu_profile::{CpuProfile, HotFunction, PROFILED, Profiler};
pub use environment::{ClientSettings, Disk, Environment, ServerSetup};
pub use folder::{FolderError, REPORT_FILE, ResultFolder, SavedResult, folder_name};
pub use generators::{Generator, RunShard};
pub use load::{Load, LoadKind, WatcherSpread, WatcherTimes};
pub use machine::MachineLoad;
pub use outcome::Outcome;
pub use quantiles::Quantiles;
pub use report::{AbTargets, DataSet, Growth, Report, SCHEMA_VERSION};
pub use rounds::Round;
pub use saturation::{RateSearch, RateTrial, Saturation, TrialVerdict};
pub use server::{MemberMetrics, ServerMetrics, TierMetrics};
pub use server_start::ServerStart;
pub use shards::{Resharding, ShardEvents, ShardMetrics, Sharding};
pub use spread::{Spread, median};
pub use threshold::{OtherTarget, Threshold};
pub use warm_up::{Cold, WarmUp};

#[cfg(test)]
mod schema;
