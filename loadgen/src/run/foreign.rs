//! Endpoints that loadgen did not start: precautions, and seeding that is always followed by a
//! cleanup.
//!
//! - [`collection`]: which collection of a Kubernetes API is listed
//! - [`precautions`]: the precautions for other people's data; [`endpoint`]: the requests that they
//!   need
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
