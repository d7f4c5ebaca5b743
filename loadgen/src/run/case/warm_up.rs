//! The warm-up of a case: whole lists until their latency and the servers' private memory are
//! stable, up to a limit.
//!
//! A server that has just been seeded or restarted touches many things for the first time: pages of
//! its heap and of its database, socket buffers, connections. The latency of such a list is
//! reported separately ([`Cold`]) and is not part of a median.

use std::time::Duration;

use report::result::{Cold, WarmUp};
use tokio::time::Instant;

use super::meter::Meter;
use super::{CaseRun, EarlyEnd, Measured, ObjectSource};

/// The number of lists that must agree. Two may agree by chance, and each additional one costs
/// every case a list.
const AGREEING: usize = 3;
/// How far the latency of each of them may be from their median. Undisturbed lists of one server
/// differ by 2 to 5 %, a list that touches memory for the first time by 50 % and more.
const TIME_TOLERANCE: f64 = 0.10;
/// Latencies that differ by less agree in any case: for short lists a timer's tick is more than a
/// tenth.
const SAME_TIME: Duration = Duration::from_millis(1);
/// How much the highest peak so far may grow while they run, as a fraction.
const PEAK_TOLERANCE: f64 = 0.02;
/// A peak that grows by less counts as stable: it may be an allocator's slab, or the inaccuracy of
/// the kernel's counters.
const SAME_PEAK: u64 = 1 << 20;
/// The case is measured as it is after this many lists.
const MAX_LISTS: usize = 20;
/// No list is begun after this time either, unless the scenario asks for more lists: etcd's largest
/// unary lists take several seconds each.
const MAX_TIME: Duration = Duration::from_secs(30);

/// The measurements of the lists so far.
#[derive(Debug, Default)]
struct Lists {
    /// The latency of each list.
    times: Vec<Duration>,
    /// The servers' private memory at the peak of each list; empty if it cannot be measured.
    peaks: Vec<u64>,
}

impl Lists {
    fn take(&mut self, time: Duration, peak: Option<u64>) {
        self.times.push(time);
        self.peaks.extend(peak);
    }

    /// Returns whether the last three lists had the same latency and none of them raised the peak.
    fn stand_still(&self) -> bool {
        let Some(times) = self.times.last_chunk::<AGREEING>() else {
            return false;
        };
        let mut sorted = *times;
        sorted.sort_unstable();
        let median = sorted[AGREEING / 2];
        let may_differ = median.mul_f64(TIME_TOLERANCE).max(SAME_TIME);
        if times.iter().any(|time| time.abs_diff(median) > may_differ) {
            return false;
        }
        // The first of the three may have raised it.
        let highest = |peaks: &[u64]| peaks.iter().copied().max().unwrap_or(0);
        let before = highest(&self.peaks[..self.peaks.len().saturating_sub(AGREEING - 1)]);
        let may_grow = ((before as f64 * PEAK_TOLERANCE) as u64).max(SAME_PEAK);
        highest(&self.peaks) <= before + may_grow
    }

    /// Returns whether another list is needed, if the scenario asks for at least `least` lists.
    fn wants_more(&self, least: usize, elapsed: Duration) -> bool {
        let n = self.times.len();
        n < least || !self.stand_still() && n < MAX_LISTS && elapsed < MAX_TIME
    }
}

impl CaseRun<'_> {
    /// Lists before the measured phase. `list` makes one list (or one of each client) and returns
    /// its latency.
    ///
    /// On servers that loadgen starts: at least the scenario's `warmup` lists, and more until they
    /// are stable. Exactly `warmup` lists if they start or are read at a given pace, and none if
    /// the case is to be measured cold (`warmup = 0`). On an existing endpoint, at most one list.
    pub(super) async fn warm_up(
        &self,
        meter: &mut Meter,
        measured: &mut Measured,
        mut list: impl AsyncFnMut() -> Result<Duration, EarlyEnd>,
    ) -> Result<(), EarlyEnd> {
        let wanted = self.scenario.warmup as usize;
        let is_ours = matches!(self.source, ObjectSource::Fresh(_));
        let is_paced = self.spec.every.is_some() || self.spec.read_per_s.is_some();
        let until_still = is_ours && !is_paced && wanted > 0;
        let least = if is_ours { wanted } else { wanted.min(1) };
        if least == 0 {
            return Ok(());
        }
        meter.begin_warm_up().await?;
        let begun = Instant::now();
        let mut lists = Lists::default();
        loop {
            meter.reset_peaks()?;
            let time = list().await?;
            let peak = meter.peak_of_warm_up();
            if lists.times.is_empty() {
                measured.case.cold = Some(Cold {
                    ms: time.as_secs_f64() * 1e3,
                    peak_above_idle: peak.map(|peak| peak.above_idle),
                });
            }
            lists.take(time, peak.map(|peak| peak.private));
            let is_enough = match until_still {
                true => !lists.wants_more(least, begun.elapsed()),
                false => lists.times.len() >= least,
            };
            if is_enough {
                break;
            }
        }
        meter.end_warm_up();
        measured.case.warm_up = Some(WarmUp {
            lists: u32::try_from(lists.times.len()).unwrap_or(u32::MAX),
            s: begun.elapsed().as_secs_f64(),
            stands_still: until_still.then(|| lists.stand_still()),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns after how many of these lists (milliseconds, MiB) the warm-up ends, and whether they
    /// were stable by then. The last list of the script repeats.
    fn warm_up(least: usize, script: &[(u64, u64)]) -> (usize, bool) {
        let mut lists = Lists::default();
        let mut elapsed = Duration::ZERO;
        let last = script.last().expect("a list");
        for (ms, mib) in script.iter().chain(std::iter::repeat(last)) {
            let time = Duration::from_millis(*ms);
            elapsed += time;
            lists.take(time, Some(mib * MIB));
            if !lists.wants_more(least, elapsed) {
                break;
            }
        }
        (lists.times.len(), lists.stand_still())
    }

    #[test]
    fn a_server_that_stands_still_is_warm_after_three_lists() {
        assert_eq!(warm_up(1, &[(460, 100)]), (3, true));
        assert_eq!(
            warm_up(12, &[(460, 100)]),
            (12, true),
            "the scenario wants more"
        );
    }

    /// Like etcd's unary lists of 1.4 GiB after seeding.
    #[test]
    fn lists_that_touch_memory_for_the_first_time_are_none_of_the_three() {
        let etcd = [
            (9_700, 2_800),
            (5_300, 3_900),
            (1_400, 4_000),
            (1_300, 4_000),
        ];
        assert_eq!(warm_up(1, &etcd), (5, true));
    }

    #[test]
    fn memory_that_drifts_while_times_agree_is_not_still() {
        let drifting: Vec<(u64, u64)> = (0..30).map(|n| (460, 100 + 3 * n)).collect();
        assert_eq!(warm_up(1, &drifting), (MAX_LISTS, false));
        let grown: Vec<(u64, u64)> = (0..6).map(|n| (460, 100 + 20 * n)).collect();
        assert_eq!(warm_up(1, &grown), (8, true), "still once it has grown");
    }

    #[test]
    fn memory_that_is_given_back_is_no_growth() {
        let collected = [(460, 4_000), (460, 2_500), (460, 3_900)];
        assert_eq!(warm_up(1, &collected), (3, true));
    }

    #[test]
    fn times_that_never_agree_end_at_the_cap() {
        let restless: Vec<(u64, u64)> = (0..30).map(|n| (400 + 300 * (n % 2), 100)).collect();
        assert_eq!(warm_up(1, &restless), (MAX_LISTS, false));
        let slow: Vec<(u64, u64)> = (0..30).map(|n| (8_000 + 4_000 * (n % 2), 100)).collect();
        assert_eq!(
            warm_up(1, &slow),
            (4, false),
            "none is begun after half a minute"
        );
        assert_eq!(
            warm_up(6, &slow),
            (6, false),
            "but for those that are wanted"
        );
    }

    #[test]
    fn short_lists_agree_within_a_tick() {
        assert_eq!(warm_up(1, &[(1, 10), (2, 10), (1, 10)]), (3, true));
    }

    #[test]
    fn where_nobody_can_look_at_memory_times_decide() {
        let mut lists = Lists::default();
        for _ in 0..AGREEING {
            assert!(!lists.stand_still());
            lists.take(Duration::from_millis(5), None);
        }
        assert!(lists.stand_still());
    }
}
