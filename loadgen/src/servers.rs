//! Starts fresh servers for a case, ready to be seeded: our own, or an etcd binary; or connects to
//! existing endpoints.
//!
//! - [`baseline`]: a server of the same number of bytes as a list
//! - [`mod@bench`]: our own servers, both tiers
//! - [`etcd`]: an etcd binary and its data folder
//! - [`attached`]: connections to existing endpoints
//! - [`launcher`]: starts or connects to a target
//! - [`ports`]: free ports for servers that must know theirs before they start
//! - [`running`]: running servers, or a connected endpoint
//! - [`target_spec`]: parses `--target`

mod attached;
pub mod baseline;
mod bench;
mod etcd;
mod launcher;
mod own_program;
mod ports;
pub mod running;
pub mod target_spec;

pub use attached::Contexts;
pub use etcd::folders_left;
pub use launcher::{Launcher, StartError};
pub(crate) use own_program::is_given;
pub use own_program::{Build, Given, OwnProgram};
