//! Seeding and cleaning up on endpoints that are not ours, whatever happens in between.

mod etcd;
mod kube;

pub(super) use etcd::Seeded;
pub(super) use kube::InNamespaces;
