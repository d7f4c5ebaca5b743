//! Chooses the CPUs of a run's servers and generator, and pins threads to them.

use std::io;

use anyhow::anyhow;
use workloads::{CpuList, Scenario};

use crate::cli::RunArgs;
use crate::exit::Failure;

/// Chooses the CPUs of a scenario and stores them in it: those of the command line, if it names
/// any; otherwise the scenario's own, if all of them exist and loadgen starts every target. Returns
/// one line with the reason if the scenario's own CPUs cannot be used.
///
/// # Errors
/// [`Failure`] with exit code 2 if the command line names CPUs that may not be used.
pub fn choose(
    scenario: &mut Scenario,
    args: &RunArgs,
    starts_all: bool,
) -> Result<Option<String>, Failure> {
    let flags = [
        ("--server-cpus", &args.server_cpus),
        ("--client-cpus", &args.client_cpus),
    ];
    for (flag, list) in flags {
        if let Some(reason) = list.as_ref().and_then(cannot_use) {
            return Err(Failure::usage(anyhow!("{flag}: {reason}")));
        }
    }
    if flags.iter().any(|(_, list)| list.is_some()) {
        scenario.server_cpus.clone_from(&args.server_cpus);
        scenario.client_cpus.clone_from(&args.client_cpus);
        return Ok(None);
    }
    let own = [&scenario.server_cpus, &scenario.client_cpus];
    let reason = match starts_all {
        true => own.into_iter().flatten().find_map(cannot_use),
        false if own.iter().all(|list| list.is_none()) => None,
        false => Some("a target is not started by loadgen".to_owned()),
    };
    let Some(reason) = reason else {
        return Ok(None);
    };
    scenario.server_cpus = None;
    scenario.client_cpus = None;
    let name = &scenario.name;
    Ok(Some(format!(
        "{name}: servers and generator are not kept apart as the scenario says: {reason}"
    )))
}

/// Returns the reason why these CPUs may not be used, or `None` if they may.
fn cannot_use(list: &CpuList) -> Option<String> {
    match available() {
        Err(error) => Some(format!("which CPUs may be used is not known: {error}")),
        Ok(available) => {
            let cpu = *list.missing_from(&available).first()?;
            Some(format!(
                "CPU {cpu} is not among those that may be used: {available}"
            ))
        }
    }
}

/// Returns the CPUs of a scenario as text, as `servers on CPUs 0; generator on CPUs 1`; `None` if
/// all may be used.
#[must_use]
pub fn shown(scenario: &Scenario) -> Option<String> {
    let on = |who, list: &Option<CpuList>| Some(format!("{who} on CPUs {}", list.as_ref()?));
    let parts = [
        on("servers", &scenario.server_cpus),
        on("generator", &scenario.client_cpus),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the CPUs that the calling thread may use.
///
/// # Errors
/// The kernel's error.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn available() -> io::Result<CpuList> {
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))?;
    let numbers = 0..nix::sched::CpuSet::count();
    let list = CpuList::of(numbers.filter(|&cpu| set.is_set(cpu).unwrap_or(false)));
    list.ok_or_else(|| io::Error::other("it names none"))
}

/// Pins the calling thread, and threads and processes that it starts later, to these CPUs.
///
/// # Errors
/// The kernel's error, as when none of the CPUs exists.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn pin(list: &CpuList) -> io::Result<()> {
    pin_thread(nix::unistd::Pid::from_raw(0), list)
}

/// Pins every thread of this process, and what they start later, to these CPUs.
///
/// # Errors
/// The kernel's error, as when none of the CPUs exists.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn pin_process(list: &CpuList) -> io::Result<()> {
    pin(list)?;
    for task in std::fs::read_dir("/proc/self/task")? {
        let Ok(number) = task?.file_name().to_string_lossy().parse() else {
            continue;
        };
        // The thread may have ended meanwhile.
        pin_thread(nix::unistd::Pid::from_raw(number), list).ok();
    }
    Ok(())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn pin_thread(thread: nix::unistd::Pid, list: &CpuList) -> io::Result<()> {
    let mut set = nix::sched::CpuSet::new();
    for cpu in list.numbers() {
        set.set(cpu)?;
    }
    Ok(nix::sched::sched_setaffinity(thread, &set)?)
}

/// Fails: this system does not report the CPUs of a thread.
///
/// # Errors
/// Always.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn available() -> io::Result<CpuList> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: this system cannot pin threads.
///
/// # Errors
/// Always.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn pin(_: &CpuList) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: this system cannot pin threads.
///
/// # Errors
/// Always.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn pin_process(_: &CpuList) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins a thread of its own, so that no other test is affected.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_stays_on_its_cpus() {
        let pinned = std::thread::spawn(|| {
            let all = available().expect("the kernel says it");
            let first = CpuList::of(all.numbers().take(1)).expect("one");
            pin(&first).expect("it is available");
            (first, available().expect("the kernel says it"))
        });
        let (first, now) = pinned.join().expect("no panic");
        assert_eq!(now, first);
    }
}
