//! Whether a target can have a case; where it cannot, the case is N/A, with the reason.
//!
//! - [`combination`]: what can be said before anything is started
//! - [`machine`]: whether this machine can hold it
//! - [`target`]: what a started target has for it
//! - [`endpoint`]: the above in their order, and whether the server knows the call

pub(super) mod combination;
mod endpoint;
pub(super) mod machine;
pub(super) mod target;
