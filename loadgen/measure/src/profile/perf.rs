//! Profiles of processes of this machine, taken by `perf record`.

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

use super::{MAX_SAMPLING_TIME, ProfileError};

/// Samples per second of each running thread. An odd number, so that work that recurs every ten
/// milliseconds is neither always nor never sampled.
const PER_SECOND: &str = "99";
/// The longest time that `perf record` may take to write its samples after it was stopped.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest time that `perf script` may take to resolve the functions of all stacks.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest error text, in characters.
const SHOWN_CHARS: usize = 200;
/// The two commands as errors name them.
const RECORD: &str = "perf record";
const SCRIPT: &str = "perf script";
/// The fields of a sample that `perf script` prints.
const FIELDS: &str = "comm,pid,tid,time,event,ip,sym,dso";

/// The stacks that `perf` sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerfStacks {
    /// One line per stack: `thread;caller;callee;function 12`.
    pub folded: String,
    /// The duration of sampling.
    pub sampled: Duration,
}

/// Returns the prefix of the names of this process's temporary sample folders.
#[must_use]
pub fn perf_folder_prefix() -> String {
    format!("loadgen-perf-{}-", std::process::id())
}

/// Samples the stacks of all running threads of a process until `until` completes, for
/// [`MAX_SAMPLING_TIME`] at most. Each sample copies 8 KiB of a thread's stack; resolving the
/// functions afterwards takes seconds of this machine's CPU time. Dropping the future ends `perf`.
///
/// # Errors
/// The error, and how long `perf` had sampled before it: zero if it could not sample at all, since
/// the program is not installed or the system does not permit it.
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
        () = sleep(MAX_SAMPLING_TIME) => false,
        _ = perf.wait() => true,
    };
    let sampled = begun.elapsed();
    if !ended_early && let Some(pid) = perf.id() {
        // On SIGINT `perf` writes its samples and exits. One that has just exited is waited for
        // below.
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGINT).ok();
    }
    let ended = timeout(END_TIMEOUT, perf.wait_with_output()).await;
    let late = || ProfileError::Failed {
        program: RECORD,
        said: format!("did not end within {} s", END_TIMEOUT.as_secs()),
    };
    let ended = ended.map_err(|_| (late(), sampled))?;
    let ended = ended.map_err(|error| (error.into(), sampled))?;
    // `perf` exits early with an error if it may not sample, and successfully when the process has
    // ended.
    if ended_early && !ended.status.success() {
        return Err(none(failed(RECORD, &ended)));
    }
    if !std::fs::metadata(&data).is_ok_and(|data| data.len() > 0) {
        return Err((failed(RECORD, &ended), sampled));
    }
    let folded = stacks_in(&data).await.map_err(|error| (error, sampled))?;
    Ok(PerfStacks { folded, sampled })
}

/// Starts to sample a process. Samples by CPU time, since virtual machines seldom count cycles, and
/// unwinds stacks by DWARF tables, since release builds keep no frame pointers.
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
        // A Ctrl-C at the terminal must reach the generator only.
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|source| ProfileError::Start {
        program: "perf",
        source,
    })
}

/// Returns the folded stacks of a recording.
async fn stacks_in(data: &Path) -> Result<String, ProfileError> {
    let mut command = Command::new("perf");
    // Inlined functions are resolved one by one, which takes minutes. Without periods, each sample
    // counts once.
    command
        .args(["script", "--no-inline", "--fields", FIELDS, "--input"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let read = timeout(READ_TIMEOUT, command.output()).await;
    let late = |_| ProfileError::Failed {
        program: SCRIPT,
        said: format!("took longer than {} s", READ_TIMEOUT.as_secs()),
    };
    let read = read.map_err(late)??;
    if !read.status.success() {
        return Err(failed(SCRIPT, &read));
    }
    folded(&read.stdout)
}

/// Folds the output of `perf script` into one line per stack.
fn folded(script: &[u8]) -> Result<String, ProfileError> {
    let mut options = Options::default();
    options.nthreads = 1;
    let mut lines = Vec::new();
    Folder::from(options).collapse(Cursor::new(script), &mut lines)?;
    Ok(String::from_utf8_lossy(&lines).into_owned())
}

/// Returns the error of a failed program, with the first line of its error output.
fn failed(program: &'static str, output: &Output) -> ProfileError {
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().map(str::trim).filter(|line| {
        let is_said = line.chars().any(char::is_alphanumeric);
        // A headline without a message.
        is_said && *line != "Error:"
    });
    let first: String = lines
        .next()
        .unwrap_or("nothing")
        .chars()
        .take(SHOWN_CHARS)
        .collect();
    ProfileError::Failed {
        program,
        said: format!("ended with {}: {first}", output.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `perf script` for two samples of one stack and one sample of another.
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

    /// The process does not exist; without `perf`, the error says that.
    #[tokio::test]
    async fn what_cannot_be_sampled_has_not_been_disturbed() {
        let nobody = perf_stacks(u32::MAX >> 1, std::future::pending()).await;
        let (error, sampled) = nobody.expect_err("there is no such process");
        assert_eq!(sampled, Duration::ZERO, "{error}");
        assert!(error.to_string().starts_with("`perf"), "{error}");
    }
}
