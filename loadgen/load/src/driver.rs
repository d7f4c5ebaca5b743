//! Operations driven: in rounds, by clients that wait, or on a schedule.
//!
//! - [`closed`]: lists in rounds, by a fixed number of clients
//! - [`calls`]: small requests, by clients that wait or on a schedule; `connection`: the
//!   share of one connection; [`run`]: what one run of them came to
//! - [`lists`]: lists that run with other loads, in a closed loop or on a schedule
//! - [`deliveries`]: watchers, and how long after its write each event came
//! - [`open_clock`]: the clock of the schedule of small requests; `alarm`: its timer;
//!   `paused`: a timer and a server on a clock that jumps, for tests
//! - [`watch_workers`]: workers that watch; [`writers`]: what they watch being written

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
