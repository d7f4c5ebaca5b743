//! The real binary and its data directory: killed at any moment, started twice, given a torn and a
//! rotten log, out of room.
//!
//! That a sync is not missing cannot be seen here, since the page cache survives a kill: the
//! simulated disk of `bench-server/log` and `bench-server/store` shows that.

mod kill;
mod refusals;
mod server;
