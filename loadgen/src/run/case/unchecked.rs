//! Alternates checked and unchecked lists: the client's cost of checking, measured within a round.
//! Lists that follow each other on a machine change with it by more than checking does.

use std::time::{Duration, Instant};

use load::driver::closed::Job;
use load::record::LatencyHistogram;
use report::result::LEAST_ROUNDS;

use super::{CaseRun, Early, Measured};
use crate::to_result;

impl CaseRun<'_> {
    /// Makes as many rounds of one checked and one unchecked list as were measured, in alternating
    /// order; `list` does one of them and answers what each client took. Below [`LEAST_ROUNDS`],
    /// which say nothing of checking, unchecked lists only. The measured phase is over: none of it
    /// is in the row's own figures.
    pub(super) async fn drained(
        &self,
        measured: &mut Measured,
        list: impl AsyncFn(Job) -> Result<Vec<Duration>, Early>,
    ) -> Result<(), Early> {
        // Nothing is read twice from a server that holds other people's data.
        if self.care.is_some() {
            return Ok(());
        }
        let begun = Instant::now();
        let mut drained = LatencyHistogram::default();
        let mut ratios = Vec::new();
        let says_something = self.repeats() as usize >= LEAST_ROUNDS;
        for number in 0..self.repeats() {
            let drains = if says_something {
                let checks_first = number.is_multiple_of(2);
                let (checks, drains) =
                    by_turns(checks_first, list(Job::List), list(Job::Drain)).await?;
                ratios.push(slowest(&checks) / slowest(&drains));
                drains
            } else {
                list(Job::Drain).await?
            };
            drains.iter().for_each(|&time| drained.record(time));
        }
        let case = &mut measured.case;
        case.null_sink_ms = Some(to_result::quantiles_ms(&drained));
        case.mark_client_limited(&ratios);
        measured.keep("null_sink", self.since(begun), drained);
        Ok(())
    }
}

/// Both, one after the other.
pub(super) async fn by_turns<A, B>(
    one_first: bool,
    one: impl Future<Output = Result<A, Early>>,
    other: impl Future<Output = Result<B, Early>>,
) -> Result<(A, B), Early> {
    if one_first {
        let one = one.await?;
        Ok((one, other.await?))
    } else {
        let other = other.await?;
        Ok((one.await?, other))
    }
}

/// Seconds until the last client of a round was done.
fn slowest(times: &[Duration]) -> f64 {
    times.iter().max().map_or(0.0, Duration::as_secs_f64)
}
