//! Paces lists on a server that holds other people's data: each follows a pause, and none follows a
//! list that failed.

use std::time::Duration;

use load::driver::closed::Done;
use load::operation::list::ListError;

use super::{CaseRun, EarlyEnd};

impl CaseRun<'_> {
    /// Waits until the next round of lists may start. Returns at once if loadgen started the
    /// server.
    pub(super) async fn rest(&self) -> Result<(), EarlyEnd> {
        match self.care {
            None => Ok(()),
            Some(care) => self.unless_stopped(care.rest()).await,
        }
    }

    /// Records a round of lists that has ended. Returns whether another round may follow.
    pub(super) fn record_round(&self, round: &[Done]) -> bool {
        let Some(care) = self.care else {
            return true;
        };
        let mut longest = Duration::ZERO;
        let mut bytes = 0;
        let mut is_whole = true;
        for done in round {
            longest = longest.max(done.latency);
            match &done.result {
                Ok(Some((listed, _))) => bytes += listed.wire_bytes,
                Ok(None) => {}
                Err(error) => {
                    is_whole = false;
                    care.failed(error);
                }
            }
        }
        care.listed(longest, bytes);
        is_whole
    }

    /// Records a list that failed, and returns the error that ends the case.
    pub(super) fn record_failure(&self, error: ListError) -> EarlyEnd {
        if let Some(care) = self.care {
            care.failed(&error);
        }
        error.into()
    }
}
