//! Compares a process's memory at the end of a long phase with its memory near the beginning.

use std::time::Duration;

use super::{Sample, Series};

/// The shortest phase that is compared: in shorter ones, pools and caches still fill.
const MIN_PHASE: Duration = Duration::from_secs(60);
/// The number of parts of a phase. The second part is early, the last part is late; during the
/// first, connections are opened and pools fill.
const PARTS: f64 = 5.0;

/// The number of windows in each of the two parts. Their ratios show how much the memory varies.
const WINDOWS: u32 = 10;

/// Private memory of a process in two parts of a phase, in bytes: the median of each window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyAndLate {
    /// Medians in the second fifth.
    pub early: Vec<u64>,
    /// Medians in the last fifth.
    pub late: Vec<u64>,
}

impl Series {
    /// Returns private memory in the second and the last fifth; `None` if the phase is shorter than
    /// a minute, or a window has no sample.
    #[must_use]
    pub fn early_and_late(&self) -> Option<EarlyAndLate> {
        let (first, last) = (self.samples.first()?, self.samples.last()?);
        let span = last.elapsed_s - first.elapsed_s;
        if span < MIN_PHASE.as_secs_f64() {
            return None;
        }
        let place = |sample: &Sample| (sample.elapsed_s - first.elapsed_s) / span * PARTS;
        let window = |from: f64, to: f64| {
            let within = self.samples.iter().filter(|sample| {
                let place = place(sample);
                place >= from && place <= to
            });
            median(within.map(|sample| sample.anon).collect())
        };
        let part = |from: f64| -> Option<Vec<u64>> {
            let edge = |i: u32| from + f64::from(i) / f64::from(WINDOWS);
            (0..WINDOWS).map(|i| window(edge(i), edge(i + 1))).collect()
        };
        Some(EarlyAndLate {
            early: part(1.0)?,
            late: part(PARTS - 1.0)?,
        })
    }
}

/// Returns the median, the lower of the two middle values of an even number; `None` of no values.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a series with a sample each second, whose anonymous memory is `anon` of the second.
    fn series(seconds: u32, anon: fn(u64) -> u64) -> Series {
        let sample = |second: u32| Sample {
            elapsed_s: f64::from(second),
            anon: anon(u64::from(second)),
            ..Sample::default()
        };
        Series {
            process: "etcd".to_owned(),
            samples: (0..=seconds).map(sample).collect(),
        }
    }

    /// Returns the same value for every window.
    fn flat(bytes: u64) -> Vec<u64> {
        vec![bytes; WINDOWS as usize]
    }

    #[test]
    fn a_process_that_grows_has_more_late_than_early() {
        let grown = series(1_000, |second| 1_000 + second).early_and_late();
        let EarlyAndLate { early, late } = grown.expect("a long phase");
        for (windows, first) in [(early, 1_210), (late, 1_810)] {
            assert_eq!(windows.len(), WINDOWS as usize);
            for (i, bytes) in (0..).zip(windows) {
                // A sample on an edge may be in one window or in two.
                assert!(bytes.abs_diff(first + 20 * i) <= 1, "{bytes} in window {i}");
            }
        }
    }

    #[test]
    fn what_fills_in_the_first_fifth_is_no_growth() {
        let filled = series(100, |second| 1_000 + second.min(20)).early_and_late();
        assert_eq!(filled.map(|both| both.late), Some(flat(1_020)));
    }

    #[test]
    fn one_peak_is_no_growth() {
        let peak = series(100, |second| if second == 95 { 9_000 } else { 1_000 });
        let expected = EarlyAndLate {
            early: flat(1_000),
            late: flat(1_000),
        };
        assert_eq!(peak.early_and_late(), Some(expected));
    }

    #[test]
    fn a_short_phase_says_nothing() {
        assert_eq!(series(59, |_| 1).early_and_late(), None);
        assert_eq!(Series::default().early_and_late(), None);
    }
}
