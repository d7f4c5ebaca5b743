//! Writes: POST, PUT, PATCH and DELETE, each one compare-and-write of one key in storage.
//!
//! - [`handler`]: methods and URLs in, objects and Statuses out
//! - [`body`]: bodies as they are sent; [`options`] and [`delete_options`]: what is asked for beside the object
//! - [`prepare`]: what the server sets, keeps and refuses in an object; [`generate_name`]: names
//!   that it makes up
//! - [`patch`]: changes of an object
//! - [`codec`]: an object as storage holds it; [`field_validation`]: fields that its kind does not have
//! - [`guaranteed_update`]: read, change, write, and again when somebody else was faster
//! - [`delete`]: one object, or all that a list selects
//! - [`ttl_lease`]: events expire
//!
//! What a full apiserver does beyond this and nothing here does: admission (a namespace need not exist, and
//! a new pod keeps the status that it was sent with), defaults of fields that no client here relies on,
//! immutable fields, `managedFields`, server-side apply. docs/apiserver-differences.md has the list.

pub(crate) mod body;
mod codec;
pub(crate) mod delete;
pub(crate) mod delete_options;
mod field_validation;
mod generate_name;
pub(crate) mod guaranteed_update;
pub(crate) mod handler;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod prepare;
pub(crate) mod ttl_lease;

#[cfg(test)]
mod tests;
