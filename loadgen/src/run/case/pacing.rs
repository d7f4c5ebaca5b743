//! Lists on a server that holds other people's data: each after a rest, and none after one that the
//! server could not bear.

use std::time::Duration;

use load::driver::closed::Done;
use load::operation::list::ListError;

use super::{CaseRun, Early};

impl CaseRun<'_> {
    /// Waits until the server may be asked for the next round of lists; at once on servers of our
    /// own.
    pub(super) async fn rest(&self) -> Result<(), Early> {
        match self.care {
            None => Ok(()),
            Some(care) => self.unless_stopped(care.rest()).await,
        }
    }

    /// Takes a round of lists that has ended. Returns whether another may follow.
    pub(super) fn bears(&self, round: &[Done]) -> bool {
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

    /// Takes a list that failed on its way to fail the case.
    pub(super) fn not_borne(&self, error: ListError) -> Early {
        if let Some(care) = self.care {
            care.failed(&error);
        }
        error.into()
    }
}
