//! The arrival models of loads: when requests are due.

use workloads::Profile;

/// The arrival model of a load.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// A closed loop: a fixed number of clients, each of which waits for its response.
    Closed {
        /// The number of clients over all connections.
        clients: u32,
    },
    /// An open loop: a schedule over all connections, independent of the responses.
    Open(Profile),
}
