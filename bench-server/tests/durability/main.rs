//! The real binary and its data directory: killed at any moment, started twice, with a torn or a
//! corrupt log, and out of disk space.
//!
//! A missing sync cannot be detected here, since the page cache survives a kill. The tests with a
//! simulated disk in `bench-server/log` and `bench-server/store` detect it.

mod kill;
mod refusals;
mod server;
