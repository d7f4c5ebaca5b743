//! The operations that are performed on a target.
//!
//! - [`list`]: the strategies for listing everything, one file each, behind one trait
//! - [`requests`]: small requests to etcd and the checks of their responses; `transactions`: writes
//!   as Kubernetes makes them; `own_keys`, `own_requests`: keys and leases that a connection
//!   creates and deletes; [`leases`]: leases that must be revoked afterwards; [`keep_alives`]:
//!   keep-alives of leases on one stream; [`kube_requests`]: small requests to a Kubernetes API;
//!   `request_api`: the trait through which one driver runs all of these
//! - [`watch`]: many etcd watchers on few streams; [`watch_worker`]: one worker's watch of a
//!   Kubernetes API; `watch_api`: a watcher of the objects that loads write through a Kubernetes
//!   API
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
