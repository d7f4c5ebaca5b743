//! A process that never outlives us, and whose last words are kept: a server, or a client that is a
//! program of its own.
//!
//! - [`parent_death`]: why it does not

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

/// Log lines that are kept for the error when the server dies.
const KEPT_LINES: usize = 5;
/// What a log line is cut to.
const KEPT_BYTES: usize = 300;
/// What of a line is read into memory; the rest is passed over.
const LONGEST_LINE: usize = 4 << 10;
/// Lines of standard output that wait for [`ChildServer::ready_line`]; further ones are not looked
/// at.
const WAITING_LINES: usize = 1_024;
/// How long it may take to end once its output is closed.
const END_WITHIN: Duration = Duration::from_secs(2);
/// How long a dead server's last lines may take to reach us.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(2);

/// A server that could not be started, or did not get ready.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program cannot be run.
    #[error("cannot start {}: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It ended before it was ready.
    #[error("{0}")]
    Died(Death),
    /// It did not get ready in time.
    #[error("{name} was not ready after {} s; its last lines: {log}", within.as_secs())]
    Slow {
        /// The server.
        name: String,
        /// How long it had.
        within: Duration,
        /// Its last log lines.
        log: String,
    },
}

/// How a server died.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} died ({status}); its last lines: {log}")]
pub struct Death {
    /// The server.
    pub name: String,
    /// Exit code or signal.
    pub status: String,
    /// Its last log lines.
    pub log: String,
}

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub struct ChildServer {
    name: String,
    child: Child,
    pid: u32,
    log: Arc<Mutex<VecDeque<String>>>,
    /// Tasks that read its output; they end when it has said its last.
    readers: Vec<JoinHandle<()>>,
    /// Standard output, until it is ready.
    stdout: Option<mpsc::Receiver<String>>,
}

impl ChildServer {
    /// Starts a server: it has no standard input, and what it prints is kept as its log.
    ///
    /// # Errors
    /// [`ChildError::Spawn`].
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
    /// output; what it prints on standard error is kept as its log.
    ///
    /// # Errors
    /// [`ChildError::Spawn`].
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

    /// Starts `command` in a process group of its own: a Ctrl-C at the terminal is for us, and the
    /// child must live until we have noted what was measured. Standard output is a pipe that is not
    /// read yet.
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

    /// Returns how it is called in results: `etcd` or `kube`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for a line on standard output that begins with `prefix`; returns what follows it. What
    /// follows is discarded: a second call returns nothing.
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

    /// Returns the error for a server that does not get ready.
    #[must_use]
    pub fn slow(&self, within: Duration) -> ChildError {
        ChildError::Slow {
            name: self.name.clone(),
            within,
            log: self.last_lines(),
        }
    }

    /// Returns how it died, if it did.
    pub async fn died(&mut self) -> Option<Death> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => describe(Ok(status)),
            Err(error) => error.to_string(),
        };
        Some(self.death(status).await)
    }

    /// Returns how it died, once its standard output is closed: it is ending, or has no more to
    /// say.
    pub async fn ends(&mut self) -> Death {
        let status = timeout(END_WITHIN, self.child.wait()).await;
        let status = status.map_or_else(|_| "closed its output".into(), describe);
        self.death(status).await
    }

    /// Returns how it dies, waited for.
    pub async fn death_comes(&mut self) -> Death {
        let status = self.child.wait().await;
        self.death(describe(status)).await
    }

    /// Kills it and waits until its memory is free again.
    pub async fn stop(mut self) {
        // An error means that it has ended already.
        self.child.kill().await.ok();
    }

    /// Asks it to end (SIGTERM) and waits until it has; kills it after `within`.
    pub async fn terminate(mut self, within: Duration) {
        let pid = i32::try_from(self.pid).ok().map(Pid::from_raw);
        let asked = pid.is_some_and(|pid| kill(pid, Signal::SIGTERM).is_ok());
        // Until it was waited for, no other process has its pid.
        if !asked || timeout(within, self.child.wait()).await.is_err() {
            self.stop().await;
        }
    }

    /// Returns what it died of and said last. Its output may still be on its way to us when it is
    /// gone.
    async fn death(&mut self, status: String) -> Death {
        for reader in self.readers.drain(..) {
            // A child of its own may hold the pipe open; then what came until now must do.
            timeout(LAST_WORDS_WITHIN, reader).await.ok();
        }
        Death {
            name: self.name.clone(),
            status,
            log: self.last_lines(),
        }
    }

    /// Returns the last lines of its log, or `none`.
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
            // Closed: the ready line is no longer awaited. Full: it is not among a thousand
            // lines.
            lines.try_send(line.into_owned()).ok();
        }
    }
}

/// Reads a line, of which `line` gets the first [`LONGEST_LINE`] bytes without its end. False when
/// there is none any more.
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

    /// How long a shell may take to begin, or to end.
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

    /// Its pipe was closed at such a line: a server that wrote on was killed by that.
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
