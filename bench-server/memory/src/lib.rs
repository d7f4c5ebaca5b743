//! What responses hold in memory: limited, counted, and shown at `/metrics`.
//!
//! - [`admission`]: room for responses that are gathered as a whole
//! - [`in_flight`]: what was handed to a connection and its client has not taken yet
//! - [`open_lists`]: what lists that are still being sent keep
//! - [`allocator`]: the allocator's settings
//! - [`metrics`]: the registry, and the figures of the process and its allocator

pub mod admission;
pub mod allocator;
pub mod in_flight;
pub mod metrics;
pub mod open_lists;
