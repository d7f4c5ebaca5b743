//! The threads and programs that send requests.
//!
//! - `thread`: a thread with a runtime of its own
//! - [`program`]: a client that is an external program; [`go_clients`]: where the programs of
//!   etcd's and Kubernetes' Go clients are
//! - [`baseline`]: the client of the baseline, which receives bytes without parsing them

pub mod baseline;
pub mod go_clients;
pub mod program;
pub(crate) mod thread;
