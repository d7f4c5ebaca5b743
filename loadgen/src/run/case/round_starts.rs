//! When the rounds of a case of lists start: each after the one before, or at fixed times.
//!
//! At fixed times, a round that is due while the lists of the one before still run waits for them,
//! and the wait counts as part of the latency of its lists. Lists that take longer than the time
//! between two starts thus show as latency, not as fewer lists a second. The generator's own work
//! between rounds is not the target's: the wait is that of rounds without such work.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::requests::MIN_ACHIEVED_SHARE;

/// The starts of a case's rounds.
pub(super) struct RoundStarts {
    /// The time between two intended starts; `None` if each round starts after the one before.
    every: Option<Duration>,
    begun: Instant,
    /// The number of rounds that have been due.
    rounds: u32,
    /// When the latest round was due.
    due: Instant,
    /// When the lists so far would have ended without work of the generator between them.
    free: Instant,
    /// How long the latest round waited for the one before.
    waited: Duration,
}

impl RoundStarts {
    /// The first round is due now.
    pub(super) fn new(every: Option<Duration>) -> Self {
        let begun = Instant::now();
        Self {
            every,
            begun,
            rounds: 0,
            due: begun,
            free: begun,
            waited: Duration::ZERO,
        }
    }

    /// Waits until the next round is due. Returns at once if it is late.
    pub(super) async fn next(&mut self) {
        if let Some(every) = self.every {
            let due = self.begun + every * self.rounds;
            sleep_until(due).await;
            self.due = due;
            self.waited = self.free.saturating_duration_since(due);
        }
        self.rounds += 1;
    }

    /// Notes that the lists of the round have ended, and how long the round took. Returns how long
    /// it had waited for the one before; `None` if rounds do not start at fixed times.
    pub(super) fn ended(&mut self, took: Duration) -> Option<Duration> {
        self.free = self.free.max(self.due) + took;
        self.every.map(|_| self.waited)
    }

    /// Returns whether so many rounds waited that their rate is less than 99 % of the intended one.
    pub(super) fn is_behind(&self) -> bool {
        let Some(every) = self.every else {
            return false;
        };
        let intended = (every * self.rounds.saturating_sub(1)).as_secs_f64();
        intended < MIN_ACHIEVED_SHARE * (intended + self.waited.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs rounds that take `lists`, with the generator's own `work` after each. Returns how long
    /// each waited, and whether the rounds fell behind.
    async fn run(
        every: Option<Duration>,
        lists: &[Duration],
        work: Duration,
    ) -> (Vec<Option<Duration>>, bool) {
        let mut starts = RoundStarts::new(every);
        let mut waited = Vec::new();
        for list in lists {
            starts.next().await;
            sleep(*list).await;
            waited.push(starts.ended(*list));
            sleep(work).await;
        }
        (waited, starts.is_behind())
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_is_charged_with_the_time_that_the_one_before_took_too_long() {
        let lists = [
            SECOND / 2,
            SECOND * 5 / 2,
            SECOND / 4,
            SECOND / 4,
            SECOND / 4,
        ];
        let (waited, is_behind) = run(Some(SECOND), &lists, Duration::ZERO).await;
        let expected = [0, 0, 1_500, 750, 0].map(|ms| Some(Duration::from_millis(ms)));
        assert_eq!(waited, expected);
        assert!(!is_behind, "the last rounds were in time again");
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_that_are_always_too_long_fall_behind() {
        let (waited, is_behind) = run(Some(SECOND), &[SECOND * 2; 3], Duration::ZERO).await;
        let expected = [0, 1, 2].map(|seconds| Some(SECOND * seconds));
        assert_eq!(waited, expected);
        assert!(is_behind);
    }

    #[tokio::test(start_paused = true)]
    async fn the_generators_own_work_between_rounds_is_not_charged() {
        let (waited, is_behind) = run(Some(SECOND), &[SECOND / 2; 6], SECOND).await;
        assert_eq!(waited, [Some(Duration::ZERO); 6]);
        assert!(!is_behind);
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_without_fixed_times_never_wait() {
        let (waited, is_behind) = run(None, &[SECOND * 2; 3], Duration::ZERO).await;
        assert_eq!(waited, [None; 3]);
        assert!(!is_behind);
    }
}
