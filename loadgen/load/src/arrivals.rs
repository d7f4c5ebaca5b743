//! When requests are due.

use workloads::Profile;

/// When requests are sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// So many clients, each waiting for its answer.
    Closed {
        /// Over all connections.
        clients: u32,
    },
    /// On a schedule over all connections, whatever comes back.
    Open(Profile),
}
