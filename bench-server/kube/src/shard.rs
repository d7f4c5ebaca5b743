//! Selection by shard (KEP-5866): the objects whose uid or namespace has a hash in some ranges.
//!
//! - [`object_set`]: the objects that a list is cut from, all or those of a shard, and iterating
//!   over them
//! - [`uid_index`]: objects by the hash of their uid ([`by_uid`]); [`merge`]: several of its
//!   buckets read as one
//! - [`filtered_scan`]: a shard found by testing every hash, 64 at a time ([`hash_filter`])
//! - [`namespaces`]: the namespaces of a shard
//! - [`interval_tree`]: the ranges that contain a hash, for watchers of shards

pub(crate) mod by_uid;
pub(crate) mod filtered_scan;
mod hash_filter;
pub(crate) mod interval_tree;
pub(crate) mod merge;
pub(crate) mod namespaces;
pub mod object_set;
pub(crate) mod uid_index;
