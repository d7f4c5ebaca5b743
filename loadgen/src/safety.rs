//! Other people's servers: what must hold before anything is read from, or written to, an endpoint
//! that is not ours.
//!
//! - [`seeding`]: whether anything may be written
//! - [`identity`]: what an etcd says of itself and of its cluster
//! - [`kube`]: the same of a Kubernetes API, and its census
//! - [`census`]: how many objects there are and how large they are, without reading them all
//! - [`cost`]: what a case takes of the server at its peak, and in which order cases run
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
