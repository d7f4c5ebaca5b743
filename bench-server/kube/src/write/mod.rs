//! Writes: POST, PUT, PATCH and DELETE, each one compare-and-write of one key in storage.
//!
//! - [`answer`]: methods and URLs in, objects and Statuses out
//! - [`body`]: bodies as they are sent; [`options`] and [`delete_options`]: what is asked for beside the object
//! - [`draft`]: what the server sets, keeps and refuses in an object; [`name`]: which names are allowed
//! - [`patch`]: changes of an object; [`rules`]: what differs between kinds
//! - [`stored`]: an object as storage holds it; [`unknown`]: fields that its kind does not have
//! - [`change`]: read, change, write, and again when somebody else was faster
//! - [`delete`]: one object, or all that a list selects
//! - [`event_lease`]: events expire
//!
//! What a full apiserver does beyond this and nothing here does: admission (a namespace need not exist, and
//! a new pod keeps the status that it was sent with), defaults of fields that no client here relies on,
//! immutable fields, `managedFields`, server-side apply. docs/apiserver-differences.md has the list.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod change;
pub(crate) mod delete;
pub(crate) mod delete_options;
pub(crate) mod draft;
pub(crate) mod event_lease;
mod name;
pub(crate) mod options;
pub(crate) mod patch;
mod rules;
mod stored;
mod unknown;

#[cfg(test)]
mod tests;
