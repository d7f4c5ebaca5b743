//! A server process that never outlives us, and whose last words are kept.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Log lines that are kept for the error when the server dies.
const KEPT_LINES: usize = 5;
/// What a log line is cut to.
const KEPT_BYTES: usize = 300;
/// How long a dead server's last lines may take to reach us.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(200);

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
    stdout: mpsc::UnboundedReceiver<String>,
}

impl ChildServer {
    /// Starts `program`. It gets a process group of its own: a Ctrl-C at the terminal is for us, and
    /// the server must live until we have noted what was measured.
    ///
    /// # Errors
    /// [`ChildError::Spawn`].
    pub fn spawn(name: &str, program: &Path, args: &[OsString]) -> Result<Self, ChildError> {
        let failed = |source| ChildError::Spawn {
            program: program.to_owned(),
            source,
        };
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pid = child
            .id()
            .ok_or_else(|| failed(std::io::Error::other("ended at once")))?;
        let log = Arc::new(Mutex::new(VecDeque::with_capacity(KEPT_LINES)));
        let (lines, stdout) = mpsc::unbounded_channel();
        let mut readers = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            readers.push(tokio::spawn(keep_lines(stderr, Arc::clone(&log), None)));
        }
        if let Some(out) = child.stdout.take() {
            readers.push(tokio::spawn(keep_lines(out, Arc::clone(&log), Some(lines))));
        }
        Ok(Self {
            name: name.to_owned(),
            child,
            pid,
            log,
            readers,
            stdout,
        })
    }

    /// How it is called in results: `etcd` or `kube`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for a line on standard output that begins with `prefix`; answers what follows it.
    ///
    /// # Errors
    /// [`ChildError::Died`] or [`ChildError::Slow`].
    pub async fn ready_line(
        &mut self,
        prefix: &str,
        within: Duration,
    ) -> Result<String, ChildError> {
        let found = timeout(within, async {
            while let Some(line) = self.stdout.recv().await {
                if let Some(rest) = line.strip_prefix(prefix) {
                    return Some(rest.to_owned());
                }
            }
            None
        });
        match found.await {
            Ok(Some(rest)) => Ok(rest),
            // Its output is closed: it is ending.
            Ok(None) => {
                let status = timeout(Duration::from_secs(2), self.child.wait()).await;
                let status = status.map_or_else(|_| "closed its output".into(), describe);
                Err(ChildError::Died(self.death(status).await))
            }
            Err(_) => Err(self.slow(within)),
        }
    }

    /// The error for a server that does not get ready.
    #[must_use]
    pub fn slow(&self, within: Duration) -> ChildError {
        ChildError::Slow {
            name: self.name.clone(),
            within,
            log: self.last_lines(),
        }
    }

    /// How it died, if it did.
    pub async fn died(&mut self) -> Option<Death> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => describe(Ok(status)),
            Err(error) => error.to_string(),
        };
        Some(self.death(status).await)
    }

    /// How it dies, waited for.
    pub async fn death_comes(&mut self) -> Death {
        let status = self.child.wait().await;
        self.death(describe(status)).await
    }

    /// Kills it and waits until its memory is free again.
    pub async fn stop(mut self) {
        // An error means that it has ended already.
        self.child.kill().await.ok();
    }

    /// What it died of and said last. Its output may still be on its way to us when it is gone.
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

    /// The last lines of its log, or `none`.
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
    lines: Option<mpsc::UnboundedSender<String>>,
) {
    let mut reader = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        {
            let mut log = log.lock();
            if log.len() == KEPT_LINES {
                log.pop_front();
            }
            log.push_back(line.chars().take(KEPT_BYTES).collect());
        }
        if let Some(lines) = &lines {
            // Nobody waits for a ready line any more.
            lines.send(line).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let error = ChildServer::spawn("etcd", Path::new("/missing/etcd"), &[]);
        let text = error.expect_err("no such program").to_string();
        assert!(text.contains("/missing/etcd"), "{text}");
    }
}
