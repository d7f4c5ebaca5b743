//! The cost of a case on the server: memory as three numbers, CPU time from the process's clock,
//! and the server's own counters.
//!
//! The main number is private memory (anonymous pages). Pages of mapped files, which the kernel can
//! drop and read again, are counted separately. Idle and peak are taken of each process and then
//! added up: in a total, a process that shrinks would hide one that grows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The least total size of lists that memory growth is divided by. For smaller lists, the growth
/// above idle consists of buffers and allocator steps, whatever the list.
const MIN_LISTED_BYTES: u64 = 4 << 20;

/// The cost of a case on the server's process, or the sum over all its processes, where a target
/// has several. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerMetrics {
    /// Resident size after the server settled, before the warm-up: private memory and pages of
    /// files.
    pub rss_idle: u64,
    /// The kernel's high-water mark of the resident size in the measured phase, which was reset
    /// before that phase. With several processes it is the sum of their marks, which may be of
    /// different moments.
    pub rss_peak: u64,
    /// Private (anonymous) memory after the server settled: the lowest that was sampled then or in
    /// the measured phase; null where loadgen cannot inspect the process.
    #[serde(default)]
    pub rss_anon_idle: Option<u64>,
    /// Peak of private memory in the measured phase: the larger of the highest sample and of the
    /// kernel's high-water mark minus the highest sample of pages of files. Null as above.
    pub rss_anon_peak: Option<u64>,
    /// Pages of mapped files and shared memory after the server settled; null as above.
    #[serde(default)]
    pub rss_file_idle: Option<u64>,
    /// The highest sample of these pages in the measured phase; null as above.
    pub rss_file_peak: Option<u64>,
    /// The uncertainty of growth of resident sizes, since each core counts some pages for itself;
    /// null as above.
    #[serde(default)]
    pub rss_resolution: Option<u64>,
    /// `rss_anon_idle` divided by the bytes of keys and values that were written; null where
    /// nothing was.
    #[serde(default)]
    pub idle_per_stored_byte: Option<f64>,
    /// Allocated bytes after the server settled, from its allocator or its own metrics; null when
    /// it does not report them.
    pub allocated_idle: Option<u64>,
    /// The highest sample of allocated bytes.
    pub allocated_peak: Option<u64>,
    /// The sum over the processes of the larger of private growth and allocated growth. Where
    /// loadgen cannot inspect the process, the growth of its whole resident size is used instead of
    /// the private one.
    pub peak_above_idle: u64,
    /// `peak_above_idle` divided by the bytes of the lists in flight (one list per client); null
    /// where those are less than 4 MiB, which buffers alone exceed.
    pub peak_per_listed_byte: Option<f64>,
    /// The same value for each repeat by itself, where the peak was reset before each. `compare`
    /// tests these.
    pub peaks_above_idle: Vec<u64>,
    /// Private memory late in the measured phase divided by that early in it: the last fifth over
    /// the second fifth. Each fifth is cut into ten windows, and this is the median of the ratios
    /// of the n-th late window to the n-th early one. With several processes it is computed from
    /// their sum. 1 where memory is flat. Null for a phase shorter than a minute, for one whose
    /// load changes by intent, and where loadgen cannot inspect the process.
    #[serde(default)]
    pub late_over_early: Option<f64>,
    /// The 95 % confidence interval of the ratio, if windows are independent: two of the ten ratios
    /// ([`Spread::likely`](super::Spread)).
    #[serde(default)]
    pub late_over_early_likely: Option<[f64; 2]>,
    /// Kernel memory of TCP sockets after the server settled. It covers all processes of this
    /// machine, and both ends of each connection between them. Null on existing endpoints and where
    /// the kernel does not report it.
    #[serde(default)]
    pub socket_idle: Option<u64>,
    /// The highest sample of socket memory in the measured phase.
    #[serde(default)]
    pub socket_peak: Option<u64>,
    /// The uncertainty of socket memory, since each core counts some for itself.
    #[serde(default)]
    pub socket_resolution: Option<u64>,
    /// The process of the etcd tier by itself; null where loadgen started none.
    #[serde(default)]
    pub etcd: Option<TierMetrics>,
    /// The process of the Kubernetes tier by itself; null where loadgen started none.
    #[serde(default)]
    pub kube: Option<TierMetrics>,
    /// User and system CPU time of the measured phase; null where it could not be read.
    /// [`super::Case::missing_figures`] then gives the reason.
    pub cpu_s: Option<f64>,
    /// `cpu_s` divided by the lists of that phase.
    pub cpu_s_per_request: Option<f64>,
    /// The increase of the server's own counters over the measured phase: revision reads, progress
    /// requests, fallbacks, which part of the server served. Counters that could not be read are
    /// absent; [`super::Case::missing_figures`] then gives the reason.
    pub counters: BTreeMap<String, u64>,
    /// True where memory and CPU are taken from the server's metrics page, since loadgen cannot
    /// inspect its process. Memory is then sampled between lists, includes pages of files, and
    /// misses the peaks within a list. CPU covers all work of the server, for any client.
    #[serde(default, rename = "is_own_word")]
    pub is_self_reported: bool,
    /// Each member of a cluster by itself, where several endpoints were given; otherwise empty. The
    /// fields above are the members' sums. A member that stopped reporting its metrics is missing
    /// in both.
    #[serde(default)]
    pub members: Vec<MemberMetrics>,
}

/// One member of a cluster, by its own metrics. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberMetrics {
    /// Its URL.
    pub endpoint: String,
    /// Whether the member was the leader when the case began; null where it did not report that.
    pub is_leader: Option<bool>,
    /// As [`ServerMetrics::rss_idle`].
    pub rss_idle: u64,
    /// As [`ServerMetrics::rss_peak`].
    pub rss_peak: u64,
    /// As [`ServerMetrics::allocated_idle`].
    pub allocated_idle: Option<u64>,
    /// As [`ServerMetrics::allocated_peak`].
    pub allocated_peak: Option<u64>,
    /// As [`ServerMetrics::peak_above_idle`].
    pub peak_above_idle: u64,
    /// CPU time of the member in the measured phase, for any client; null as
    /// [`ServerMetrics::cpu_s`].
    pub cpu_s: Option<f64>,
}

/// One process of a target that has several. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TierMetrics {
    /// As [`ServerMetrics::rss_idle`].
    pub rss_idle: u64,
    /// As [`ServerMetrics::rss_peak`].
    pub rss_peak: u64,
    /// As [`ServerMetrics::rss_anon_idle`].
    #[serde(default)]
    pub rss_anon_idle: u64,
    /// As [`ServerMetrics::rss_anon_peak`].
    #[serde(default)]
    pub rss_anon_peak: u64,
    /// As [`ServerMetrics::rss_file_idle`].
    #[serde(default)]
    pub rss_file_idle: u64,
    /// As [`ServerMetrics::rss_file_peak`].
    #[serde(default)]
    pub rss_file_peak: u64,
    /// As [`ServerMetrics::allocated_idle`].
    #[serde(default)]
    pub allocated_idle: Option<u64>,
    /// As [`ServerMetrics::allocated_peak`].
    #[serde(default)]
    pub allocated_peak: Option<u64>,
    /// The larger of private growth and allocated growth.
    pub peak_above_idle: u64,
    /// Resident size after the measured phase, once the server has settled again. It includes
    /// memory that the server keeps in order to be faster next time. Null where the server cannot
    /// be made to settle.
    pub rss_after: Option<u64>,
    /// The private part of `rss_after`.
    #[serde(default)]
    pub rss_anon_after: Option<u64>,
    /// `rss_anon_after` divided by the bytes of keys and values that were written.
    pub after_per_stored_byte: Option<f64>,
    /// As [`ServerMetrics::cpu_s`].
    pub cpu_s: Option<f64>,
    /// `cpu_s` divided by the lists of that phase.
    pub cpu_s_per_request: Option<f64>,
    /// How long it took to fill the server's watch cache at its start; null where it has none.
    pub cache_fill_s: Option<f64>,
}

impl TierMetrics {
    /// Returns by how much a peak is above idle: the larger of private growth and allocated growth.
    /// Allocated growth reveals memory that was freed after seeding, stayed resident and is used
    /// again.
    #[must_use]
    pub fn above_idle(&self, anon: u64, allocated: Option<u64>) -> u64 {
        let private = anon.saturating_sub(self.rss_anon_idle);
        let allocated = allocated.zip(self.allocated_idle);
        let allocated = allocated.map_or(0, |(peak, idle)| peak.saturating_sub(idle));
        private.max(allocated)
    }
}

impl ServerMetrics {
    /// Returns by how much the resident pages of mapped files (etcd's database) grew, which lists
    /// read in and the kernel can drop. `peak_above_idle` does not include them. `None` where the
    /// growth is at most 5 % of `peak_above_idle` or at most 4 MiB, which a program's own pages can
    /// account for.
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

    /// Sums up the processes, whose peaks must have been set.
    pub fn add_up<'a>(&mut self, tiers: impl IntoIterator<Item = &'a mut TierMetrics>) {
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

    /// Computes the ratios that follow from the growth above idle and from CPU time: per byte in
    /// flight and per request.
    pub fn settle(&mut self, bytes_in_flight: u64, requests: u64) {
        self.peak_per_listed_byte = (bytes_in_flight >= MIN_LISTED_BYTES)
            .then(|| self.peak_above_idle as f64 / bytes_in_flight as f64);
        let cpu_s = self.cpu_s.filter(|_| requests > 0);
        self.cpu_s_per_request = cpu_s.map(|cpu_s| cpu_s / requests as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn tier(anon_idle: u64, anon_peak: u64) -> TierMetrics {
        TierMetrics {
            rss_anon_idle: anon_idle,
            rss_anon_peak: anon_peak,
            cpu_s: Some(1.5),
            ..TierMetrics::default()
        }
    }

    #[test]
    fn reused_memory_does_not_hide_behind_a_flat_resident_size() {
        let mut server = ServerMetrics::default();
        let mut reusing = TierMetrics {
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

    /// The sum would have grown by 35 KiB only: the first process freed what the second took.
    #[test]
    fn a_process_that_shrinks_hides_none_that_grows() {
        let mut server = ServerMetrics::default();
        let (mut etcd, mut kube) = (tier(5_000 * KIB, 4_111 * KIB), tier(100 * KIB, 1_024 * KIB));
        server.add_up([&mut etcd, &mut kube]);
        assert_eq!((etcd.peak_above_idle, kube.peak_above_idle), (0, 924 * KIB));
        assert_eq!(server.peak_above_idle, 924 * KIB);
        assert_eq!(server.rss_anon_idle, Some(5_100 * KIB));
        assert_eq!(server.cpu_s, Some(3.0));
    }

    #[test]
    fn what_one_process_does_not_tell_is_not_told_of_all() {
        let mut server = ServerMetrics::default();
        let mut telling = TierMetrics {
            allocated_idle: Some(1),
            allocated_peak: Some(2),
            ..tier(0, 0)
        };
        let mut gone = TierMetrics {
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
        let of = |file_idle, file_peak| ServerMetrics {
            rss_file_idle: file_idle,
            rss_file_peak: Some(file_peak),
            peak_above_idle: 100 << 20,
            ..ServerMetrics::default()
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
        let mut server = ServerMetrics::default();
        server.settle(0, 0);
        assert_eq!(
            (server.peak_per_listed_byte, server.cpu_s_per_request),
            (None, None)
        );
    }
}
