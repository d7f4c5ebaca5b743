//! The engine of the generator: what is asked of a target, when, by whom, and what came of it.
//!
//! - [`operation`]: what is done: lists by any strategy, small requests, watches, patches
//! - [`arrivals`]: when requests are due; [`driver`]: operations driven, in rounds or on a schedule
//! - [`clients`]: threads and programs that operations run in; [`child`]: a process that never
//!   outlives this one
//! - [`endpoint`]: where requests go; [`shaper`]: a slower network on the way
//! - [`record`]: latencies while they happen
//! - [`verify`]: whether what was received is what was written
//! - [`shards`]: which worker has which objects, and whether each write reached the one that has it

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
