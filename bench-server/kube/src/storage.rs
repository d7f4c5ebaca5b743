//! Access to storage, which is any etcd or the store of this process, through the trait
//! [`etcd_api::kubernetes::KubernetesEtcd`].
//!
//! - [`list_reader`]: reads whole lists, by RangeStream or in pages; [`bulk_load`]: builds a tree
//!   of their objects
//! - [`decoder`]: decodes stored keys and values as objects
//! - [`compaction`]: compacts storage, in coordination with other servers
//! - [`error`]: converts failures of storage to a Status

pub(crate) mod bulk_load;
pub(crate) mod compaction;
pub(crate) mod decoder;
pub(crate) mod error;
pub mod list_reader;
