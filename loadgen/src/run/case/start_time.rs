//! When the measured time of a case begins: at once, or at a time that several generators agreed
//! on.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::meter::Meter;
use super::{CaseRun, EarlyEnd};

/// How long before the start time the meter begins. It requests the servers' metrics, and the
/// servers must be idle again at the start time.
const METER_BEFORE: Duration = Duration::from_millis(200);

impl CaseRun<'_> {
    /// Begins the measured time. Waits for the start time, if there is one.
    pub(super) async fn begin(&self, meter: &mut Meter) -> Result<(), EarlyEnd> {
        let Some(beginning) = &self.beginning else {
            meter.begin().await?;
            meter.begin_round()?;
            return Ok(());
        };
        let at = self.unless_stopped(beginning.ready()).await?;
        let at = at.map_err(EarlyEnd::NotApplicable)?;
        let before = at.checked_sub(METER_BEFORE).unwrap_or(at);
        self.unless_stopped(sleep_until(before.into())).await?;
        meter.begin().await?;
        self.unless_stopped(sleep_until(at.into())).await?;
        meter.begin_round()?;
        beginning.begun(Instant::now().saturating_duration_since(at));
        Ok(())
    }
}
