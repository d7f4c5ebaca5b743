//! Memory and CPU of a case's processes over time.

use crate::result::Case;
use crate::result::series::Series;

/// The name of the process in the generator's own series.
const GENERATOR: &str = "loadgen";

/// The samples that were taken while a case was measured. Each point has its time in seconds from
/// the beginning.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Timeline {
    /// Private bytes of the servers.
    pub(crate) private: Vec<(f64, f64)>,
    /// Allocated bytes of the servers; empty where they do not report them.
    pub(crate) allocated: Vec<(f64, f64)>,
    /// Cumulative CPU time of the servers, in seconds.
    pub(crate) cpu_s: Vec<(f64, f64)>,
    /// Resident bytes of the generator.
    pub(crate) generator: Vec<(f64, f64)>,
}

impl Timeline {
    /// Returns the samples of a case; empty where nothing was sampled.
    pub(crate) fn of(all: &[Series], case: &Case) -> Self {
        let id = case.id();
        let mut timeline = Self::default();
        for series in all.iter().filter(|series| series.case == id) {
            if series.process == GENERATOR {
                let samples = series.samples.iter();
                let resident = samples.map(|sample| (sample.elapsed_s, sample.rss as f64));
                timeline.generator = resident.collect();
                continue;
            }
            // A target may consist of several processes, which are sampled one after the other at
            // each tick. Their values are added.
            for (at, sample) in series.samples.iter().enumerate() {
                let s = sample.elapsed_s;
                add(&mut timeline.private, at, (s, sample.anon as f64));
                add(&mut timeline.cpu_s, at, (s, sample.cpu_s));
                if let Some(allocated) = sample.allocated {
                    add(&mut timeline.allocated, at, (s, allocated as f64));
                }
            }
        }
        timeline
    }

    /// Returns the number of cores that the servers used in `steps` intervals of equal length, each
    /// at its middle. Empty where the case was too short.
    pub(crate) fn cores(&self, steps: u32) -> Vec<(f64, f64)> {
        let (Some(&(first, _)), Some(&(last, _))) = (self.cpu_s.first(), self.cpu_s.last()) else {
            return Vec::new();
        };
        let step = (last - first) / f64::from(steps);
        if step <= 0.0 {
            return Vec::new();
        }
        let edges = (0..=steps).map(|n| first + step * f64::from(n));
        let at_edges: Vec<f64> = edges.map(|s| self.cpu_at(s)).collect();
        let used = at_edges.windows(2).map(|pair| (pair[1] - pair[0]) / step);
        let middles = (0..steps).map(|n| first + step * (f64::from(n) + 0.5));
        middles.zip(used).collect()
    }

    /// Returns the CPU time at a moment, interpolated between the adjacent samples.
    fn cpu_at(&self, s: f64) -> f64 {
        let after = self.cpu_s.partition_point(|(at, _)| *at < s);
        match (
            after.checked_sub(1).map(|at| self.cpu_s[at]),
            self.cpu_s.get(after),
        ) {
            (Some((s0, cpu0)), Some(&(s1, cpu1))) if s1 > s0 => {
                cpu0 + (cpu1 - cpu0) * (s - s0) / (s1 - s0)
            }
            (_, Some(&(_, cpu))) | (Some((_, cpu)), None) => cpu,
            (None, None) => 0.0,
        }
    }
}

fn add(line: &mut Vec<(f64, f64)>, at: usize, (s, value): (f64, f64)) {
    match line.get_mut(at) {
        Some(point) => point.1 += value,
        None => line.push((s, value)),
    }
}

#[cfg(test)]
mod tests {
    use workloads::strategy::Tier;

    use super::*;
    use crate::result::Outcome;
    use crate::result::series::Sample;

    #[test]
    fn processes_of_a_target_add_up_and_the_generator_is_none_of_them() {
        let case = Case::new("pods", "bench", Tier::Kube, "cached", Outcome::Measured);
        let series = |process: &str, anon, cores: f64| Series {
            case: case.id(),
            process: process.to_owned(),
            samples: (0..=10)
                .map(|n| Sample {
                    elapsed_s: f64::from(n),
                    rss: anon,
                    anon,
                    cpu_s: f64::from(n) * cores,
                    ..Sample::default()
                })
                .collect(),
        };
        let all = [
            series("etcd", 5, 0.5),
            series("kube", 7, 1.0),
            series("loadgen", 100, 9.0),
        ];
        let timeline = Timeline::of(&all, &case);
        assert_eq!(timeline.private[3], (3.0, 12.0));
        assert_eq!(timeline.generator[0], (0.0, 100.0));
        assert!(timeline.allocated.is_empty(), "none of them tells");
        let cores = timeline.cores(4);
        assert_eq!(cores.len(), 4);
        assert_eq!(cores[0].0, 1.25);
        assert!(
            cores.iter().all(|(_, used)| (used - 1.5).abs() < 1e-9),
            "{cores:?}"
        );
        assert!(Timeline::default().cores(4).is_empty());
    }
}
