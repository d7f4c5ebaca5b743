//! Selection by shard (KEP-5866): a shard consists of the objects whose uid or namespace has a hash
//! in given ranges.
//!
//! - [`object_set`]: the objects from which a list is selected, all or those of a shard, and their
//!   iterator
//! - [`uid_index`]: the index of objects by the hash of their uid ([`by_uid`]); [`merge`]: an
//!   iterator over several of its buckets in key order
//! - [`filtered_scan`]: finds a shard by testing every hash, 64 at a time ([`hash_filter`])
//! - [`namespaces`]: finds the namespaces of a shard
//! - [`interval_tree`]: finds the ranges that contain a hash, for watchers of shards

pub(crate) mod by_uid;
pub(crate) mod filtered_scan;
mod hash_filter;
pub(crate) mod interval_tree;
pub(crate) mod merge;
pub(crate) mod namespaces;
pub mod object_set;
pub(crate) mod uid_index;
