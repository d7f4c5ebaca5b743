//! Seeds a data set into a target, and removes it again.
//!
//! - [`etcd`]: writes to an etcd: many puts per transaction, below a root of loadgen's own
//! - [`kube`]: writes through a Kubernetes API: one POST per object, in namespaces of loadgen's own

pub mod etcd;
pub mod kube;

pub use etcd::{NotUnseeded, SeededSlices, fill_log, remove_created, revoke, seed, unseed};
