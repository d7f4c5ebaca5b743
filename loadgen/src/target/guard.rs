//! A server never outlives the generator, not even one that was killed without a word (on Linux; elsewhere one that was).
//!
//! Servers are started through a hidden command of this program, which asks the kernel for a signal at its parent's death and
//! then becomes the server: the same process, any program, and nothing for the server to know about.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Pid, getppid};
use workloads::CpuList;

use crate::isolation::cpus::pin;

/// The hidden command's name.
pub const COMMAND: &str = "guard";

/// The arguments with which `own_program` becomes `program`, on these CPUs.
pub(super) fn arguments(
    cpus: Option<&CpuList>,
    program: &Path,
    args: &[OsString],
) -> Vec<OsString> {
    let parent = std::process::id().to_string();
    let mut all = vec![OsString::from(COMMAND)];
    all.extend(cpus.map(|cpus| format!("--cpus={cpus}").into()));
    all.extend([parent.into(), program.into()]);
    all.extend_from_slice(args);
    all
}

/// Becomes `program`, which dies when the process `parent` does and runs on `cpus`. Returns only what went wrong.
#[must_use]
pub fn become_guarded(
    parent: i32,
    cpus: Option<&CpuList>,
    program: &OsStr,
    args: &[OsString],
) -> io::Error {
    if let Some(Err(error)) = cpus.map(pin) {
        return error;
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        return error.into();
    }
    // A parent that died before the call sends nothing any more.
    if getppid() != Pid::from_raw(parent) {
        return io::Error::other("the generator has ended");
    }
    Command::new(program).args(args).exec()
}
