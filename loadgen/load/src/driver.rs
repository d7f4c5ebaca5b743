//! Operations driven: in rounds, by clients that wait, or on a schedule.
//!
//! - [`closed`]: lists in rounds, by a fixed number of clients
//! - [`calls`]: small requests, by clients that wait or on a schedule; `lane`: one connection's
//!   share of them; [`run`]: what one run of them came to
//! - [`open`]: the clock of that schedule
//! - [`watch_workers`]: workers that watch; [`writers`]: what they watch being written

pub mod calls;
pub mod closed;
mod lane;
pub mod open;
pub mod run;
pub mod watch_workers;
pub mod writers;
