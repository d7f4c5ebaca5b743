//! Endpoints that are not ours: what is taken care of there, and seeding and cleaning up, whatever
//! happens in between.
//!
//! - [`collection`]: what is listed of a Kubernetes API
//! - [`precautions`]: what is taken care of where other people's data is; [`endpoint`]: what is
//!   asked for it
//! - [`etcd`], [`kube`]: seeding and cleaning up

mod collection;
mod endpoint;
mod etcd;
mod kube;
mod precautions;

pub(super) use collection::Collection;
pub(super) use etcd::{Seeded, leases_left};
pub(super) use kube::InNamespaces;
pub(super) use precautions::{Listed, Precautions, survey_lines};
