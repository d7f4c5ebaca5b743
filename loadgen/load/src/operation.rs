//! What is done to a target.
//!
//! - [`list`]: the ways to list everything, one file each, behind one trait
//! - [`requests`]: small requests and the checks of their responses; `transactions`: writes as
//!   Kubernetes makes them; `own_keys`, `own_requests`: keys and leases that a connection makes and
//!   takes away; [`leases`]: those that must be revoked afterwards; [`keep_alives`]: keep-alives of
//!   leases on one stream; [`kube_requests`]: small requests to a Kubernetes API; `request_api`:
//!   what their driver needs of either
//! - [`watch`]: many etcd watchers on few streams; [`watch_worker`]: one worker's watch of a
//!   Kubernetes API; `watch_api`: one watcher of what loads write through it
//! - [`patch`]: changes of objects through a Kubernetes API

pub mod keep_alives;
pub mod kube_requests;
pub mod leases;
pub mod list;
pub(crate) mod own_keys;
mod own_requests;
pub mod patch;
pub(crate) mod request_api;
pub mod requests;
mod transactions;
pub mod watch;
pub(crate) mod watch_api;
pub mod watch_worker;
