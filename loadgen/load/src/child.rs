//! A child process that ends with its parent, and whose last log lines are kept: a server, or a
//! client that is an external program.
//!
//! - [`parent_death`]: ends the child when its parent dies

pub mod parent_death;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How many log lines are kept for the error when the server dies.
const KEPT_LINES: usize = 5;
/// The length to which a kept log line is cut.
const KEPT_BYTES: usize = 300;
/// How much of a line is read into memory. The rest is skipped.
const LONGEST_LINE: usize = 4 << 10;
/// How many lines of standard output wait for [`ChildServer::ready_line`]. Further lines are
/// dropped.
const WAITING_LINES: usize = 1_024;
/// How long a process may take to end once its output is closed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a dead server's last lines may take to arrive.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(2);

/// The failure to start a server.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program cannot be run.
    #[error("cannot start {}: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server ended before it was ready.
    #[error("{0}")]
    Died(Death),
    /// The server was not ready in time.
    #[error("{name} was not ready after {} s; its last lines: {log}", within.as_secs())]
    Slow {
        /// The server.
        name: String,
        /// The time limit.
        within: Duration,
        /// The server's last log lines.
        log: String,
    },
}

/// The death of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} died ({status}); its last lines: {log}")]
pub struct Death {
    /// The server.
    pub name: String,
    /// The exit code or signal.
    pub status: String,
    /// The server's last log lines.
    pub log: String,
}

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub struct ChildServer {
    name: String,
    child: Child,
    pid: u32,
    log: Arc<Mutex<VecDeque<String>>>,
    /// The tasks that read its output. They end when the output does.
    readers: Vec<JoinHandle<()>>,
    /// The lines of standard output, until the server is ready.
    stdout: Option<mpsc::Receiver<String>>,
}

impl ChildServer {
    /// Starts a server without standard input. Its output is kept as its log.
    ///
    /// # Errors
    /// [`ChildError::Spawn`] when the program cannot be run.
    pub fn spawn(name: &str, program: &Path, args: &[OsString]) -> Result<Self, ChildError> {
        let mut command = Command::new(program);
        command.args(args);
        let mut started = Self::start(name, command, Stdio::null())?;
        if let Some(out) = started.child.stdout.take() {
            let (lines, stdout) = mpsc::channel(WAITING_LINES);
            let reader = keep_lines(out, Arc::clone(&started.log), Some(lines));
            started.readers.push(tokio::spawn(reader));
            started.stdout = Some(stdout);
        }
        Ok(started)
    }

    /// Starts a program that reads commands from its standard input and responds on its standard
    /// output. Its standard error is kept as its log.
    ///
    /// # Errors
    /// [`ChildError::Spawn`] when the program cannot be run.
    pub fn spawn_with_pipes(
        name: &str,
        command: Command,
    ) -> Result<(Self, ChildStdin, ChildStdout), ChildError> {
        let program = PathBuf::from(command.as_std().get_program());
        let mut started = Self::start(name, command, Stdio::piped())?;
        let (stdin, stdout) = (started.child.stdin.take(), started.child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            let source = std::io::Error::other("it has no pipes");
            return Err(ChildError::Spawn { program, source });
        };
        Ok((started, stdin, stdout))
    }

    /// Starts `command` in a process group of its own. A Ctrl-C at the terminal is meant for the
    /// generator, and the child must live until the measurements are recorded. Standard output is a
    /// pipe that is not read yet.
    fn start(name: &str, mut command: Command, stdin: Stdio) -> Result<Self, ChildError> {
        let program = PathBuf::from(command.as_std().get_program());
        let failed = |source| ChildError::Spawn { program, source };
        let spawned = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let ended = || std::io::Error::other("ended at once");
        let (mut child, pid) = spawned
            .and_then(|child| {
                let pid = child.id().ok_or_else(ended)?;
                Ok((child, pid))
            })
            .map_err(failed)?;
        let log = Arc::new(Mutex::new(VecDeque::with_capacity(KEPT_LINES)));
        let stderr = child.stderr.take();
        let reader = stderr.map(|pipe| tokio::spawn(keep_lines(pipe, Arc::clone(&log), None)));
        Ok(Self {
            name: name.to_owned(),
            child,
            pid,
            log,
            readers: reader.into_iter().collect(),
            stdout: None,
        })
    }

    /// Returns the server's name in results: `etcd` or `kube`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for a line on standard output that begins with `prefix`, and returns the rest of the
    /// line. Later lines are discarded, so this can succeed only once.
    ///
    /// # Errors
    /// [`ChildError::Died`] or [`ChildError::Slow`].
    pub async fn ready_line(
        &mut self,
        prefix: &str,
        within: Duration,
    ) -> Result<String, ChildError> {
        let stdout = self.stdout.take();
        let found = timeout(within, async {
            let mut stdout = stdout?;
            while let Some(line) = stdout.recv().await {
                if let Some(rest) = line.strip_prefix(prefix) {
                    return Some(rest.to_owned());
                }
            }
            None
        });
        match found.await {
            Ok(Some(rest)) => Ok(rest),
            Ok(None) => Err(ChildError::Died(self.ends().await)),
            Err(_) => Err(self.slow(within)),
        }
    }

    /// Returns the error of a server that is not ready in time.
    #[must_use]
    pub fn slow(&self, within: Duration) -> ChildError {
        ChildError::Slow {
            name: self.name.clone(),
            within,
            log: self.last_lines(),
        }
    }

    /// Returns how the server died, if it did.
    pub async fn died(&mut self) -> Option<Death> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => describe(Ok(status)),
            Err(error) => error.to_string(),
        };
        Some(self.death(status).await)
    }

    /// Returns how the server died, for a server whose standard output is closed. If it has not
    /// ended after a short time, the status says that it closed its output.
    pub async fn ends(&mut self) -> Death {
        let status = timeout(END_TIMEOUT, self.child.wait()).await;
        let status = status.map_or_else(|_| "closed its output".into(), describe);
        self.death(status).await
    }

    /// Waits until the server dies, and returns how.
    pub async fn death_comes(&mut self) -> Death {
        let status = self.child.wait().await;
        self.death(describe(status)).await
    }

    /// Kills the server and waits until its memory is free.
    pub async fn stop(mut self) {
        // An error means that it has ended already.
        self.child.kill().await.ok();
    }

    /// Asks the server to end (SIGTERM) and waits for that. Kills it after `within`.
    pub async fn terminate(mut self, within: Duration) {
        let pid = i32::try_from(self.pid).ok().map(Pid::from_raw);
        let is_signalled = pid.is_some_and(|pid| kill(pid, Signal::SIGTERM).is_ok());
        // Until the child was waited for, no other process has its pid.
        if !is_signalled || timeout(within, self.child.wait()).await.is_err() {
            self.stop().await;
        }
    }

    /// Returns the death with the last log lines. Waits for output that is still in the pipe when
    /// the process has ended.
    async fn death(&mut self, status: String) -> Death {
        for reader in self.readers.drain(..) {
            // A grandchild may hold the pipe open. In that case the lines received so far must
            // suffice.
            timeout(LAST_LINES_TIMEOUT, reader).await.ok();
        }
        Death {
            name: self.name.clone(),
            status,
            log: self.last_lines(),
        }
    }

    /// Returns the last lines of the log, or `none`.
    #[must_use]
    pub fn last_lines(&self) -> String {
        let log = self.log.lock();
        if log.is_empty() {
            return "none".to_owned();
        }
        log.iter().cloned().collect::<Vec<_>>().join(" | ")
    }
}

fn describe(status: std::io::Result<std::process::ExitStatus>) -> String {
    status.map_or_else(|error| error.to_string(), |status| status.to_string())
}

/// Reads a pipe to its end, so that the server never blocks on it, and keeps the last lines.
async fn keep_lines(
    pipe: impl AsyncRead + Unpin,
    log: Arc<Mutex<VecDeque<String>>>,
    lines: Option<mpsc::Sender<String>>,
) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while let Ok(true) = next_line(&mut reader, &mut line).await {
        let line = String::from_utf8_lossy(&line);
        {
            let mut log = log.lock();
            if log.len() == KEPT_LINES {
                log.pop_front();
            }
            log.push_back(line.chars().take(KEPT_BYTES).collect());
        }
        if let Some(lines) = &lines {
            // Closed: the ready line is not awaited any more. Full: it is not among the first
            // thousand lines.
            lines.try_send(line.into_owned()).ok();
        }
    }
}

/// Reads a line, and writes its first [`LONGEST_LINE`] bytes to `line`, without the newline.
/// Returns false at the end.
pub(crate) async fn next_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> std::io::Result<bool> {
    line.clear();
    let mut is_any = false;
    loop {
        let read = reader.fill_buf().await?;
        if read.is_empty() {
            return Ok(is_any);
        }
        is_any = true;
        let end = memchr::memchr(b'\n', read);
        let part = &read[..end.unwrap_or(read.len())];
        let room = LONGEST_LINE - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(read.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a shell may take to start or to end.
    const READY: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> ChildServer {
        let args = ["-c".into(), script.into()];
        ChildServer::spawn("test", Path::new("/bin/sh"), &args).expect("a shell")
    }

    #[tokio::test]
    async fn the_ready_line_is_found_among_others() {
        let mut child = shell("echo starting; echo ready etcd=http://x; sleep 60");
        let within = Duration::from_secs(20);
        let url = child.ready_line("ready etcd=", within).await;
        assert_eq!(url.expect("it said so"), "http://x");
        assert!(child.died().await.is_none());
        child.stop().await;
    }

    #[tokio::test]
    async fn a_death_is_told_with_the_last_lines() {
        let mut child = shell("echo 1 >&2; echo port in use >&2; exit 3");
        let error = child.ready_line("ready", Duration::from_secs(20)).await;
        let text = error.expect_err("it never got ready").to_string();
        assert!(
            text.contains("exit status: 3") && text.contains("port in use"),
            "{text}"
        );
    }

    /// A reader that closed the pipe at such a line would kill a server that writes on.
    #[tokio::test]
    async fn a_line_that_is_no_text_ends_nothing() {
        let mut child = shell(r"printf 'a\377b\n' >&2; printf '\377\n'; echo ready x; sleep 60");
        let ready = child.ready_line("ready ", Duration::from_secs(20)).await;
        assert_eq!(ready.expect("it said so"), "x");
        assert!(child.died().await.is_none());
        child.stop().await;
        let mut child = shell(r"printf 'a\377b\n' >&2; echo last >&2; exit 3");
        let death = child.death_comes().await;
        assert_eq!(death.status, "exit status: 3");
        assert_eq!(death.log, "a\u{fffd}b | last");
    }

    #[tokio::test]
    async fn a_line_without_end_takes_no_more_memory_than_a_long_one() {
        let pipe = tokio::io::AsyncReadExt::chain(&[b'x'; 100_000][..], &b"\nnext"[..]);
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        assert!(next_line(&mut reader, &mut line).await.expect("memory"));
        assert_eq!(line.len(), LONGEST_LINE);
        assert!(next_line(&mut reader, &mut line).await.expect("memory"));
        assert_eq!(line, b"next");
        assert!(!next_line(&mut reader, &mut line).await.expect("memory"));
    }

    #[tokio::test]
    async fn nothing_queues_once_a_server_is_ready() {
        let mut child = shell("echo ready; while :; do echo more; done");
        let ready = child.ready_line("ready", Duration::from_secs(20)).await;
        ready.expect("it said so");
        assert!(child.stdout.is_none(), "nobody holds the queue");
        child.stop().await;
    }

    #[tokio::test]
    async fn a_server_that_is_asked_ends_by_its_own_means_and_one_that_does_not_is_killed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("written");
        let script = format!(
            "trap 'echo done > {}; exit' TERM; echo up; while :; do sleep 0.01; done",
            file.display()
        );
        let mut polite = shell(&script);
        polite.ready_line("up", READY).await.expect("it is up");
        polite.terminate(READY).await;
        assert!(file.exists(), "it wrote what it had");
        let mut deaf = shell("trap '' TERM; echo up; while :; do sleep 0.01; done");
        deaf.ready_line("up", READY).await.expect("it is up");
        let pid = deaf.pid();
        deaf.terminate(Duration::from_millis(20)).await;
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let error = ChildServer::spawn("etcd", Path::new("/missing/etcd"), &[]);
        let text = error.expect_err("no such program").to_string();
        assert!(text.contains("/missing/etcd"), "{text}");
    }
}
