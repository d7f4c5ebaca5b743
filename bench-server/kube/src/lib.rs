//! The Kubernetes tier: lists over HTTP from a watch cache in front of any etcd.
//!
//! - [`server`]: flags, start, stop
//! - [`http`]: a request's URL, media type and options, and its response
//! - [`resource_handler`]: what handles the requests for one resource
//! - [`list`], [`get`], [`watch`], [`mod@write`]: what a handler does
//! - [`cache`]: one watch cache per resource
//! - [`shard`]: the objects of a shard
//! - [`storage`]: what is read from etcd
//! - [`resource`]: what is served, and its objects
//! - [`metrics`]: by upstream's names
//! - [`feature_gates`]: what can be switched off

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
