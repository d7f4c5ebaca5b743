//! Fresh servers for a case, ready to be seeded: ours, an etcd binary, or connections to what is
//! there.
//!
//! - [`baseline`]: a server of as many bytes as a list has
//! - [`mod@bench`]: ours, with both tiers
//! - [`etcd`]: an etcd binary, and its data folder
//! - [`attached`]: existing endpoints
//! - [`launcher`]: what all of them begin with
//! - [`running`]: what came of any of them
//! - [`target_spec`]: `--target` as it is written

mod attached;
pub mod baseline;
mod bench;
mod etcd;
mod launcher;
mod own_program;
pub mod running;
pub mod target_spec;

pub use attached::Contexts;
pub use etcd::folders_left;
pub use launcher::{Launcher, StartError};
pub use own_program::{Build, Given, OwnProgram};
