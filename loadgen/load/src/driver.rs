//! Runs operations: in rounds, by clients that wait for responses, or on a schedule.
//!
//! - [`closed`]: lists in rounds, by a fixed number of clients
//! - [`calls`]: small requests, by clients that wait or on a schedule; `connection`: the share of
//!   one connection; [`run`]: the settings of one run and its tally
//! - [`lists`]: lists that run together with other loads, in a closed loop or on a schedule
//! - [`deliveries`]: watchers, and the delay of each event after its write
//! - [`open_clock`]: the clock of a schedule of small requests; `alarm`: its timer; `paused`: a
//!   timer and a server on tokio's paused clock, for tests
//! - [`watch_workers`]: workers that watch; [`writers`]: the writes that they watch

mod alarm;
pub mod calls;
pub mod closed;
mod connection;
pub mod deliveries;
pub mod lists;
pub mod open_clock;
#[cfg(test)]
mod paused;
pub mod run;
pub mod watch_workers;
pub mod writers;
