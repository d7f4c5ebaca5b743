//! What is replayed: scenarios, and the objects that they load.
//!
//! - [`scenario`]: scenario files, the built-in ones included
//! - [`strategy`]: the ways to list, by name

pub mod scenario;
pub mod strategy;

mod nearest;
