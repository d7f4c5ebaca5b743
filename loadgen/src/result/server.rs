//! What a case cost the server: memory as three numbers, CPU from the process's clock, and the server's own counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Lists of fewer bytes are not divided by: what grows above idle is then buffers and the allocator's steps, whatever the list.
const LEAST_LISTED_BYTES: u64 = 4 << 20;

/// What a case cost the server's process (all its processes, where a target has several). Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerFigures {
    /// Resident after the server settled, before the measured phase.
    pub rss_idle: u64,
    /// What of `rss_idle` are pages of mapped files; null in results from before it was told.
    #[serde(default)]
    pub rss_file_idle: Option<u64>,
    /// `rss_idle` over the bytes of keys and values that were written; null where nothing was.
    #[serde(default)]
    pub idle_per_stored_byte: Option<f64>,
    /// The kernel's high-water mark of the measured phase, which was reset before it.
    pub rss_peak: u64,
    /// Highest anonymous resident size that the sampler saw.
    pub rss_anon_peak: u64,
    /// Highest file-mapped resident size that the sampler saw.
    pub rss_file_peak: u64,
    /// Allocated bytes after the server settled, from its allocator or its own metrics; null when it does not say.
    pub allocated_idle: Option<u64>,
    /// Highest allocated bytes that the sampler saw.
    pub allocated_peak: Option<u64>,
    /// The larger of resident growth and allocated growth: see [`ServerFigures::settle`].
    pub peak_above_idle: u64,
    /// `peak_above_idle` over the bytes of the lists in flight (one list per client); null where those are less than 4 MiB, which
    /// buffers alone outweigh.
    pub peak_per_listed_byte: Option<f64>,
    /// The same figure for each repeat apart, where the peak was reset before each: what `compare` tests.
    pub peaks_above_idle: Vec<u64>,
    /// The process of the etcd tier by itself; null where none is ours.
    #[serde(default)]
    pub etcd: Option<TierFigures>,
    /// The process of the Kubernetes tier by itself; null where none is ours.
    #[serde(default)]
    pub kube: Option<TierFigures>,
    /// User and system CPU time of the measured phase.
    pub cpu_s: f64,
    /// `cpu_s` over the lists of that phase.
    pub cpu_s_per_request: Option<f64>,
    /// The server's own counters over the measured phase: revision reads, progress requests, fallbacks, who served.
    pub counters: BTreeMap<String, u64>,
    /// True where memory and CPU are what the server tells on its metrics page, since its process is not ours to look at: memory
    /// as it was between lists, without the peaks within one; CPU of whatever it did, for anybody.
    #[serde(default)]
    pub is_own_word: bool,
}

/// One process of a target that has several. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TierFigures {
    /// Resident after it settled, before the measured phase.
    pub rss_idle: u64,
    /// The kernel's high-water mark of the measured phase.
    pub rss_peak: u64,
    /// The growth from one to the other.
    pub peak_above_idle: u64,
    /// Resident after the measured phase, settled again: with whatever it keeps to be faster next time. Null where it cannot
    /// be told to settle.
    pub rss_after: Option<u64>,
    /// `rss_after` over the bytes of keys and values that were written.
    pub after_per_stored_byte: Option<f64>,
    /// User and system CPU time of the measured phase.
    pub cpu_s: f64,
    /// `cpu_s` over the lists of that phase.
    pub cpu_s_per_request: Option<f64>,
    /// How long its watch cache took to be filled when it started; null where it has none.
    pub cache_fill_s: Option<f64>,
}

impl ServerFigures {
    /// What of the growth above idle may be pages of mapped files (etcd's database), which lists read in and the kernel can
    /// drop: no more than the files' own growth. `None` where they are hardly part of it: a
    /// program's own pages are.
    #[must_use]
    pub fn mapped_above_idle(&self) -> Option<u64> {
        let grown = self.rss_file_peak.saturating_sub(self.rss_file_idle?);
        let mapped = grown.min(self.peak_above_idle);
        (mapped > (self.peak_above_idle / 20).max(4 << 20)).then_some(mapped)
    }

    /// Computes what follows from the other fields: growth above idle, per byte in flight, CPU per request.
    ///
    /// "Above idle" is the larger of resident and allocated growth, so that memory which was freed after seeding, stayed
    /// resident and is used again does not hide.
    pub fn settle(&mut self, bytes_in_flight: u64, requests: u64) {
        let resident = self.rss_peak.saturating_sub(self.rss_idle);
        let allocated = match (self.allocated_peak, self.allocated_idle) {
            (Some(peak), Some(idle)) => peak.saturating_sub(idle),
            _ => 0,
        };
        self.peak_above_idle = resident.max(allocated);
        self.peak_per_listed_byte = (bytes_in_flight >= LEAST_LISTED_BYTES)
            .then(|| self.peak_above_idle as f64 / bytes_in_flight as f64);
        self.cpu_s_per_request = (requests > 0).then(|| self.cpu_s / requests as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_memory_does_not_hide_behind_a_flat_resident_size() {
        let mut server = ServerFigures {
            rss_idle: 10_000_000,
            rss_peak: 11_000_000,
            allocated_idle: Some(2_000_000),
            allocated_peak: Some(9_000_000),
            cpu_s: 3.0,
            ..ServerFigures::default()
        };
        server.settle(14_000_000, 6);
        assert_eq!(server.peak_above_idle, 7_000_000);
        assert_eq!(server.peak_per_listed_byte, Some(0.5));
        assert_eq!(server.cpu_s_per_request, Some(0.5));
        server.settle(1_000, 6);
        assert_eq!(server.peak_per_listed_byte, None, "of some objects");
    }

    #[test]
    fn mapped_files_are_told_where_they_are_part_of_the_growth() {
        let of = |file_idle, file_peak| ServerFigures {
            rss_file_idle: file_idle,
            rss_file_peak: file_peak,
            peak_above_idle: 100 << 20,
            ..ServerFigures::default()
        };
        assert_eq!(
            of(Some(50 << 20), 90 << 20).mapped_above_idle(),
            Some(40 << 20)
        );
        assert_eq!(of(Some(0), 900 << 20).mapped_above_idle(), Some(100 << 20));
        assert_eq!(of(Some(90 << 20), 92 << 20).mapped_above_idle(), None);
        assert_eq!(of(None, 900 << 20).mapped_above_idle(), None);
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let mut server = ServerFigures::default();
        server.settle(0, 0);
        assert_eq!(
            (server.peak_per_listed_byte, server.cpu_s_per_request),
            (None, None)
        );
    }
}
