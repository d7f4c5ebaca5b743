//! Alternates checked and unchecked lists, to measure the client's cost of checking within each
//! round. Checked and unchecked lists in separate phases would differ by more than checking costs,
//! since the machine changes over time.

use std::time::{Duration, Instant};

use load::driver::closed::Job;
use load::record::LatencyHistogram;
use report::result::MIN_ROUNDS;

use super::{CaseRun, EarlyEnd, Measured};
use crate::to_result;

/// The most rounds if this is one of many starts of the case.
const FEW_ROUNDS: u32 = 5;

impl CaseRun<'_> {
    /// Runs rounds of one checked and one unchecked list, in alternating order: as many as were
    /// measured, or at most [`FEW_ROUNDS`] if this is one of many starts. `list` makes one list and
    /// returns each client's latency. Fewer than [`MIN_ROUNDS`] rounds say nothing about the cost
    /// of checking, so those have unchecked lists only. The measured phase is over, so none of this
    /// is in the case's own measurements.
    pub(super) async fn unchecked(
        &self,
        measured: &mut Measured,
        list: impl AsyncFn(Job) -> Result<Vec<Duration>, EarlyEnd>,
    ) -> Result<(), EarlyEnd> {
        // Nothing is read twice from a server that holds other people's data.
        if self.care.is_some() {
            return Ok(());
        }
        let begun = Instant::now();
        let mut unchecked = LatencyHistogram::default();
        let mut ratios = Vec::new();
        let rounds = match self.is_one_of_many {
            true => self.repeats().min(FEW_ROUNDS),
            false => self.repeats(),
        };
        let says_something = rounds as usize >= MIN_ROUNDS;
        for number in 0..rounds {
            let unchecked_lists = if says_something {
                let checks_first = number.is_multiple_of(2);
                let (checks, unchecked_lists) =
                    in_alternating_order(checks_first, list(Job::List), list(Job::ListUnchecked))
                        .await?;
                ratios.push(slowest(&checks) / slowest(&unchecked_lists));
                unchecked_lists
            } else {
                list(Job::ListUnchecked).await?
            };
            unchecked_lists
                .iter()
                .for_each(|&time| unchecked.record(time));
        }
        let case = &mut measured.case;
        case.null_sink_ms = to_result::quantiles_ms(&unchecked);
        case.mark_client_limited(&ratios);
        measured.keep("null_sink", self.since(begun), unchecked);
        Ok(())
    }
}

/// Runs both futures, one after the other.
pub(super) async fn in_alternating_order<A, B>(
    one_first: bool,
    one: impl Future<Output = Result<A, EarlyEnd>>,
    other: impl Future<Output = Result<B, EarlyEnd>>,
) -> Result<(A, B), EarlyEnd> {
    if one_first {
        let one = one.await?;
        Ok((one, other.await?))
    } else {
        let other = other.await?;
        Ok((one.await?, other))
    }
}

/// Returns the seconds until the last client of a round was done.
fn slowest(times: &[Duration]) -> f64 {
    times.iter().max().map_or(0.0, Duration::as_secs_f64)
}
