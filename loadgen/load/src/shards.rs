//! Which worker has which objects: the hashes of one field cut into ranges (KEP-5866), equal ones
//! or such that hold equally many.
//!
//! - [`distribution`]: how many objects have which hash
//! - [`inventory`]: what each shard of a data set must hold
//! - [`plan`]: a shard for each worker; together they hold every hash once
//! - [`resharding`]: from N workers to N + 1, and how many objects change hands
//! - [`event_ledger`]: whether each write reached the worker that has its object, once, and no
//!   other

pub mod distribution;
pub mod event_ledger;
pub mod inventory;
pub mod plan;
pub mod resharding;

pub use distribution::Distribution;
pub use inventory::Inventory;
pub use plan::Plan;
