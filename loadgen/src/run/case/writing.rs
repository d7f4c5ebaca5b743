//! The part of a case in which objects are written: its metering, and the cases without any watch,
//! which are the baseline of cases with watches.

use std::time::{Duration, Instant};

use load::driver::writers::{Ledger, Writing};
use load::record::LatencyHistogram;
use report::result::{Case, Outcome};

use super::meter::Meter;
use super::times::Span;
use super::{CaseRun, EarlyEnd, Measured};
use crate::to_result;

/// How much longer than intended the writing may take, as a factor. Writes that are due are made,
/// however late.
const LATE: f64 = 1.1;

impl CaseRun<'_> {
    /// Writes without any watch. This shows which part of the cost of other cases is not that of
    /// their watches. The latency is the time until a write is acknowledged.
    pub(super) async fn unwatched(
        &self,
        writing: &Writing,
        meter: &mut Meter,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let duration = self.writes_for();
        let work = async |_: &Meter| Ok(writing.run(duration, self.stop).await?);
        let (span, ledger) = self.while_written(meter, measured, work).await?;
        let mut latency = LatencyHistogram::default();
        let writes = ledger.writes.iter();
        writes.for_each(|done| latency.record(done.took));
        measured.keep_latency(span, latency);
        self.note_pace(&ledger, &mut measured.case);
        Ok(())
    }

    /// Runs `work`, which writes, and records its cost to the servers and the generator, per write
    /// or in total.
    pub(super) async fn while_written<T: AsRef<Ledger>>(
        &self,
        meter: &mut Meter,
        measured: &mut Measured,
        work: impl AsyncFnOnce(&Meter) -> Result<T, EarlyEnd>,
    ) -> Result<(Span, T), EarlyEnd> {
        meter.begin().await?;
        meter.begin_round()?;
        let begun = Instant::now();
        let done = self.unless_stopped(work(meter)).await.flatten();
        let span = self.since(begun);
        meter.end_of_round(done.is_ok()).await;
        let ledger = done.as_ref().map(AsRef::as_ref);
        let writes = ledger.map_or(0, |ledger| ledger.writes.len() as u64);
        meter.end(0, writes, measured).await;
        measured.case.requests = writes;
        Ok((span, done?))
    }

    /// Returns for how long objects are written.
    pub(super) fn writes_for(&self) -> Duration {
        self.spec.duration.unwrap_or(self.scenario.duration)
    }

    /// Records the rate of the writes and how late the writers were. A case whose writers were too
    /// late is invalid.
    pub(super) fn note_pace(&self, ledger: &Ledger, case: &mut Case) {
        let per_s = ledger.writes.len() as f64 / ledger.elapsed.as_secs_f64();
        case.requests_per_s = Some(per_s);
        if let Some(client) = &mut case.client {
            client.lag_ms = to_result::quantiles_ms(&ledger.lag);
        }
        let intended = self.writes_for();
        if ledger.elapsed > intended.mul_f64(LATE) {
            let reason = format!(
                "the writers were late: {:.1} s of writes took {:.1} s",
                intended.as_secs_f64(),
                ledger.elapsed.as_secs_f64()
            );
            case.outcome = Outcome::Invalid { reason };
        } else {
            case.valid = true;
        }
    }
}
