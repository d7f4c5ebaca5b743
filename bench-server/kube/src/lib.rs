//! The Kubernetes tier: lists over HTTP from a watch cache in front of any etcd.
//!
//! - [`resource`]: what is served, and where it is stored
//! - [`cache`]: one watch cache per resource: fill, watch, snapshots, freshness
//! - [`decode`]: stored keys and values as objects
//! - [`list`]: which of cache and etcd answers a LIST, and with what
//! - [`page`]: cutting a page out of a state; [`walk`]: its objects one after the other; [`filter`]: selectors
//! - [`get`]: one object
//! - [`mod@write`]: POST, PUT, PATCH, DELETE
//! - [`watch`]: the state, then its changes, as one long answer
//! - [`media`]: encodings and shapes by Accept; [`form`]: an object in one of them; [`table`]: printed columns
//! - [`body`]: what is sent; [`list_body`]: lists, [`ahead`] by another thread; [`dress`]: indented ([`indent`]) and compressed
//! - [`service`]: methods and URLs to handlers; [`route`]: what a URL names; [`call`]: a resource's request and
//!   answer; [`respond`]: any answer; [`reply`]: until it is over
//! - [`compaction`]: which revisions storage forgets, and when
//! - [`figures`]: metrics by upstream's names
//! - [`gates`]: what can be switched off
//! - [`discovery`]: what is served, and its fields; [`health`]: whether it is
//! - [`tier`]: flags, start, stop

pub mod body;
pub mod cache;
pub mod figures;
pub mod form;
pub mod gates;
pub mod get;
pub mod list;
pub mod list_body;
pub mod media;
pub mod object;
pub mod page;
pub mod reply;
pub mod resource;
pub mod service;
pub mod tier;
pub mod walk;
pub mod watch;

mod ahead;
mod call;
mod compaction;
mod decode;
mod discovery;
mod dress;
mod filter;
mod health;
mod indent;
mod respond;
mod route;
mod table;
mod write;

#[cfg(test)]
mod tests;
