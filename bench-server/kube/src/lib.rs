//! The Kubernetes tier: lists over HTTP from a watch cache in front of any etcd.
//!
//! - [`resource`]: what is served, and where it is stored
//! - [`cache`]: one watch cache per resource: fill, watch, snapshots, freshness
//! - [`decode`]: stored keys and values as objects
//! - [`list`]: which of cache and etcd answers a LIST, and with what
//! - [`page`]: cutting a page out of a state; [`iter`]: its objects one after the other;
//!   [`filter`]: selectors
//! - [`get`]: one object
//! - [`mod@write`]: POST, PUT, PATCH, DELETE
//! - [`watch`]: the state, then its changes, as one long answer
//! - [`negotiation`]: encodings and shapes by Accept; [`representation`]: an object in one of them;
//!   [`table`]: printed columns
//! - [`body`]: what is sent; [`list_body`]: lists; [`encode_ahead`]: their frames, by another thread;
//!   [`content_encoding`]: indented ([`pretty_json`]) and compressed
//! - [`service`]: methods and URLs to handlers; [`route`]: what a URL names; [`resource_request`]: a
//!   resource's request and response; [`response`]: any response; [`tracked_body`]: until it is over
//! - [`compaction`]: which revisions storage forgets, and when
//! - [`metrics`]: by upstream's names
//! - [`gates`]: what can be switched off
//! - [`discovery`]: what is served, and its fields; [`health`]: whether it is
//! - [`tier`]: flags, start, stop

pub mod body;
pub mod cache;
pub mod gates;
pub mod get;
pub mod iter;
pub mod list;
pub mod list_body;
pub mod metrics;
pub mod negotiation;
pub mod object;
pub mod page;
pub mod representation;
pub mod resource;
pub mod service;
pub mod tier;
pub mod tracked_body;
pub mod watch;

mod compaction;
mod content_encoding;
mod decode;
mod discovery;
mod encode_ahead;
mod filter;
mod health;
mod pretty_json;
mod resource_request;
mod response;
mod route;
mod table;
mod write;

#[cfg(test)]
mod tests;
