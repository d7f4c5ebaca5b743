//! Ends the child when its parent dies, including by SIGKILL (Linux: `PR_SET_PDEATHSIG`).
//!
//! Servers are started through a hidden command of this program. It asks the kernel for a signal at
//! its parent's death, and then replaces itself with the server. The server is thus the same
//! process, can be any program, and need not know about this.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Pid, getppid};
use workloads::CpuList;

/// The name of the hidden command.
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

/// Replaces this process with `program`, which dies when the process `parent` does. Returns only if
/// that fails, with the error.
#[must_use]
pub fn exec_as_child_of(parent: i32, program: &OsStr, args: &[OsString]) -> io::Error {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        return error.into();
    }
    // A parent that died before that call causes no signal.
    if getppid() != Pid::from_raw(parent) {
        return io::Error::other("the generator has ended");
    }
    Command::new(program).args(args).exec()
}
