//! The time for which all slow watchers together may delay the dispatcher.

use std::time::Duration;

use tokio::time::Instant;

/// The time that is added to the budget per second.
const REFILL_PER_SECOND: Duration = Duration::from_millis(50);
/// The maximum of the budget.
const MAX_BUDGET: Duration = Duration::from_millis(100);

/// The time that may be spent on waiting for watchers whose queues are full. It is refilled slowly.
#[derive(Debug)]
pub(crate) struct TimeBudget {
    saved: Duration,
    counted: Instant,
}

impl TimeBudget {
    /// Returns a full budget.
    pub(crate) fn new() -> Self {
        Self {
            saved: MAX_BUDGET,
            counted: Instant::now(),
        }
    }

    /// Returns the time that may be spent now.
    pub(crate) fn available(&mut self) -> Duration {
        let now = Instant::now();
        let refilled = (now - self.counted).mul_f64(REFILL_PER_SECOND.as_secs_f64());
        self.saved = (self.saved + refilled).min(MAX_BUDGET);
        self.counted = now;
        self.saved
    }

    /// Subtracts the time that was spent, during which nothing is added.
    pub(crate) fn spend(&mut self, spent: Duration) {
        self.saved = self.saved.saturating_sub(spent);
        self.counted = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_comes_back_slowly() {
        let mut budget = TimeBudget::new();
        assert_eq!(budget.available(), MAX_BUDGET);
        budget.spend(Duration::from_millis(90));
        assert_eq!(budget.available(), Duration::from_millis(10));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(budget.available(), Duration::from_millis(60));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(budget.available(), MAX_BUDGET);
    }
}
