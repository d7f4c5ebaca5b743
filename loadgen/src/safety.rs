//! Precautions for existing servers with other people's data, before they are read from or written
//! to.
//!
//! - [`seeding`]: decides whether anything may be written
//! - [`identity`]: version, members, alarms and sizes of an etcd
//! - [`kube`]: version of a Kubernetes API, and its census
//! - [`census`]: the number and sizes of objects, without reading them all
//! - [`cost`]: the memory that a case takes from the server at its peak, and the order of cases
//! - [`limits`]: what is refused, what needs consent, and the budget of bytes
//! - [`canary`]: a small read during the load, which stops the load when the server is overloaded

pub mod canary;
pub mod census;
pub mod cost;
pub mod identity;
pub mod kube;
pub mod limits;
pub mod seeding;

pub(crate) use seeding::count;
pub use seeding::{Refused, Survey, left_behind, must_be_empty, stored_bytes};
