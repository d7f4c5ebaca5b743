//! Judges the times of small reads.

use std::collections::VecDeque;
use std::time::Duration;

/// The timeout of a read: one that takes as long stops the load.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// The window of the median.
const MEDIAN_OVER: Duration = Duration::from_secs(5);
/// The fewest reads whose median is judged.
const MIN_READS: usize = 5;
/// The highest permitted ratio of a median to the baseline.
const FACTOR: u32 = 5;
/// A median up to this is permitted whatever the baseline: a person at a prompt does not notice it.
const NOTICED: Duration = Duration::from_millis(250);

/// The times of the reads within the window.
#[derive(Debug)]
pub(super) struct Pulse {
    baseline: Duration,
    /// When each read was made, and the time that it took.
    recent: VecDeque<(Duration, Duration)>,
}

impl Pulse {
    /// Returns a pulse whose baseline is the median of these times, of which there must be at least
    /// one, measured before the load.
    pub(super) fn new(baseline: &mut [Duration]) -> Self {
        Self {
            baseline: median(baseline),
            recent: VecDeque::new(),
        }
    }

    pub(super) fn baseline(&self) -> Duration {
        self.baseline
    }

    /// Adds the time of one read, and judges the median of the window.
    ///
    /// # Errors
    /// One line, if the median is too long.
    pub(super) fn take(&mut self, at: Duration, time: Duration) -> Result<(), String> {
        self.recent.push_back((at, time));
        while let Some((first, _)) = self.recent.front()
            && *first + MEDIAN_OVER < at
        {
            self.recent.pop_front();
        }
        if self.recent.len() < MIN_READS {
            return Ok(());
        }
        let mut times: Vec<_> = self.recent.iter().map(|(_, time)| *time).collect();
        let median = median(&mut times);
        let most = (self.baseline * FACTOR).max(NOTICED);
        if median <= most {
            return Ok(());
        }
        Err(format!(
            "small reads take {} ms where {} ms are the most, and took {} ms before the load",
            median.as_millis(),
            most.as_millis(),
            self.baseline.as_millis()
        ))
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns the number of reads, one every 200 ms, after which the load is stopped.
    fn stopped_after(baseline: u64, times: impl Iterator<Item = u64>) -> Option<usize> {
        let mut pulse = Pulse::new(&mut [ms(baseline); 5]);
        let mut reads = times.zip(0..);
        reads
            .find_map(|(time, nth)| pulse.take(ms(200 * nth), ms(time)).is_err().then_some(nth))
            .map(|nth| nth as usize + 1)
    }

    #[test]
    fn a_median_over_a_quarter_of_a_second_stops() {
        assert_eq!(stopped_after(1, std::iter::repeat_n(250, 100)), None);
        assert_eq!(stopped_after(1, std::iter::repeat_n(251, 100)), Some(5));
    }

    #[test]
    fn a_server_that_was_slow_before_may_be_five_times_slower() {
        assert_eq!(stopped_after(100, std::iter::repeat_n(500, 100)), None);
        assert_eq!(stopped_after(100, std::iter::repeat_n(501, 100)), Some(5));
    }

    #[test]
    fn a_few_slow_reads_stop_nothing_and_old_ones_are_forgotten() {
        let fast_and_slow = (0..200).map(|nth| if nth % 25 < 10 { 1_000 } else { 1 });
        assert_eq!(stopped_after(1, fast_and_slow.skip(10)), None);
        let ever_slower = (0..100).map(|nth| if nth < 50 { 1 } else { 1_000 });
        assert_eq!(
            stopped_after(1, ever_slower),
            Some(63),
            "half of five seconds are slow"
        );
    }
}
