//! The arrival models of loads: when requests are due.

use std::time::Duration;

use workloads::Profile;

/// The arrival model of a load.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// A closed loop: a fixed number of clients, each of which waits for its response.
    Closed {
        /// The number of clients over all connections.
        clients: u32,
        /// The time from a client's response to its next request.
        think: Duration,
    },
    /// An open loop: a schedule over all connections, independent of the responses.
    Open(Profile),
}

impl Pace {
    /// Returns a closed loop without think time.
    #[must_use]
    pub fn closed(clients: u32) -> Self {
        Self::Closed {
            clients,
            think: Duration::ZERO,
        }
    }

    /// Returns whether requests become due at times, not only by responses.
    #[must_use]
    pub fn needs_clock(&self) -> bool {
        match self {
            Self::Closed { think, .. } => !think.is_zero(),
            Self::Open(_) => true,
        }
    }
}
