//! The Kubernetes tier: lists, watches and writes over HTTP, in front of any etcd.
//!
//! In the order in which a request passes them:
//!
//! - [`server`]: flags, starting and stopping
//! - [`http`]: routes requests to their handlers, and encodes the results as responses
//! - [`resource_handler`]: the handler of one resource, to which [`list`], [`get`], [`watch`] and
//!   [`mod@write`] each add their methods
//! - [`cache`]: one watch cache per resource
//! - [`shard`]: the objects of one shard of a resource (KEP-5866)
//! - [`storage`]: reads, decodes and compacts the objects in etcd
//! - [`resource`]: the resources that are served, and the encodings of their objects
//! - [`metrics`]: the tier's metrics, under the names that k8s.io/apiserver gives them
//! - [`feature_gates`]: the mechanisms that can be switched off

pub mod cache;
pub mod feature_gates;
pub mod get;
pub mod http;
pub mod list;
pub mod metrics;
pub mod resource;
pub mod resource_handler;
pub mod server;
pub mod shard;
pub mod storage;
pub mod watch;

mod write;

#[cfg(test)]
mod tests;
