//! What is measured: servers that we start, or endpoints that are there, and the ways to list from them.
//!
//! - [`spec`]: `--target` as it is written
//! - [`child`]: a server process that never outlives us
//! - [`start`]: fresh servers for a row: ours, an etcd binary, or connections to what is there
//! - [`list`]: the strategies, one file each, behind one trait

pub mod child;
pub mod list;
pub mod spec;
pub mod start;

pub use spec::TargetSpec;
pub use start::{Launcher, Running};
