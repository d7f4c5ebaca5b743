//! The memory of requests and responses: limits, counters and metrics.
//!
//! - [`admission`]: limits responses that are buffered whole; `room`: memory that is taken
//! - [`request_room`]: limits the messages of requests
//! - [`in_flight`]: counts frames passed to connections and not yet sent
//! - [`open_lists`]: counts lists being sent, and the memory that they keep
//! - [`allocator`]: the allocator's settings
//! - [`metrics`]: the registry, and metrics of the process and its allocator

pub mod admission;
pub mod allocator;
pub mod in_flight;
pub mod metrics;
pub mod open_lists;
pub mod request_room;
mod room;
