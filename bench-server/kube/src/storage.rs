//! Storage: any etcd, or the store of this process, behind the trait
//! [`etcd_api::kubernetes::KubernetesEtcd`].
//!
//! - [`list_reader`]: reads everything, by RangeStream or in pages; [`bulk_load`]: makes a tree of
//!   it
//! - [`decoder`]: stored keys and values as objects
//! - [`compaction`]: compacts storage, in turn with other servers
//! - [`error`]: failures of storage as a Status

pub(crate) mod bulk_load;
pub(crate) mod compaction;
pub(crate) mod decoder;
pub(crate) mod error;
pub mod list_reader;
