//! When requests are sent.
//!
//! - [`closed`]: lists in rounds, by a fixed number of clients
//! - [`baseline`]: the bytes that lists are held against
//! - [`calls`]: small requests, by clients that wait or on a schedule
//! - [`driver`]: one connection's share of them
//! - [`open`]: the clock of that schedule
//! - [`thread`]: what each of them runs in
//! - [`followers`]: workers that watch; [`writers`]: what they watch being written

pub mod baseline;
pub mod calls;
pub mod closed;
mod driver;
pub mod followers;
mod open;
mod thread;
pub mod writers;
