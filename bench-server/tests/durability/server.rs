//! A server with a data directory, in its own process.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest, RangeResponse};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    url: String,
}

/// The outcome of a server that exited by itself.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// The server's standard error, without its log.
    pub(crate) told: String,
}

/// Returns the command that starts a server over a directory; `limits` are shell commands to run
/// before it.
fn command(directory: &Path, limits: &str, flags: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &format!("{limits} exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_bench-server"))
        .args(["--listen-client-urls=http://127.0.0.1:0", "--log-level=off"])
        .arg("--data-dir")
        .arg(directory)
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Server {
    pub(crate) fn start(directory: &Path, flags: &[&str]) -> Self {
        Self::start_limited(directory, "", flags)
    }

    pub(crate) fn start_limited(directory: &Path, limits: &str, flags: &[&str]) -> Self {
        let mut child = command(directory, limits, flags)
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        let url = line.trim().strip_prefix("ready etcd=").map(str::to_owned);
        let Some(url) = url else {
            let mut told = String::new();
            let stderr = child.stderr.as_mut().expect("it is piped");
            stderr.read_to_string(&mut told).expect("text");
            panic!("it did not get ready: {told}");
        };
        Self { child, url }
    }

    pub(crate) async fn client(&self) -> Client {
        let config = ClientConfig::new(&self.url).expect("a URL");
        Client::connect(config).await.expect("it listens")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(pid, signal).expect("our own process");
    }

    /// Kills the server by SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it is our child");
    }

    /// Waits until the server exits by itself.
    pub(crate) fn ended(mut self) -> Ended {
        let mut told = String::new();
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut told).expect("text");
        let code = self.child.wait().expect("it is our child").code();
        Ended { code, told }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have exited.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a server that must refuse to start; returns its outcome.
pub(crate) fn refused(directory: &Path, limits: &str, flags: &[&str]) -> Ended {
    let output = command(directory, limits, flags)
        .output()
        .expect("it starts");
    Ended {
        code: output.status.code(),
        told: String::from_utf8(output.stderr).expect("text"),
    }
}

pub(crate) fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    }
}

/// Returns everything that is stored.
pub(crate) async fn all(client: &Client) -> RangeResponse {
    let request = RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..RangeRequest::default()
    };
    let response = client.kv().range(request).await.expect("a list");
    response.into_inner()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}
