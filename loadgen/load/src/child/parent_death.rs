//! Ends the child when its parent dies, including by SIGKILL (Linux: `PR_SET_PDEATHSIG`).
//!
//! Servers are started through a hidden command of this program, which asks the kernel for a signal
//! at its parent's death and then becomes the server: the same process, any program, and nothing
//! for the server to know about.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Pid, getppid};
use workloads::CpuList;

/// The hidden command's name.
pub const COMMAND: &str = "exec-child";

/// Returns the arguments with which `own_program` becomes `program`, on these CPUs.
#[must_use]
pub fn arguments(cpus: Option<&CpuList>, program: &Path, args: &[OsString]) -> Vec<OsString> {
    let parent = std::process::id().to_string();
    let mut all = vec![OsString::from(COMMAND)];
    all.extend(cpus.map(|cpus| format!("--cpus={cpus}").into()));
    all.extend([parent.into(), program.into()]);
    all.extend_from_slice(args);
    all
}

/// Becomes `program`, which dies when the process `parent` does. Returns only what went wrong.
#[must_use]
pub fn exec_as_child_of(parent: i32, program: &OsStr, args: &[OsString]) -> io::Error {
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
