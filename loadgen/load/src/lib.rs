//! The load generator's engine: sends operations to a target on a schedule or from waiting clients,
//! measures them, and verifies the responses.
//!
//! - [`operation`]: the operations: lists by every strategy, small requests, watches, patches
//! - [`arrivals`]: when requests are due; [`driver`]: runs operations, in rounds or on a schedule
//! - [`clients`]: threads and programs in which operations run; [`child`]: child processes that end
//!   with this one
//! - [`endpoint`]: where requests go; [`shaper`]: emulates a slower network in between
//! - [`record`]: records latencies and errors, with live counters
//! - [`verify`]: compares what was received with what was written
//! - [`shards`]: which worker owns which objects, and whether each write reached its owner

pub mod arrivals;
pub mod child;
pub mod clients;
pub mod driver;
pub mod endpoint;
pub mod operation;
pub mod record;
pub mod saturation;
pub mod shaper;
pub mod shards;
pub mod verify;
