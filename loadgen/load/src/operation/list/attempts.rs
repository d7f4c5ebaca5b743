//! Restarts a list at a new revision if compaction interrupts it.
//!
//! A server may fail a list with Compacted (etcd) or 410 Expired (Kubernetes), because it need not
//! keep history for as long as a slow list takes. Kubernetes' 410 carries a token with which the
//! list can continue at another revision. The pages before and after it would be of two states, so
//! that token is never used.

use std::time::{Duration, Instant};

use measure::thread_cpu;

use super::error::{ListError, MAX_RESTARTS};
use super::list_client::ListClient;

/// The interrupted attempts of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restarts {
    /// The number of interrupted attempts.
    pub count: u32,
    /// The time that they took. It is not part of the list's latency.
    pub time: Duration,
}

/// The attempts of one list on one thread: the latest, and the interrupted ones before it. They
/// outlive a list that is dropped, such as one that takes too long.
#[derive(Debug)]
pub struct Tries {
    begun: Instant,
    cpu_before: Duration,
    restarts: Restarts,
}

impl Tries {
    /// Starts the first attempt now.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
            cpu_before: thread_cpu(),
            restarts: Restarts::default(),
        }
    }

    /// Starts another attempt, and counts the one before as interrupted.
    fn begin_again(&mut self) {
        self.restarts.count += 1;
        self.restarts.time += self.begun.elapsed();
        self.begun = Instant::now();
        self.cpu_before = thread_cpu();
    }

    /// Returns the time since the latest attempt began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the CPU time of this thread since the latest attempt began.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        thread_cpu().saturating_sub(self.cpu_before)
    }

    /// Returns the attempts before the latest.
    #[must_use]
    pub fn restarts(&self) -> Restarts {
        self.restarts
    }
}

/// Runs `work` on a client, and again each time that compaction interrupts it. Passes the start of
/// the attempt to `work`.
///
/// # Errors
/// The errors of `work`, or [`ListError::HistoryTooShort`] after [`MAX_RESTARTS`] restarts.
pub async fn until_whole<T>(
    list_client: &mut dyn ListClient,
    tries: &mut Tries,
    mut work: impl AsyncFnMut(&mut dyn ListClient, Instant) -> Result<T, ListError>,
) -> Result<T, ListError> {
    loop {
        let error = match work(list_client, tries.begun).await {
            Err(error) if error.is_compacted() => error,
            outcome => return outcome,
        };
        if tries.restarts.count == MAX_RESTARTS {
            let last = error.to_string();
            return Err(ListError::HistoryTooShort { last });
        }
        list_client.begin_again().await?;
        tries.begin_again();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::super::no_lists::NoLists;
    use super::*;

    const BURNT: Duration = Duration::from_millis(50);

    /// Uses [`BURNT`] of CPU time on this thread.
    fn burn() {
        let before = thread_cpu();
        while thread_cpu().saturating_sub(before) < BURNT {}
    }

    fn compacted<T>() -> Result<T, ListError> {
        Err(ListError::Expired("the revision is gone".to_owned()))
    }

    #[tokio::test]
    async fn a_list_that_was_begun_again_has_the_time_and_cpu_of_its_last_try() {
        let (mut list_client, mut tries) = (NoLists, Tries::begin());
        let mut is_first = true;
        let whole = until_whole(&mut list_client, &mut tries, async |_, _| {
            if std::mem::take(&mut is_first) {
                burn();
                return compacted();
            }
            Ok(7)
        });
        assert_eq!(whole.await.expect("the second is whole"), 7);
        let restarts = tries.restarts();
        assert_eq!(restarts.count, 1);
        assert!(restarts.time >= BURNT, "{restarts:?}");
        let cpu = tries.cpu();
        assert!(cpu < BURNT, "{cpu:?} with what came to nothing");
    }

    #[tokio::test]
    async fn tries_are_known_of_a_list_that_takes_too_long() {
        let (mut list_client, mut tries) = (NoLists, Tries::begin());
        let mut number = 0;
        let whole = until_whole(&mut list_client, &mut tries, async |_, _| {
            number += 1;
            match number {
                1 | 2 => compacted::<()>(),
                _ => std::future::pending().await,
            }
        });
        let late = timeout(Duration::from_millis(10), whole).await;
        late.expect_err("the third has no end");
        assert_eq!(tries.restarts().count, 2);
    }
}
