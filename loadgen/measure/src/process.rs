//! The sizes of one process, read from the kernel: resident memory, the high-water mark and its
//! reset, and the CPU clock.

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

/// The kernel objects of a process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handles {
    /// Open file descriptors other than sockets.
    pub files: u64,
    /// Open sockets.
    pub sockets: u64,
    /// Threads.
    pub threads: u64,
}

/// A process that can be measured: this one or another.
///
/// The handle is bound to the process that it was made for: after that process has ended every call
/// fails, even if its PID is reused.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    proc: procfs::process::Process,
    cpu_clock: ClockId,
}

/// An error while measuring a process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The files below `/proc` cannot be read: the process has ended, or belongs to another user.
    #[error("process {pid}: {source}")]
    Proc {
        /// The PID.
        pid: i32,
        /// The kernel's error.
        source: ProcError,
    },
    /// The process's CPU clock cannot be read.
    #[error("CPU clock of process {pid}: {source}")]
    Clock {
        /// The PID.
        pid: i32,
        /// The kernel's error.
        source: nix::Error,
    },
    /// The status lacks a line, as that of a process that has ended but was not waited for.
    #[error("process {pid} has no {line}: it has ended")]
    Ended {
        /// The PID.
        pid: i32,
        /// The missing line.
        line: &'static str,
    },
}

impl Process {
    /// Returns a handle to the process with this PID.
    ///
    /// # Errors
    /// If there is no such process, or it may not be inspected.
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

    /// Returns a handle to this process: the generator.
    ///
    /// # Errors
    /// If there is no `/proc`.
    pub fn own() -> Result<Self, ProcessError> {
        Self::new(std::process::id())
    }

    /// Returns the resident sizes. Costs some 20 µs: reads one file, and does not scan the mappings
    /// as `smaps` does.
    ///
    /// # Errors
    /// If the process has ended.
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

    /// Returns the numbers of file descriptors and threads. Costs a system call per descriptor.
    ///
    /// # Errors
    /// If the process has ended, or belongs to another user.
    pub fn handles(&self) -> Result<Handles, ProcessError> {
        let unreadable = |source| self.unreadable(source);
        let mut handles = Handles {
            threads: self.proc.stat().map_err(unreadable)?.num_threads as u64,
            ..Handles::default()
        };
        // A descriptor that was closed since the folder was read is skipped.
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
    /// If the process has ended, or belongs to another user.
    pub fn reset_peak(&self) -> Result<(), ProcessError> {
        self.proc
            .clear_refs(procfs::process::ClearRefs::PeakRSS)
            .map_err(|source| self.unreadable(source))
    }

    /// Returns the user and system CPU time since the process started, threads that have ended
    /// included. Reads the process's CPU clock, which counts nanoseconds; `/proc/PID/stat` counts
    /// ticks of 10 ms.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn cpu(&self) -> Result<Duration, ProcessError> {
        // The clock is identified by PID, unlike the directory handle: a reused PID must not be
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

    /// Returns whether the process has not ended.
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

/// Returns the user and system CPU time of the calling thread since it started; zero if the kernel
/// has no such clock.
#[must_use]
pub fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests;
