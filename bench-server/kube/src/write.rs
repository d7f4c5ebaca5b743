//! Writes: POST, PUT, PATCH and DELETE. Each write of an object compares and changes one key of
//! storage.
//!
//! - [`handler`]: dispatches a write by method and path, and builds the content of the response
//! - [`body`]: the body of the request; [`options`] and [`delete_options`]: the options of the
//!   request
//! - [`prepare`]: sets, keeps and validates the fields that the server controls; [`generate_name`]:
//!   generates names for `generateName`
//! - [`patch`]: the three kinds of patches
//! - [`codec`]: decodes and encodes stored objects; [`field_validation`]: finds unknown fields
//! - [`guaranteed_update`]: reads, changes and writes an object, and retries after a conflict
//! - [`delete`]: deletes one object, or all that a list selects; [`namespace`]: deletes the objects
//!   in a namespace
//! - [`ttl_lease`]: the lease with which events expire
//!
//! Unlike kube-apiserver, the tier does not implement admission (a namespace need not exist, and a
//! new pod keeps its status), defaults of fields on which no client here relies, immutable fields,
//! `managedFields`, or server-side apply. docs/apiserver-differences.md lists the differences.

pub(crate) mod body;
mod codec;
pub(crate) mod delete;
pub(crate) mod delete_options;
mod field_validation;
mod generate_name;
pub(crate) mod guaranteed_update;
pub(crate) mod handler;
pub(crate) mod namespace;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod prepare;
pub(crate) mod ttl_lease;

#[cfg(test)]
mod tests;
