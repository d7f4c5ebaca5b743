//! The machine that a run is made on: its description, its free memory and disk, and its load
//! during a phase.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use procfs::{CpuInfo, CpuPressure, CpuTime, Current as _, CurrentSI as _, KernelStats, Meminfo};
use sysinfo::System;

/// The file in which Linux reports how many free pages each core may keep.
const FREE_PAGE_LISTS: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
/// The folder in which Linux shows the devices that a virtual machine's host provides, one folder
/// each.
const VIRTIO_DEVICES: &str = "/sys/bus/virtio/devices";
/// The device number of a memory balloon (virtio 1.2, §5.5).
const BALLOON: &str = "0x0005";
/// The index of the balloon's feature bit `VIRTIO_BALLOON_F_PAGE_REPORTING` in the device's
/// `features`, one digit a bit.
const PAGE_REPORTING: usize = 5;

/// The description of a machine. Values that cannot be read are `unknown`, 0 or `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// CPU architecture, as `x86_64`.
    pub architecture: String,
    /// CPU model as the kernel names it.
    pub cpu_model: String,
    /// Logical CPUs that this process may use.
    pub cores: u32,
    /// Physical memory, in bytes.
    pub memory_bytes: u64,
    /// Operating system's name and version.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// `vm.percpu_pagelist_high_fraction`: the fraction of memory that Linux keeps in lists of free
    /// pages, one list per core; 0 if it sizes them by load.
    pub free_page_lists: Option<u32>,
    /// Whether the host of this virtual machine reclaims free pages (virtio's free page reporting).
    pub free_page_reporting: Option<bool>,
}

/// The disk under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The path.
    pub path: String,
    /// File system type, as `ext4` or `tmpfs`.
    pub file_system: String,
    /// The mounted device or source.
    pub device: String,
    /// Free bytes.
    pub free_bytes: u64,
}

/// The load of a machine during an interval, apart from the generator and its servers. A field is
/// `None` if the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MachineLoad {
    /// CPU time of other processes, as a fraction of what all cores could give, from 0 to 1.
    pub others_cpu_part: Option<f64>,
    /// CPU time that the host of this virtual machine withheld from it (steal), as a fraction of
    /// the same.
    pub stolen_cpu_part: Option<f64>,
    /// The fraction of the time during which a runnable task waited for a core.
    pub waiting_part: Option<f64>,
}

/// An error while reading the machine's free memory or disk.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The kernel's memory statistics cannot be read.
    #[error("free memory cannot be read: {0}")]
    Memory(procfs::ProcError),
    /// The file system of a path cannot be queried.
    #[error("free space of {}: {source}", path.display())]
    Disk {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: nix::Error,
    },
}

/// The shortest phase for which a load is reported: a shorter one has too few of the kernel's
/// ticks.
const MIN_PHASE: Duration = Duration::from_millis(500);

/// The machine's clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub struct MachineClocks {
    at: Instant,
    /// CPU time that all processes have used since boot, in ticks of 10 ms on each core. Interrupts
    /// are counted for no process.
    used: Option<Duration>,
    /// CPU time that the host withheld (steal).
    stolen: Option<Duration>,
    /// Time during which a runnable task waited for a core.
    waiting: Option<Duration>,
}

impl MachineClocks {
    /// Reads the clocks. Those that the kernel does not report are `None`.
    #[must_use]
    pub fn now() -> Self {
        let total = KernelStats::current().ok().map(|stats| stats.total);
        let used_ms = |cpu: &CpuTime| cpu.user_ms() + cpu.nice_ms() + cpu.system_ms();
        let pressure = CpuPressure::current().ok();
        Self {
            at: Instant::now(),
            used: total.as_ref().map(used_ms).map(Duration::from_millis),
            stolen: total
                .and_then(|cpu| cpu.steal_ms())
                .map(Duration::from_millis),
            waiting: pressure.map(|pressure| Duration::from_micros(pressure.some.total)),
        }
    }

    /// Returns the load of the machine between `self` and `now`; `measured` is the CPU time of
    /// generator and servers, if known. Returns `None` for less than half a second.
    #[must_use]
    pub fn load_until(&self, now: &Self, measured: Option<Duration>) -> Option<MachineLoad> {
        let elapsed = now.at.saturating_duration_since(self.at);
        let cores = std::thread::available_parallelism().ok()?.get();
        if elapsed < MIN_PHASE {
            return None;
        }
        let grown = |of: fn(&Self) -> Option<Duration>| {
            let (before, after) = of(self).zip(of(now))?;
            Some(after.saturating_sub(before))
        };
        let all = elapsed.as_secs_f64() * cores as f64;
        let others = grown(|clocks| clocks.used).zip(measured);
        Some(MachineLoad {
            others_cpu_part: others
                .map(|(used, measured)| used.saturating_sub(measured).as_secs_f64() / all),
            stolen_cpu_part: grown(|clocks| clocks.stolen).map(|time| time.as_secs_f64() / all),
            waiting_part: grown(|clocks| clocks.waiting)
                .map(|time| time.as_secs_f64() / elapsed.as_secs_f64()),
        })
    }
}

/// Describes this machine.
#[must_use]
pub fn machine() -> Machine {
    const UNKNOWN: &str = "unknown";
    let or_unknown =
        |found: Result<String, sysinfo::Error>| found.unwrap_or_else(|_| UNKNOWN.to_owned());
    Machine {
        host: or_unknown(System::host_name()),
        architecture: System::cpu_arch(),
        cpu_model: CpuInfo::current()
            .ok()
            .and_then(|cpu| cpu.model_name(0).map(str::to_owned))
            .unwrap_or_else(|| UNKNOWN.to_owned()),
        cores: std::thread::available_parallelism()
            .map_or(0, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        os: or_unknown(System::long_os_version()),
        kernel: or_unknown(System::kernel_version()),
        free_page_lists: setting(FREE_PAGE_LISTS).and_then(|part| part.parse().ok()),
        free_page_reporting: free_page_reporting(Path::new(VIRTIO_DEVICES)),
    }
}

/// Returns the trimmed text of a system file, or `None` if it cannot be read.
fn setting(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// Returns whether the host of this virtual machine is told which pages are free and reclaims them.
/// Returns `None` if `devices` cannot be read: another system, or no virtio at all.
fn free_page_reporting(devices: &Path) -> Option<bool> {
    let balloons = std::fs::read_dir(devices).ok()?.filter_map(|device| {
        let device = device.ok()?.path();
        let kind = setting(device.join("device"))?;
        (kind == BALLOON).then(|| setting(device.join("features")))?
    });
    let mut reporting =
        balloons.map(|features| features.as_bytes().get(PAGE_REPORTING) == Some(&b'1'));
    Some(reporting.any(|is_on| is_on))
}

/// Returns the memory that is available without swapping, in bytes: the kernel's `MemAvailable`.
///
/// # Errors
/// If the kernel's memory statistics cannot be read.
pub fn free_memory_bytes() -> Result<u64, MachineError> {
    let memory = Meminfo::current().map_err(MachineError::Memory)?;
    Ok(memory.mem_available.unwrap_or(memory.mem_free))
}

/// Returns the bytes that may still be written to the file system under `path`, which must exist.
///
/// # Errors
/// If the path does not exist or its file system cannot be queried.
pub fn free_disk_bytes(path: &Path) -> Result<u64, MachineError> {
    let of = statvfs(path).map_err(|source| MachineError::Disk {
        path: path.to_owned(),
        source,
    })?;
    Ok(of.blocks_available() * of.fragment_size())
}

/// Returns the disk under `path`: its file system, device and free space.
///
/// # Errors
/// If the path does not exist or its file system cannot be queried.
pub fn disk(path: &Path) -> Result<Disk, MachineError> {
    let free_bytes = free_disk_bytes(path)?;
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounts = procfs::process::Process::myself().and_then(|own| own.mountinfo());
    // The longest mount point above a path is the path's own; `max_by_key` returns the last of two
    // equal ones, and the later mount covers the earlier.
    let mount = mounts
        .into_iter()
        .flatten()
        .filter(|mount| whole.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.as_os_str().len());
    let (file_system, device) = mount.map_or_else(
        || ("unknown".to_owned(), "unknown".to_owned()),
        |mount| {
            (
                mount.fs_type,
                mount.mount_source.unwrap_or_else(|| "none".to_owned()),
            )
        },
    );
    Ok(Disk {
        path: path.display().to_string(),
        file_system,
        device,
        free_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let machine = machine();
        assert!(machine.cores > 0 && machine.memory_bytes > 0);
        assert_ne!(machine.kernel, "unknown");
    }

    #[test]
    fn a_phase_has_the_parts_of_the_machine_that_others_and_the_host_had() {
        let second = Duration::from_secs(1);
        let before = MachineClocks {
            at: Instant::now(),
            used: Some(10 * second),
            stolen: Some(second),
            waiting: None,
        };
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let after = MachineClocks {
            at: before.at + 4 * second,
            used: before.used.map(|used| used + 3 * cores * second),
            stolen: before.stolen.map(|stolen| stolen + cores * second),
            waiting: Some(second),
        };
        let load = |measured| before.load_until(&after, measured).expect("a long phase");
        let others = load(Some(cores * second)).others_cpu_part;
        assert_eq!(others, Some(0.5), "two of four seconds on each core");
        assert_eq!(load(Some(9 * cores * second)).others_cpu_part, Some(0.0));
        assert_eq!(load(None).others_cpu_part, None, "servers elsewhere");
        assert_eq!(load(None).stolen_cpu_part, Some(0.25));
        assert_eq!(load(None).waiting_part, None, "the kernel did not tell");
        assert_eq!(before.load_until(&before, None), None, "too short");
    }

    #[test]
    fn a_balloon_that_reports_free_pages_is_told_from_other_devices() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let device = |name: &str, kind: &str, features: &str| {
            let device = folder.path().join(name);
            std::fs::create_dir(&device).expect("a new folder");
            std::fs::write(device.join("device"), format!("{kind}\n")).expect("a new file");
            std::fs::write(device.join("features"), format!("{features}\n")).expect("a new file");
        };
        assert_eq!(free_page_reporting(&folder.path().join("missing")), None);
        assert_eq!(free_page_reporting(folder.path()), Some(false));
        device("virtio0", "0x0002", "00100100");
        device("virtio1", "0x0005", "01100001");
        assert_eq!(free_page_reporting(folder.path()), Some(false));
        device("virtio2", "0x0005", "01100101");
        assert_eq!(free_page_reporting(folder.path()), Some(true));
    }

    #[test]
    fn a_path_has_a_disk_and_a_missing_one_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk = disk(folder.path()).expect("the folder exists");
        assert_ne!(disk.file_system, "unknown");
        let missing = folder.path().join("missing");
        assert!(
            free_disk_bytes(&missing)
                .expect_err("no such path")
                .to_string()
                .contains("missing")
        );
    }
}
