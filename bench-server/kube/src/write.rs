//! Writes: POST, PUT, PATCH and DELETE, each of which compares and writes one key of storage.
//!
//! - [`handler`]: methods and paths in, objects and Statuses out
//! - [`body`]: the request's body; [`options`] and [`delete_options`]: its options
//! - [`prepare`]: what the server sets, keeps and refuses in an object; [`generate_name`]: names
//!   for `generateName`
//! - [`patch`]: the three kinds of patches
//! - [`codec`]: an object as storage holds it; [`field_validation`]: fields that its kind does not
//!   have
//! - [`guaranteed_update`]: reads, changes and writes an object, and again after a conflict
//! - [`delete`]: one object, or all that a list selects; [`namespace`]: what is in a namespace
//! - [`ttl_lease`]: events expire
//!
//! Not done here, unlike in an apiserver: admission (a namespace need not exist, and a new pod
//! keeps its status), defaults of fields that no client here relies on, immutable fields,
//! `managedFields`, server-side apply. docs/apiserver-differences.md lists the differences.

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
