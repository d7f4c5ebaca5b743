//! Who sends requests.
//!
//! - `thread`: a thread with a runtime of its own
//! - [`program`]: a client that is a program of its own; [`go_clients`]: where etcd's and
//!   Kubernetes' are
//! - [`baseline`]: the client of the baseline, which receives bytes and reads nothing in them

pub mod baseline;
pub mod go_clients;
pub mod program;
pub(crate) mod thread;
