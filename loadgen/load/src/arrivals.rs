//! When requests are due.

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many clients, each waiting for its answer.
    Closed {
        /// Over all connections.
        clients: u32,
    },
    /// On a schedule of so many a second, whatever comes back.
    Open {
        /// Over all connections.
        per_second: f64,
    },
}
