//! Shards: the objects of a range of hashes.

pub(crate) mod by_uid;
pub(crate) mod filtered_scan;
mod hash_filter;
pub(crate) mod interval_tree;
pub(crate) mod merge;
pub(crate) mod namespaces;
pub mod object_set;
pub(crate) mod uid_index;
