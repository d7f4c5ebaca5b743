//! What is measured: servers that we start, or endpoints that are there, and the ways to list from them.
//!
//! - [`spec`]: `--target` as it is written
//! - [`child`]: a server process that never outlives us
//! - [`guard`]: why it does not
//! - [`start`]: fresh servers for a row: ours, an etcd binary, or connections to what is there
//! - [`silence`]: how long any of them may say nothing
//! - [`kube`]: a client of a Kubernetes API
//! - [`list`]: the ways to list, one file each, behind one trait
//! - [`program`]: a client that is a program of its own
//! - [`call`]: small requests and the checks of their answers
//! - [`watch`]: many watchers on few streams

pub mod call;
pub mod child;
pub mod guard;
pub mod kube;
pub mod list;
pub mod program;
pub mod silence;
pub mod spec;
pub mod start;
pub mod watch;

pub use spec::TargetSpec;
pub use start::{Launcher, OwnProgram, Running};
