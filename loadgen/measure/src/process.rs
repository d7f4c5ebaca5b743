//! One process, read through the kernel: resident sizes, the high-water mark and its reset, and the
//! CPU clock.

use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use procfs::ProcError;
use procfs::process::{FDTarget, Status};

const KIB: u64 = 1024;

/// Resident memory of a process at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident size: `VmRSS`.
    pub rss: u64,
    /// Its anonymous part: `RssAnon`.
    pub anon: u64,
    /// Its file-mapped part: `RssFile` and `RssShmem`.
    pub file: u64,
    /// Highest resident size since the process started or [`Process::reset_peak`]: `VmHWM`.
    pub peak: u64,
}

/// What a process has of the kernel at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handles {
    /// Open file descriptors that are no sockets.
    pub files: u64,
    /// Open sockets.
    pub sockets: u64,
    /// Threads.
    pub threads: u64,
}

/// A process that can be measured, ours or another.
///
/// The handle stays with the process that it was made for: after its end every call fails, even if
/// its number is used again.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    proc: procfs::process::Process,
    cpu_clock: ClockId,
}

/// Why a process could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The kernel's files about it cannot be read: it has ended, or belongs to another user.
    #[error("process {pid}: {source}")]
    Proc {
        /// Its number.
        pid: i32,
        /// What the kernel said.
        source: ProcError,
    },
    /// Its CPU clock cannot be read.
    #[error("CPU clock of process {pid}: {source}")]
    Clock {
        /// Its number.
        pid: i32,
        /// What the kernel said.
        source: nix::Error,
    },
    /// Its status lacks a line, as a process has when it has ended but was not waited for.
    #[error("process {pid} has no {line}: it has ended")]
    Ended {
        /// Its number.
        pid: i32,
        /// The missing line.
        line: &'static str,
    },
}

impl Process {
    /// Returns the process of that number.
    ///
    /// # Errors
    /// When there is none, or it may not be looked at.
    pub fn new(pid: u32) -> Result<Self, ProcessError> {
        let pid = i32::try_from(pid).unwrap_or(i32::MAX);
        let proc = procfs::process::Process::new(pid)
            .map_err(|source| ProcessError::Proc { pid, source })?;
        let cpu_clock = clock_getcpuclockid(Pid::from_raw(pid))
            .map_err(|source| ProcessError::Clock { pid, source })?;
        Ok(Self {
            pid,
            proc,
            cpu_clock,
        })
    }

    /// Returns this process: the generator.
    ///
    /// # Errors
    /// When the kernel shows no `/proc`.
    pub fn own() -> Result<Self, ProcessError> {
        Self::new(std::process::id())
    }

    /// Returns its resident sizes. Costs some 20 µs: one file of the kernel, no pass over the
    /// mappings as `smaps` would be.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self) -> Result<Memory, ProcessError> {
        let status: Status = self
            .proc
            .status()
            .map_err(|source| self.unreadable(source))?;
        let bytes = |line, kib: Option<u64>| {
            kib.map(|kib| kib * KIB).ok_or(ProcessError::Ended {
                pid: self.pid,
                line,
            })
        };
        Ok(Memory {
            rss: bytes("VmRSS", status.vmrss)?,
            anon: bytes("RssAnon", status.rssanon)?,
            file: bytes("RssFile", status.rssfile)? + bytes("RssShmem", status.rssshmem)?,
            peak: bytes("VmHWM", status.vmhwm)?,
        })
    }

    /// Returns its file descriptors and threads. Costs a system call for each descriptor.
    ///
    /// # Errors
    /// When it has ended, or belongs to somebody else.
    pub fn handles(&self) -> Result<Handles, ProcessError> {
        let unreadable = |source| self.unreadable(source);
        let mut handles = Handles {
            threads: self.proc.stat().map_err(unreadable)?.num_threads as u64,
            ..Handles::default()
        };
        // One that was closed meanwhile is none.
        for descriptor in self.proc.fd().map_err(unreadable)?.flatten() {
            match descriptor.target {
                FDTarget::Socket(_) => handles.sockets += 1,
                _ => handles.files += 1,
            }
        }
        Ok(handles)
    }

    /// Resets the high-water mark to the present resident size, so that the next phase has a peak
    /// of its own.
    ///
    /// # Errors
    /// When it has ended, or belongs to another user.
    pub fn reset_peak(&self) -> Result<(), ProcessError> {
        self.proc
            .clear_refs(procfs::process::ClearRefs::PeakRSS)
            .map_err(|source| self.unreadable(source))
    }

    /// Returns the user and system CPU time since it started, threads that have ended included.
    /// From the process's CPU clock, which counts nanoseconds; `/proc/PID/stat` counts ticks of 10
    /// ms.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu(&self) -> Result<Duration, ProcessError> {
        // The clock goes by number; the directory handle does not. A reused number must not be
        // mistaken for the process.
        if !self.proc.is_alive() {
            return Err(ProcessError::Ended {
                pid: self.pid,
                line: "CPU clock",
            });
        }
        let now = clock_gettime(self.cpu_clock).map_err(|source| ProcessError::Clock {
            pid: self.pid,
            source,
        })?;
        Ok(now.into())
    }

    /// Returns whether it has not ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.proc.is_alive()
    }

    fn unreadable(&self, source: ProcError) -> ProcessError {
        ProcessError::Proc {
            pid: self.pid,
            source,
        }
    }
}

/// Returns the user and system CPU time of the calling thread since it started; zero where the
/// kernel has no such clock.
#[must_use]
pub fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests;
