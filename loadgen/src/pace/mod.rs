//! When lists are sent: [`closed`], a fixed number of clients, each waiting for its answer.

pub mod closed;
