//! Profiles of processes of this machine, by `perf record`.

use std::io::Cursor;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::{ProfileError, SAMPLE_FOR_MOST};

/// Samples a second of each thread that runs: odd, so that nothing that comes every ten
/// milliseconds is always met, or always missed.
const PER_SECOND: &str = "99";
/// How long it may take to write what it has sampled.
const ENDS_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take to find the functions of all stacks.
const READ_WITHIN: Duration = Duration::from_secs(120);
/// What of an error is told, in characters.
const TOLD: usize = 200;
/// The two commands, as errors name them.
const RECORD: &str = "perf record";
const SCRIPT: &str = "perf script";
/// What is printed of each sample.
const FIELDS: &str = "comm,pid,tid,time,event,ip,sym,dso";

/// What `perf` sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerfStacks {
    /// A line for each stack, `thread;caller;callee;function 12`.
    pub folded: String,
    /// How long it sampled.
    pub sampled: Duration,
}

/// Returns how the names of this process' folders of samples begin.
#[must_use]
pub fn perf_folder_prefix() -> String {
    format!("loadgen-perf-{}-", std::process::id())
}

/// Samples the stacks of all threads of a process while they run, until `until` is ready, for
/// [`SAMPLE_FOR_MOST`] at most. Each sample copies 8 KiB of a thread's stack; finding the functions
/// takes seconds of this machine's CPU afterwards. Dropped, it ends `perf`.
///
/// # Errors
/// What failed, and how long `perf` had sampled until then: zero where it may not sample at all,
/// since there is no such program or the system does not let it.
pub async fn perf_stacks(
    pid: u32,
    until: impl Future<Output = ()>,
) -> Result<PerfStacks, (ProfileError, Duration)> {
    let none = |error: ProfileError| (error, Duration::ZERO);
    let folder = tempfile::Builder::new()
        .prefix(&perf_folder_prefix())
        .tempdir();
    let folder = folder.map_err(|error| none(error.into()))?;
    let data = folder.path().join("perf.data");
    let mut perf = record(pid, &data).map_err(none)?;
    let begun = Instant::now();
    let ended_early = tokio::select! {
        () = until => false,
        () = sleep(SAMPLE_FOR_MOST) => false,
        _ = perf.wait() => true,
    };
    let sampled = begun.elapsed();
    if !ended_early && let Some(pid) = perf.id() {
        // It writes what it has and ends; one that has ended meanwhile is waited for below.
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGINT).ok();
    }
    let ended = timeout(ENDS_WITHIN, perf.wait_with_output()).await;
    let late = || ProfileError::Failed {
        program: RECORD,
        said: format!("did not end within {} s", ENDS_WITHIN.as_secs()),
    };
    let ended = ended.map_err(|_| (late(), sampled))?;
    let ended = ended.map_err(|error| (error.into(), sampled))?;
    // It ends by itself where it may not sample, and well when the process ends.
    if ended_early && !ended.status.success() {
        return Err(none(failed(RECORD, &ended)));
    }
    if !std::fs::metadata(&data).is_ok_and(|data| data.len() > 0) {
        return Err((failed(RECORD, &ended), sampled));
    }
    let folded = stacks_in(&data).await.map_err(|error| (error, sampled))?;
    Ok(PerfStacks { folded, sampled })
}

/// Starts to sample a process. CPU time, since virtual machines seldom count cycles; stacks by
/// their unwind tables, since release builds keep no frame pointers.
fn record(pid: u32, data: &Path) -> Result<Child, ProfileError> {
    let pid = pid.to_string();
    let mut command = Command::new("perf");
    command
        .args(["record", "--event", "cpu-clock", "--freq", PER_SECOND])
        .args(["--call-graph", "dwarf", "--pid", &pid, "--output"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // A Ctrl-C at the terminal is for us.
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|source| ProfileError::Start {
        program: "perf",
        source,
    })
}

/// Returns the stacks of a recording.
async fn stacks_in(data: &Path) -> Result<String, ProfileError> {
    let mut command = Command::new("perf");
    // Functions that were inlined are looked up one by one, which takes minutes. Without periods
    // each sample counts once.
    command
        .args(["script", "--no-inline", "--fields", FIELDS, "--input"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let read = timeout(READ_WITHIN, command.output()).await;
    let late = |_| ProfileError::Failed {
        program: SCRIPT,
        said: format!("took longer than {} s", READ_WITHIN.as_secs()),
    };
    let read = read.map_err(late)??;
    if !read.status.success() {
        return Err(failed(SCRIPT, &read));
    }
    folded(&read.stdout)
}

/// Returns what `perf script` printed with a line for each stack.
fn folded(script: &[u8]) -> Result<String, ProfileError> {
    let mut options = Options::default();
    options.nthreads = 1;
    let mut lines = Vec::new();
    Folder::from(options).collapse(Cursor::new(script), &mut lines)?;
    Ok(String::from_utf8_lossy(&lines).into_owned())
}

/// Returns the error of a program that did not do what it should: what it said first.
fn failed(program: &'static str, output: &Output) -> ProfileError {
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().map(str::trim).filter(|line| {
        let is_said = line.chars().any(char::is_alphanumeric);
        // A headline without what happened.
        is_said && *line != "Error:"
    });
    let first: String = lines
        .next()
        .unwrap_or("nothing")
        .chars()
        .take(TOLD)
        .collect();
    ProfileError::Failed {
        program,
        said: format!("ended with {}: {first}", output.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `perf script` prints two samples of one stack and one of another.
    const SCRIPT_OF_THREE: &[u8] = b"\
worker 71/72  5.100000: cpu-clock: \n\t    10 memcpy (/lib/libc.so.6)\n\t    20 serve::encode (/bin/server)\n\t    30 main (/bin/server)\n\n\
worker 71/72  5.110000: cpu-clock: \n\t    10 memcpy (/lib/libc.so.6)\n\t    20 serve::encode (/bin/server)\n\t    30 main (/bin/server)\n\n\
worker 71/72  5.120000: cpu-clock: \n\t    30 main (/bin/server)\n\n";

    #[test]
    fn what_perf_prints_is_a_line_for_each_stack() {
        let folded = folded(SCRIPT_OF_THREE).expect("stacks");
        let mut lines: Vec<&str> = folded.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            ["worker;main 1", "worker;main;serve::encode;memcpy 2"]
        );
    }

    #[test]
    fn an_error_is_what_perf_said_first() {
        use std::os::unix::process::ExitStatusExt as _;
        let output = Output {
            status: std::process::ExitStatus::from_raw(255 << 8),
            stdout: Vec::new(),
            stderr: b"Error:\nAccess to performance monitoring is limited.\nConsider more.\n"
                .to_vec(),
        };
        assert_eq!(
            failed(RECORD, &output).to_string(),
            "`perf record`: ended with exit status: 255: Access to performance monitoring is limited."
        );
    }

    /// A process that does not exist; where there is no `perf`, that is said.
    #[tokio::test]
    async fn what_cannot_be_sampled_has_not_been_disturbed() {
        let nobody = perf_stacks(u32::MAX >> 1, std::future::pending()).await;
        let (error, sampled) = nobody.expect_err("there is no such process");
        assert_eq!(sampled, Duration::ZERO, "{error}");
        assert!(error.to_string().starts_with("`perf"), "{error}");
    }
}
