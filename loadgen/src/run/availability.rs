//! Whether a target supports a case. If it does not, the case is N/A, with the reason.
//!
//! - [`combination`]: checks of target and case before anything is started
//! - [`machine`]: whether this machine has the memory and disk for a case
//! - [`target`]: what a started target offers for a case
//! - [`endpoint`]: the checks of a running case, including whether the server knows the RPC

pub(super) mod combination;
mod endpoint;
pub(super) mod machine;
pub(super) mod target;
