//! The assignment of objects to workers: the hashes of one field are divided into ranges
//! (KEP-5866), which are equal or contain about equally many objects.
//!
//! - [`distribution`]: the number of objects by hash
//! - [`inventory`]: the expected contents of each shard of a data set
//! - [`plan`]: a shard for each worker; together they contain every hash once
//! - [`resharding`]: from N workers to N + 1, and how many objects move
//! - [`event_ledger`]: checks that each write reached the worker that owns its object, once, and no
//!   other

pub mod distribution;
pub mod event_ledger;
pub mod inventory;
pub mod plan;
pub mod resharding;

pub use distribution::Distribution;
pub use inventory::Inventory;
pub use plan::Plan;
