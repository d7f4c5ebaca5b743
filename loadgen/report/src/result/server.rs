//! What a case cost the server: memory as three numbers, CPU from the process's clock, and the
//! server's own counters.
//!
//! Private memory (anonymous pages) is the headline. Pages of mapped files, which the kernel can
//! drop and read again, are a figure of their own. Idle and peak are taken of each process and then
//! added up: of the whole, a process that shrinks would hide one that grows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Lists of fewer bytes are not divided by: what grows above idle is then buffers and the
/// allocator's steps, whatever the list.
const LEAST_LISTED_BYTES: u64 = 4 << 20;

/// What a case cost the server's process (the sum of all its processes, where a target has
/// several). Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerFigures {
    /// Resident after the server settled, before the warm-up: private memory and pages of files.
    pub rss_idle: u64,
    /// The kernel's high-water mark of the measured phase, which was reset before it; of several
    /// processes the sum of theirs, whenever each had it.
    pub rss_peak: u64,
    /// Private (anonymous) memory after the server settled, the lowest that was seen then or in the
    /// measured phase; null where the process is not ours to look at.
    #[serde(default)]
    pub rss_anon_idle: Option<u64>,
    /// Peak of private memory in the measured phase: the highest that was sampled, or what the
    /// kernel's high-water mark has beyond the most pages of files that were sampled, whichever is
    /// larger. Null as above.
    pub rss_anon_peak: Option<u64>,
    /// Pages of mapped files and shared memory after the server settled; null as above.
    #[serde(default)]
    pub rss_file_idle: Option<u64>,
    /// Most of them that were sampled in the measured phase; null as above.
    pub rss_file_peak: Option<u64>,
    /// How far growth of resident sizes may be from the truth, since each core counts some pages
    /// for itself; null as above.
    #[serde(default)]
    pub rss_resolution: Option<u64>,
    /// `rss_anon_idle` over the bytes of keys and values that were written; null where nothing was.
    #[serde(default)]
    pub idle_per_stored_byte: Option<f64>,
    /// Allocated bytes after the server settled, from its allocator or its own metrics; null when
    /// it does not say.
    pub allocated_idle: Option<u64>,
    /// Highest allocated bytes that the sampler saw.
    pub allocated_peak: Option<u64>,
    /// For each process the larger of private growth and allocated growth, added up. Where the
    /// process is not ours to look at, the growth of its whole resident size stands for the private
    /// one.
    pub peak_above_idle: u64,
    /// `peak_above_idle` over the bytes of the lists in flight (one list per client); null where
    /// those are less than 4 MiB, which buffers alone outweigh.
    pub peak_per_listed_byte: Option<f64>,
    /// The same figure for each repeat apart, where the peak was reset before each: what `compare`
    /// tests.
    pub peaks_above_idle: Vec<u64>,
    /// Private memory late in the measured phase over early in it: of its last fifth over that of
    /// its second fifth. Each is cut into ten windows, and this is the median of their ratios, of
    /// the first late one over the first early one and so on; of several processes the sum of each.
    /// 1 where memory is flat. Null of a phase of less than a minute, of one whose load changes by
    /// intent, and where the process is not ours to look at.
    #[serde(default)]
    pub late_over_early: Option<f64>,
    /// Where the ratio lies with 95 % confidence, if windows are independent: two of the ten ratios
    /// ([`Spread::likely`](super::Spread)).
    #[serde(default)]
    pub late_over_early_likely: Option<[f64; 2]>,
    /// Kernel memory of TCP sockets after the server settled: of all processes of this machine,
    /// both ends of each connection here. null on existing endpoints, or the kernel does
    /// not tell.
    #[serde(default)]
    pub socket_idle: Option<u64>,
    /// Most of it that was sampled in the measured phase.
    #[serde(default)]
    pub socket_peak: Option<u64>,
    /// How far it may be from the truth, since each core counts some for itself.
    #[serde(default)]
    pub socket_resolution: Option<u64>,
    /// The process of the etcd tier by itself; null where loadgen started none.
    #[serde(default)]
    pub etcd: Option<TierFigures>,
    /// The process of the Kubernetes tier by itself; null where loadgen started none.
    #[serde(default)]
    pub kube: Option<TierFigures>,
    /// User and system CPU time of the measured phase; null where it could not be read, as
    /// [`super::Case::missing_figures`] says then.
    pub cpu_s: Option<f64>,
    /// `cpu_s` over the lists of that phase.
    pub cpu_s_per_request: Option<f64>,
    /// The server's own counters over the measured phase: revision reads, progress requests,
    /// fallbacks, who served. Without those that could not be read, as
    /// [`super::Case::missing_figures`] says then.
    pub counters: BTreeMap<String, u64>,
    /// True where memory and CPU are what the server tells on its metrics page, since its process
    /// is not ours to look at: memory as it was between lists, pages of files included, without the
    /// peaks within one; CPU of whatever it did, for anybody.
    #[serde(default)]
    pub is_own_word: bool,
    /// Each member of a cluster by itself, where several endpoints were given; the figures above
    /// are their sums. Empty else. A member that ceased to tell its figures is missing in both.
    #[serde(default)]
    pub members: Vec<MemberFigures>,
}

/// One member of a cluster, by its own metrics. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberFigures {
    /// Its URL.
    pub endpoint: String,
    /// Whether it was the leader when the case began; null where it did not tell.
    pub is_leader: Option<bool>,
    /// As [`ServerFigures::rss_idle`].
    pub rss_idle: u64,
    /// As [`ServerFigures::rss_peak`].
    pub rss_peak: u64,
    /// As [`ServerFigures::allocated_idle`].
    pub allocated_idle: Option<u64>,
    /// As [`ServerFigures::allocated_peak`].
    pub allocated_peak: Option<u64>,
    /// As [`ServerFigures::peak_above_idle`].
    pub peak_above_idle: u64,
    /// CPU time of whatever it did in the measured phase, for anybody; null as
    /// [`ServerFigures::cpu_s`].
    pub cpu_s: Option<f64>,
}

/// One process of a target that has several. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TierFigures {
    /// As [`ServerFigures::rss_idle`].
    pub rss_idle: u64,
    /// As [`ServerFigures::rss_peak`].
    pub rss_peak: u64,
    /// As [`ServerFigures::rss_anon_idle`].
    #[serde(default)]
    pub rss_anon_idle: u64,
    /// As [`ServerFigures::rss_anon_peak`].
    #[serde(default)]
    pub rss_anon_peak: u64,
    /// As [`ServerFigures::rss_file_idle`].
    #[serde(default)]
    pub rss_file_idle: u64,
    /// As [`ServerFigures::rss_file_peak`].
    #[serde(default)]
    pub rss_file_peak: u64,
    /// As [`ServerFigures::allocated_idle`].
    #[serde(default)]
    pub allocated_idle: Option<u64>,
    /// As [`ServerFigures::allocated_peak`].
    #[serde(default)]
    pub allocated_peak: Option<u64>,
    /// The larger of private growth and allocated growth.
    pub peak_above_idle: u64,
    /// Resident after the measured phase, settled again: with whatever it keeps to be faster next
    /// time. Null where it cannot be told to settle.
    pub rss_after: Option<u64>,
    /// What of `rss_after` is private memory.
    #[serde(default)]
    pub rss_anon_after: Option<u64>,
    /// `rss_anon_after` over the bytes of keys and values that were written.
    pub after_per_stored_byte: Option<f64>,
    /// As [`ServerFigures::cpu_s`].
    pub cpu_s: Option<f64>,
    /// `cpu_s` over the lists of that phase.
    pub cpu_s_per_request: Option<f64>,
    /// How long its watch cache took to be filled when it started; null where it has none.
    pub cache_fill_s: Option<f64>,
}

impl TierFigures {
    /// Returns by how much a peak is above idle: the larger of private growth and allocated growth,
    /// so that memory which was freed after seeding, stayed resident and is used again does not
    /// hide.
    #[must_use]
    pub fn above_idle(&self, anon: u64, allocated: Option<u64>) -> u64 {
        let private = anon.saturating_sub(self.rss_anon_idle);
        let allocated = allocated.zip(self.allocated_idle);
        let allocated = allocated.map_or(0, |(peak, idle)| peak.saturating_sub(idle));
        private.max(allocated)
    }
}

impl ServerFigures {
    /// Returns by how much pages of mapped files (etcd's database) grew, which lists read in and
    /// the kernel can drop. They are no part of `peak_above_idle`. `None` where they are hardly
    /// worth a word beside it: a program's own pages are.
    #[must_use]
    pub fn mapped_above_idle(&self) -> Option<u64> {
        let grown = self.rss_file_peak?.saturating_sub(self.rss_file_idle?);
        (grown > (self.peak_above_idle / 20).max(4 << 20)).then_some(grown)
    }

    /// Returns by how much the memory of sockets grew.
    #[must_use]
    pub fn sockets_above_idle(&self) -> Option<u64> {
        Some(self.socket_peak?.saturating_sub(self.socket_idle?))
    }

    /// Adds up what each process has; each must have its peaks by now.
    pub fn add_up<'a>(&mut self, tiers: impl IntoIterator<Item = &'a mut TierFigures>) {
        let (mut anon_idle, mut anon_peak, mut file_idle, mut file_peak) = (0, 0, 0, 0);
        let (mut allocated_idle, mut allocated_peak) = (Some(0), Some(0));
        let mut cpu_s = Some(0.0);
        let sum = |sum: Option<u64>, more: Option<u64>| sum.zip(more).map(|(a, b)| a + b);
        for tier in tiers {
            tier.peak_above_idle = tier.above_idle(tier.rss_anon_peak, tier.allocated_peak);
            self.peak_above_idle += tier.peak_above_idle;
            self.rss_idle += tier.rss_idle;
            self.rss_peak += tier.rss_peak;
            anon_idle += tier.rss_anon_idle;
            anon_peak += tier.rss_anon_peak;
            file_idle += tier.rss_file_idle;
            file_peak += tier.rss_file_peak;
            allocated_idle = sum(allocated_idle, tier.allocated_idle);
            allocated_peak = sum(allocated_peak, tier.allocated_peak);
            cpu_s = cpu_s.zip(tier.cpu_s).map(|(sum, more)| sum + more);
        }
        self.rss_anon_idle = Some(anon_idle);
        self.rss_anon_peak = Some(anon_peak);
        self.rss_file_idle = Some(file_idle);
        self.rss_file_peak = Some(file_peak);
        self.allocated_idle = allocated_idle;
        self.allocated_peak = allocated_peak.filter(|_| allocated_idle.is_some());
        self.cpu_s = cpu_s;
    }

    /// Computes what follows from the growth above idle and from CPU: per byte in flight, per
    /// request.
    pub fn settle(&mut self, bytes_in_flight: u64, requests: u64) {
        self.peak_per_listed_byte = (bytes_in_flight >= LEAST_LISTED_BYTES)
            .then(|| self.peak_above_idle as f64 / bytes_in_flight as f64);
        let cpu_s = self.cpu_s.filter(|_| requests > 0);
        self.cpu_s_per_request = cpu_s.map(|cpu_s| cpu_s / requests as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn tier(anon_idle: u64, anon_peak: u64) -> TierFigures {
        TierFigures {
            rss_anon_idle: anon_idle,
            rss_anon_peak: anon_peak,
            cpu_s: Some(1.5),
            ..TierFigures::default()
        }
    }

    #[test]
    fn reused_memory_does_not_hide_behind_a_flat_resident_size() {
        let mut server = ServerFigures::default();
        let mut reusing = TierFigures {
            allocated_idle: Some(2_000_000),
            allocated_peak: Some(9_000_000),
            cpu_s: Some(3.0),
            ..tier(10_000_000, 11_000_000)
        };
        server.add_up([&mut reusing]);
        server.settle(14_000_000, 6);
        assert_eq!(server.peak_above_idle, 7_000_000);
        assert_eq!(server.peak_per_listed_byte, Some(0.5));
        assert_eq!(server.cpu_s_per_request, Some(0.5));
        server.settle(1_000, 6);
        assert_eq!(server.peak_per_listed_byte, None, "of some objects");
    }

    /// Of the sum, 35 KiB: the first gave back what the second took.
    #[test]
    fn a_process_that_shrinks_hides_none_that_grows() {
        let mut server = ServerFigures::default();
        let (mut etcd, mut kube) = (tier(5_000 * KIB, 4_111 * KIB), tier(100 * KIB, 1_024 * KIB));
        server.add_up([&mut etcd, &mut kube]);
        assert_eq!((etcd.peak_above_idle, kube.peak_above_idle), (0, 924 * KIB));
        assert_eq!(server.peak_above_idle, 924 * KIB);
        assert_eq!(server.rss_anon_idle, Some(5_100 * KIB));
        assert_eq!(server.cpu_s, Some(3.0));
    }

    #[test]
    fn what_one_process_does_not_tell_is_not_told_of_all() {
        let mut server = ServerFigures::default();
        let mut telling = TierFigures {
            allocated_idle: Some(1),
            allocated_peak: Some(2),
            ..tier(0, 0)
        };
        let mut gone = TierFigures {
            cpu_s: None,
            ..tier(0, 0)
        };
        server.add_up([&mut telling, &mut gone]);
        server.settle(0, 10);
        assert_eq!((server.allocated_idle, server.allocated_peak), (None, None));
        assert_eq!((server.cpu_s, server.cpu_s_per_request), (None, None));
    }

    #[test]
    fn mapped_files_are_told_beside_private_memory_where_they_grew() {
        let of = |file_idle, file_peak| ServerFigures {
            rss_file_idle: file_idle,
            rss_file_peak: Some(file_peak),
            peak_above_idle: 100 << 20,
            ..ServerFigures::default()
        };
        assert_eq!(
            of(Some(50 << 20), 90 << 20).mapped_above_idle(),
            Some(40 << 20)
        );
        assert_eq!(of(Some(0), 900 << 20).mapped_above_idle(), Some(900 << 20));
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
