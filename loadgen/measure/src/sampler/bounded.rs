//! A series of samples whose size is limited, however long it runs.

use super::{Sample, Series};

/// The most samples of a series: two minutes at the default interval. A chart has fewer points.
const MAX_SAMPLES: usize = 12_000;

/// A series that grows by a sample at a time. At [`MAX_SAMPLES`], each two neighbours are joined
/// into one sample, with the time and the CPU time of the later and the highest of each size, and
/// later samples are joined likewise. Peaks are kept; only their exact time is lost.
#[derive(Debug)]
pub(super) struct BoundedSeries {
    series: Series,
    /// How many pushed samples are joined into one.
    joined: u32,
    /// The unfinished joined sample, and the number of samples in it.
    next: Option<(Sample, u32)>,
}

impl BoundedSeries {
    /// Returns an empty series of a process.
    pub(super) fn new(process: String) -> Self {
        let samples = Vec::new();
        Self {
            series: Series { process, samples },
            joined: 1,
            next: None,
        }
    }

    /// Appends a sample.
    pub(super) fn push(&mut self, sample: Sample) {
        let (sample, count) = match self.next.take() {
            Some((earlier, count)) => (join(&earlier, &sample), count + 1),
            None => (sample, 1),
        };
        if count < self.joined {
            self.next = Some((sample, count));
            return;
        }
        let samples = &mut self.series.samples;
        samples.push(sample);
        if samples.len() == MAX_SAMPLES {
            for at in 0..MAX_SAMPLES / 2 {
                samples[at] = join(&samples[2 * at], &samples[2 * at + 1]);
            }
            samples.truncate(MAX_SAMPLES / 2);
            self.joined *= 2;
        }
    }

    /// Returns the series, including an unfinished last sample.
    pub(super) fn finish(mut self) -> Series {
        self.series.samples.extend(self.next.map(|(last, _)| last));
        self.series
    }
}

/// Joins two neighbouring samples into one.
fn join(earlier: &Sample, later: &Sample) -> Sample {
    Sample {
        elapsed_s: later.elapsed_s,
        rss: earlier.rss.max(later.rss),
        anon: earlier.anon.max(later.anon),
        file: earlier.file.max(later.file),
        cpu_s: later.cpu_s,
        allocated: earlier.allocated.max(later.allocated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(nth: u32, rss: u64) -> Sample {
        Sample {
            elapsed_s: f64::from(nth) / 100.0,
            rss,
            cpu_s: f64::from(nth) / 1_000.0,
            ..Sample::default()
        }
    }

    #[test]
    fn a_short_series_is_kept_as_it_is() {
        let all: Vec<_> = (0..11_999).map(|nth| sample(nth, nth.into())).collect();
        let mut series = BoundedSeries::new("etcd".to_owned());
        all.iter().for_each(|sample| series.push(*sample));
        let series = series.finish();
        assert_eq!((series.process.as_str(), series.samples), ("etcd", all));
    }

    #[test]
    fn a_day_has_a_limit_and_its_peaks() {
        let a_day = 24 * 3_600 * 100;
        // Two peaks of one sample each, the second at the very end.
        let peaks = [1_234_567, a_day - 1];
        let mut series = BoundedSeries::new("etcd".to_owned());
        for nth in 0..a_day {
            let rss = if peaks.contains(&nth) { 9_000 } else { 10 };
            series.push(sample(nth, rss));
        }
        let Series { samples, .. } = series.finish();
        let range = MAX_SAMPLES / 2..=MAX_SAMPLES;
        assert!(range.contains(&samples.len()), "{}", samples.len());
        assert!(samples.is_sorted_by(|a, b| a.elapsed_s < b.elapsed_s && a.cpu_s < b.cpu_s));
        let high = samples.iter().filter(|sample| sample.rss == 9_000);
        assert_eq!(high.count(), 2);
        let last = samples.last().expect("some samples");
        assert_eq!(*last, sample(a_day - 1, 9_000));
    }
}
