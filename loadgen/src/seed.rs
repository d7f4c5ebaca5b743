//! Puts a data set where it is listed, and takes it away again.
//!
//! - [`etcd`]: into an etcd: many puts a transaction, below a root of our own
//! - [`kube`]: through a Kubernetes API: one POST an object, in namespaces of our own

pub mod etcd;
pub mod kube;

pub use etcd::{NotUnseeded, Written, fill_log, remove_created, revoke, seed, unseed};
