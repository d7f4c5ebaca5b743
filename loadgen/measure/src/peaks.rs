//! The peak sizes of a process over a phase, and the resolution of the kernel's counters.

use procfs::{CpuInfo, Current as _, KernelVersion};

use crate::process::Memory;

/// The fewest pages that a core counts by itself before it adds them to a counter of resident pages
/// (`percpu_counter_batch`: 32, or twice the number of cores).
const LEAST_BATCH: u64 = 32;
/// The Linux version from which `/proc/PID/status` adds the pages that each core counted by itself,
/// so that its sizes are exact.
const EXACT_STATUS: (u8, u8) = (6, 16);
/// The file in which Linux reports how many pages of socket memory a core may count by itself, and
/// the default if there is no such file.
const SOCKET_BATCH: &str = "/proc/sys/net/core/mem_pcpu_rsv";
const USUAL_SOCKET_BATCH: u64 = 256;
/// The file in which Linux reports the memory of sockets.
const SOCKETS: &str = "/proc/net/sockstat";

/// The highest sampled sizes of one process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Highest {
    /// Anonymous memory.
    pub anon: u64,
    /// Pages of mapped files and shared memory.
    pub file: u64,
    /// Allocated bytes, if the process reports them.
    pub allocated: Option<u64>,
}

impl Highest {
    /// Raises the peaks to a sample that is higher.
    pub fn see(&mut self, memory: &Memory, allocated: Option<u64>) {
        self.anon = self.anon.max(memory.anon);
        self.file = self.file.max(memory.file);
        self.allocated = self.allocated.max(allocated);
    }

    /// Returns the peak of private memory in a phase at whose end the kernel's high-water mark is
    /// `mark`.
    ///
    /// The kernel's mark covers the whole resident size: anonymous memory, files and shared memory
    /// together. When the mark was set, at most as many file pages were resident as the highest
    /// sample has, so at least the rest of the mark was private. The highest sample of anonymous
    /// memory is certainly private, and may be the larger number if file pages set the mark. The
    /// larger of the two is the peak; it is too high only if file pages came and went between two
    /// samples.
    #[must_use]
    pub fn private(&self, mark: u64) -> u64 {
        self.anon.max(mark.saturating_sub(self.file))
    }
}

/// Returns the largest possible error in the growth of a process's resident size, in bytes.
///
/// Each core counts resident pages by itself and adds its count to the sum once it reaches a batch.
/// The high-water mark is taken from that sum: on two cores, it was seen to miss up to 220 of the
/// possible 256 KiB. The sizes in `/proc/PID/status` are exact from Linux 6.16 on. Before, they
/// miss as much, and a growth misses the sum of both.
#[must_use]
pub fn rss_resolution() -> u64 {
    let kernel = KernelVersion::current();
    let is_exact = kernel.is_ok_and(|kernel| (kernel.major, kernel.minor) >= EXACT_STATUS);
    rss_resolution_of(cores(), procfs::page_size(), is_exact)
}

fn rss_resolution_of(cores: u64, page: u64, is_exact: bool) -> u64 {
    let mark = LEAST_BATCH.max(2 * cores) * cores * page;
    if is_exact { mark } else { 2 * mark }
}

/// Returns the largest possible error in the memory of sockets, in bytes: each core counts up to a
/// megabyte by itself.
#[must_use]
pub fn socket_resolution() -> u64 {
    let batch = std::fs::read_to_string(SOCKET_BATCH).ok();
    let batch = batch.and_then(|text| text.trim().parse().ok());
    batch.unwrap_or(USUAL_SOCKET_BATCH) * cores() * procfs::page_size()
}

/// Returns the number of cores of the machine, including those that this process may not use.
fn cores() -> u64 {
    CpuInfo::current().map_or(1, |cpus| cpus.num_cores() as u64)
}

/// Returns the kernel memory of this machine's TCP sockets, in bytes, over all processes and
/// network namespaces: data sent and not yet acknowledged, and data received and not yet read.
/// Returns `None` if the kernel does not report it.
#[must_use]
pub fn socket_memory() -> Option<u64> {
    socket_memory_of(&std::fs::read_to_string(SOCKETS).ok()?)
}

fn socket_memory_of(sockstat: &str) -> Option<u64> {
    let tcp = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = tcp.split_whitespace().skip_while(|word| *word != "mem");
    let pages: u64 = words.nth(1)?.parse().ok()?;
    Some(pages * procfs::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn sample(anon: u64, file: u64) -> Memory {
        Memory {
            rss: anon + file,
            anon,
            file,
            peak: 0,
        }
    }

    #[test]
    fn a_peak_between_samples_is_what_the_mark_has_beyond_files() {
        let mut highest = Highest::default();
        highest.see(&sample(10 * MIB, 3 * MIB), Some(5));
        highest.see(&sample(12 * MIB, 4 * MIB), None);
        assert_eq!((highest.anon, highest.file), (12 * MIB, 4 * MIB));
        assert_eq!(highest.allocated, Some(5));
        assert_eq!(
            highest.private(30 * MIB),
            26 * MIB,
            "seen by the kernel alone"
        );
    }

    #[test]
    fn pages_of_files_are_no_private_memory() {
        let mut highest = Highest::default();
        highest.see(&sample(10 * MIB, MIB), None);
        highest.see(&sample(2 * MIB, 100 * MIB), None);
        assert_eq!(highest.private(102 * MIB), 10 * MIB);
        assert_eq!(highest.private(0), 10 * MIB, "a mark that cannot be read");
    }

    #[test]
    fn more_cores_count_more_pages_for_themselves() {
        let of = |cores, is_exact| rss_resolution_of(cores, 4_096, is_exact);
        assert_eq!(of(2, true), 256 << 10);
        assert_eq!(of(2, false), 512 << 10);
        assert_eq!(of(64, true), 32 * MIB);
    }

    #[test]
    fn the_memory_of_tcp_sockets_is_found_among_the_others() {
        let sockstat =
            "sockets: used 23\nTCP: inuse 1 orphan 0 tw 1 alloc 1 mem 266\nUDP: inuse 0 mem 7\n";
        assert_eq!(socket_memory_of(sockstat), Some(266 * procfs::page_size()));
        assert_eq!(socket_memory_of("sockets: used 1\n"), None);
        assert!(socket_memory().is_some() && socket_resolution() > 0);
    }
}
