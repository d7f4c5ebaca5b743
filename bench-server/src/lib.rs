//! The server under test: an MVCC store, an etcd v3 gRPC tier, a Kubernetes HTTP tier.
//!
//! Each folder next to this one is a crate. A LIST passes through them in this order: `store` with
//! its `index` (history, watches) → `wire` (pre-encoded bytes and frames) → `etcd` (one file per
//! gRPC service) and `kube` (list, watch, cache). `listen` accepts connections for both tiers,
//! `memory` limits the memory of responses. This crate combines them into a program.

pub mod baseline;
pub mod embedded;
pub mod flags;
mod program;

pub use program::run;
pub use {etcd_tier as etcd, index, kube_tier as kube, listen, memory, store, wire};
