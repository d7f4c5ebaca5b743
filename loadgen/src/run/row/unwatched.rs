//! Writes that nobody watches: the baseline of rows that watch while objects are written.

use std::time::Instant;

use etcd_api::error::Error as EtcdError;

use super::meter::Meter;
use super::{Early, Measured, RowRun};
use crate::pace::writers::{Ledger, Writing};
use crate::record::{LatencyHistogram, TaggedHistogram};
use crate::result::{Case, Outcome};

/// How much longer than intended the writing may take: writes that are due are made, however late.
const LATE: f64 = 1.1;

impl RowRun<'_> {
    /// Writes while nobody watches: what the others' figures have that is not their watches'. Its time is until a write is
    /// acknowledged.
    pub(super) async fn unwatched(
        &self,
        writing: &Writing,
        meter: &mut Meter,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let failed = |error: EtcdError| Early::Failed(format!("writing: {error}"));
        let case_id = measured.case.id();
        let begun = meter.begin(&case_id).await;
        begun.map_err(|e| Early::Failed(e.to_string()))?;
        let (start, first) = (self.run_begun.elapsed(), Instant::now());
        meter.reset_peaks();
        let duration = self.spec.duration.unwrap_or(self.scenario.duration);
        let ledger = self.unless_stopped(writing.run(duration, self.stop)).await;
        meter.end_of_round().await;
        let writes = match &ledger {
            Ok(Ok(ledger)) => ledger.writes.len() as u64,
            _ => 0,
        };
        let (figures, client, series) = meter.end(0, writes).await;
        let ledger = ledger?.map_err(failed)?;
        let mut latency = LatencyHistogram::default();
        ledger
            .writes
            .iter()
            .for_each(|done| latency.record(done.took));
        measured.series = series;
        let case = &mut measured.case;
        case.server = figures;
        case.client = Some(client);
        case.requests = writes;
        case.latency_ms = (latency.n() > 0).then(|| latency.quantiles_ms());
        self.note_pace(&ledger, case);
        measured.histograms.push(TaggedHistogram {
            measure: "latency".to_owned(),
            case: case_id,
            start,
            duration: first.elapsed(),
            histogram: latency,
        });
        Ok(())
    }

    /// How well the writers kept their pace; a row whose writers did not is invalid.
    pub(super) fn note_pace(&self, ledger: &Ledger, case: &mut Case) {
        let per_s = ledger.writes.len() as f64 / ledger.elapsed.as_secs_f64();
        case.requests_per_s = Some(per_s);
        if let Some(client) = &mut case.client {
            client.lag_ms = (ledger.lag.n() > 0).then(|| ledger.lag.quantiles_ms());
        }
        let intended = self.spec.duration.unwrap_or(self.scenario.duration);
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
