//! The servers under test: their kinds, and how they are started and stopped.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use test_support::program;

/// Time limit for a server to print its address.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Number of lines of the server's log that a failed case shows.
const LOG_LINES: usize = 12;

/// A kind of server that cases run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// bench-server, which sends a Range response while it reads the objects.
    Bench,
    /// bench-server, which builds a Range response before it sends it, as etcd does.
    BenchBuffered,
    /// etcd 3.7.3.
    Etcd,
    /// etcd 3.4: no RangeStream, no response to a manual progress request before 3.4.25.
    Etcd34,
}

impl Peer {
    pub(crate) const ALL: &'static [Peer] =
        &[Self::Bench, Self::BenchBuffered, Self::Etcd, Self::Etcd34];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::BenchBuffered => "bench-buffered",
            Self::Etcd => "etcd",
            Self::Etcd34 => "etcd34",
        }
    }

    pub(crate) fn is_bench(self) -> bool {
        matches!(self, Self::Bench | Self::BenchBuffered)
    }

    /// Returns the reason why this peer cannot run here, if there is one.
    pub(crate) fn missing(self) -> Option<String> {
        self.binary().err()
    }

    fn binary(self) -> Result<PathBuf, String> {
        match self {
            Self::Bench | Self::BenchBuffered => Ok(PathBuf::from(crate::SERVER)),
            Self::Etcd => program("ETCD_BIN", "etcd"),
            Self::Etcd34 => program("ETCD34_BIN", "etcd34"),
        }
    }
}

/// A running server; killed and waited for when dropped.
pub(crate) struct Server {
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    peer: Peer,
    flags: Vec<String>,
    child: Child,
    log: Arc<Mutex<VecDeque<String>>>,
    folder: TempDir,
}

impl Server {
    /// Starts `peer` with `flags`, which all peers of the case must have, on an empty folder and a
    /// free port.
    pub(crate) fn start(peer: Peer, flags: &[&str]) -> Result<Self, String> {
        Self::start_at(peer, "http://127.0.0.1:0", flags)
    }

    /// Starts a server like [`Self::start`], at this URL; `https://` needs flags with certificates.
    pub(crate) fn start_at(peer: Peer, url: &str, flags: &[&str]) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| format!("temporary folder: {e}"))?;
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let log = Arc::default();
        let (child, url) = launch(peer, &flags, url, folder.path(), &log)?;
        Ok(Self {
            url,
            peer,
            flags,
            child,
            log,
            folder,
        })
    }

    /// Kills the server by SIGKILL.
    pub(crate) fn kill(&mut self) {
        // The server may have exited already; either way it must be reaped.
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// Returns the server's process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts a killed server again at the same address. etcd keeps its data; bench-server keeps
    /// its data only if its flags have a data directory.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        let folder = self.folder.path();
        (self.child, _) = launch(self.peer, &self.flags, &self.url, folder, &self.log)?;
        Ok(())
    }

    /// Returns the last lines of the server's log.
    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

fn tail(log: &Mutex<VecDeque<String>>) -> String {
    let lines = log.lock().expect("no reader panics while holding the log");
    lines.iter().map(|line| format!("    | {line}\n")).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "last lines of the server at {}:\n{}",
                self.url,
                self.log_tail()
            );
        }
        self.kill();
    }
}

/// Starts `peer` at `url`; returns the process and the URL that it serves.
fn launch(
    peer: Peer,
    flags: &[String],
    url: &str,
    folder: &Path,
    log: &Arc<Mutex<VecDeque<String>>>,
) -> Result<(Child, String), String> {
    let mut command = Command::new(peer.binary()?);
    command.arg(format!("--listen-client-urls={url}"));
    match peer {
        Peer::Bench => command.arg("--range-encoding=incremental"),
        Peer::BenchBuffered => command.arg("--range-encoding=buffered"),
        Peer::Etcd | Peer::Etcd34 => command
            .arg("--data-dir")
            .arg(folder.join("data"))
            .arg("--advertise-client-urls=http://127.0.0.1:0")
            .arg("--listen-peer-urls=http://127.0.0.1:0")
            .arg("--initial-advertise-peer-urls=http://127.0.0.1:0")
            .arg("--initial-cluster=default=http://127.0.0.1:0")
            .args(["--logger=zap", "--log-outputs=stderr"]),
    };
    if peer == Peer::Etcd {
        command.arg("--unsafe-no-fsync");
    }
    command
        .args(flags)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
    let (ready, address) = channel();
    if let Some(stdout) = child.stdout.take() {
        follow(stdout, Arc::clone(log), ready.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        follow(stderr, Arc::clone(log), ready);
    }
    match address.recv_timeout(START_LIMIT) {
        Ok(url) => Ok((child, url)),
        Err(_) => {
            child.kill().ok();
            child.wait().ok();
            let name = peer.name();
            Err(format!("{name} did not start\n{}", tail(log)))
        }
    }
}

/// Keeps the last lines of `output`, and sends the address once the server has printed it.
fn follow(
    output: impl Read + Send + 'static,
    log: Arc<Mutex<VecDeque<String>>>,
    ready: Sender<String>,
) {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(url) = address_in(&line) {
                ready.send(url).ok(); // only the first address is received
            }
            let mut lines = log.lock().expect("no reader panics while holding the log");
            if lines.len() == LOG_LINES {
                lines.pop_front();
            }
            lines.push_back(line);
        }
    });
}

/// Returns the address in a line: bench-server prints `ready etcd=URL`, etcd logs the address on
/// which it serves clients.
fn address_in(line: &str) -> Option<String> {
    if let Some(url) = line.strip_prefix("ready etcd=") {
        return Some(url.trim().to_owned());
    }
    let scheme = match line {
        line if line.contains("serving client traffic insecurely") => "http",
        line if line.contains("serving client traffic securely") => "https",
        _ => return None,
    };
    let (_, rest) = line.split_once(r#""address":""#)?;
    let (address, _) = rest.split_once('"')?;
    Some(format!("{scheme}://{address}"))
}
