//! The machine that a run is made on: what it is, and how much memory and disk it has left.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statvfs::statvfs;
use procfs::{CpuInfo, Current as _, CurrentSI as _, KernelStats, Meminfo};
use sysinfo::System;

use crate::result::{Disk, Environment};

/// Where Linux says how many free pages each core may keep.
const FREE_PAGE_LISTS: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
/// Where Linux shows the devices that a virtual machine's host gives it, a folder each.
const VIRTIO_DEVICES: &str = "/sys/bus/virtio/devices";
/// A memory balloon among them (virtio 1.2, §5.5).
const BALLOON: &str = "0x0005";
/// Its feature `VIRTIO_BALLOON_F_PAGE_REPORTING`, a digit of the device's `features`.
const PAGE_REPORTING: usize = 5;

/// Why the machine did not tell.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The kernel's memory figures cannot be read.
    #[error("free memory cannot be read: {0}")]
    Memory(procfs::ProcError),
    /// The file system of a path cannot be asked.
    #[error("free space of {}: {source}", path.display())]
    Disk {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: nix::Error,
    },
}

/// CPU time that all processes of this machine have used since it was started, and what was kept from it by others on its
/// host; `None` where the kernel does not say. Within the kernel's ticks of 10 ms on each core; interrupts are nobody's.
#[must_use]
pub fn cpu_used() -> Option<Duration> {
    let total = KernelStats::current().ok()?.total;
    let ms = total.user_ms() + total.nice_ms() + total.system_ms() + total.steal_ms().unwrap_or(0);
    Some(Duration::from_millis(ms))
}

/// Everything about machine and program that can be known before a run; servers, client and disk are the driver's to fill in,
/// network and CPUs [`crate::isolation::Isolation`]'s.
/// `command` is the command line as the result shall show it.
#[must_use]
pub fn environment(command: Vec<String>) -> Environment {
    const UNKNOWN: &str = "unknown";
    let or_unknown =
        |found: Result<String, sysinfo::Error>| found.unwrap_or_else(|_| UNKNOWN.to_owned());
    Environment {
        host: or_unknown(System::host_name()),
        machine: System::cpu_arch(),
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
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("LOADGEN_COMMIT")
            .filter(|commit| !commit.is_empty())
            .map(str::to_owned),
        profile: if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        }
        .to_owned(),
        command,
        ..Environment::default()
    }
}

/// What a setting of the system is, where it says.
fn setting(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// Whether the host of this virtual machine is told which pages are free and takes them back. `None` where `devices` cannot be
/// read: another system, or no virtio at all.
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

/// Memory that can be had without swapping, in bytes: what the kernel calls available.
///
/// # Errors
/// When the kernel does not tell.
pub fn free_memory_bytes() -> Result<u64, MachineError> {
    let memory = Meminfo::current().map_err(MachineError::Memory)?;
    Ok(memory.mem_available.unwrap_or(memory.mem_free))
}

/// Bytes that may still be written to the file system under `path`, which must exist.
///
/// # Errors
/// When it does not exist or cannot be asked.
pub fn free_disk_bytes(path: &Path) -> Result<u64, MachineError> {
    let of = statvfs(path).map_err(|source| MachineError::Disk {
        path: path.to_owned(),
        source,
    })?;
    Ok(of.blocks_available() * of.fragment_size())
}

/// The disk under `path`: its file system, device and free space.
///
/// # Errors
/// When the path does not exist or cannot be asked.
pub fn disk(path: &Path) -> Result<Disk, MachineError> {
    let free_bytes = free_disk_bytes(path)?;
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounts = procfs::process::Process::myself().and_then(|own| own.mountinfo());
    // Of the mount points above a path the longest is its own; of two at the same place the later covers the earlier.
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
        let environment = environment(vec!["loadgen".into()]);
        assert!(environment.cores > 0 && environment.memory_bytes > 0);
        assert_ne!(environment.kernel, "unknown");
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
