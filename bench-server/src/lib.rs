//! The server under test: an MVCC store, an etcd v3 gRPC tier, a Kubernetes HTTP tier.
//!
//! A LIST is followed by reading folder names: `store`, over an `index` (history, watch hub) → `wire`
//! (pre-encoded bytes and frames) → `etcd` (one file per gRPC service) and `kube` (list, watch,
//! cache). `listen` accepts connections for both, `memory` counts and limits what responses hold. Each
//! is a crate in a folder beside this one's `src`; here they are put together as a program.

pub mod baseline;
pub mod embedded;
pub mod flags;
mod program;

pub use program::run;
pub use {etcd_tier as etcd, index, kube_tier as kube, listen, memory, store, wire};
