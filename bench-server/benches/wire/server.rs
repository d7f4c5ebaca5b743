//! The server in its own process: its CPU clock, its memory, and its data.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::client::config::ClientConfig;
use etcd_api::client::pipelined::{Completion, PipelinedConnection, Rpc};
use etcd_api::client::raw_list::RawConnection;
use etcd_api::proto::etcdserverpb::PutRequest;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A server that is killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) config: ClientConfig,
    /// The server's certificate and key, and the certificates that its clients trust.
    _files: Option<TempDir>,
}

impl Server {
    /// Starts a server with further `flags`. The environment variable `WIRE_SERVER` is another
    /// command, like `target/release/loadgen serve`.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_at("http://127.0.0.1:0", flags)
    }

    /// Starts a server with TLS and a new self-signed certificate.
    pub(crate) fn start_tls() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate for an address");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (cert, key) = (
            folder.path().join("cert.pem"),
            folder.path().join("key.pem"),
        );
        std::fs::write(&cert, made.cert.pem()).expect("a file");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
        let flag = |name, path: &Path| format!("--{name}={}", path.display());
        let flags = [flag("cert-file", &cert), flag("key-file", &key)];
        let mut server = Self::start_at("https://127.0.0.1:0", &flags);
        server.config.tls.ca = Some(cert);
        server._files = Some(folder);
        server
    }

    /// Starts the baseline of lists of `bytes` bytes, which is another process of this program.
    pub(crate) fn start_baseline(bytes: u64) -> Self {
        let own = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(own);
        command.args([super::SERVE_BASELINE, &bytes.to_string()]);
        Self::ready("baseline", command)
    }

    fn start_at(url: &str, flags: &[impl AsRef<OsStr>]) -> Self {
        let own = ["--listen-client-urls", url, "--quota-backend-bytes=-1"];
        let own = [&own[..], &["--enable-debug-endpoints"]].concat();
        let flags = flags.iter().map(AsRef::as_ref);
        let all: Vec<&OsStr> = own.iter().map(OsStr::new).chain(flags).collect();
        Self::launch(&all)
    }

    fn launch(flags: &[impl AsRef<OsStr>]) -> Self {
        let own = env!("CARGO_BIN_EXE_bench-server").to_owned();
        let command = std::env::var("WIRE_SERVER").unwrap_or(own);
        let mut words = command.split_whitespace();
        let mut command = Command::new(words.next().expect("WIRE_SERVER is a command"));
        command.args(words).args(flags);
        Self::ready("etcd", command)
    }

    /// Starts a server that prints `ready NAME=URL`, and possibly other lines, once it accepts
    /// connections.
    fn ready(name: &str, mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        let out = child.stdout.take().expect("it is piped");
        let mut ready = String::new();
        BufReader::new(out)
            .read_line(&mut ready)
            .expect("it says when it is ready");
        let url = ready
            .strip_prefix(&format!("ready {name}="))
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap_or_else(|| panic!("it says {ready:?}"));
        Self {
            config: ClientConfig::new(url).expect("its own URL"),
            child,
            _files: None,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CPU time of the server so far.
    pub(crate) fn cpu(&self) -> Duration {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        clock(ClockId::pid_cpu_clock_id(pid).expect("it runs"))
    }

    /// Returns the resident memory, and its peak since the last [`reset_peak`](Self::reset_peak),
    /// bytes.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let kib = |name| {
            let line = text.lines().find_map(|l| l.strip_prefix(name));
            let number = line.and_then(|l| l.split_whitespace().next());
            number.and_then(|n| n.parse::<u64>().ok()).expect("a size") * 1024
        };
        (kib("VmRSS:"), kib("VmHWM:"))
    }

    pub(crate) fn reset_peak(&self) {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(path, "5").expect("it is our own process");
    }

    pub(crate) async fn connect(&self) -> RawConnection {
        RawConnection::connect(&self.config, None)
            .await
            .expect("it accepts")
    }

    pub(crate) async fn calls(&self) -> PipelinedConnection {
        PipelinedConnection::connect(&self.config, None)
            .await
            .expect("it accepts")
    }

    /// Writes `objects` keys of `/registry/pods/` with values of `value_bytes`.
    pub(crate) async fn seed(&self, objects: u64, value_bytes: usize) {
        let value = |i: u64| {
            let mut value = vec![0; value_bytes];
            // Values are distinct and incompressible.
            let mut state = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for word in value.chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
            }
            value
        };
        self.fill((0..objects).map(|i| (key(i), value(i).into())))
            .await;
    }

    /// Writes these keys.
    pub(crate) async fn fill(&self, keys: impl Iterator<Item = (Vec<u8>, Bytes)>) {
        let mut calls = self.calls().await;
        let mut failed = None;
        let mut note = |done: Completion<'_>| {
            if let Err(error) = done.response {
                failed = Some(error);
            }
        };
        for (i, (key, value)) in (0..).zip(keys) {
            let put = PutRequest {
                key: key.into(),
                value,
                ..PutRequest::default()
            };
            calls.send(Rpc::Put, &put, i).expect("it lives");
            while calls.outstanding() > 64 {
                calls.drive(&mut note).await.expect("it lives");
            }
        }
        while calls.outstanding() > 0 {
            calls.drive(&mut note).await.expect("it lives");
        }
        assert!(failed.is_none(), "{failed:?}");
    }

    /// Waits until the allocator has returned unused memory.
    pub(crate) async fn settle(&self) {
        let uri = &self.config.endpoints[0];
        let address = uri.authority().expect("an address").as_str();
        let mut socket = tokio::net::TcpStream::connect(address)
            .await
            .expect("it accepts");
        let ask = format!(
            "POST /debug/settle HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        self.talk(&mut socket, &ask).await;
    }

    /// Returns the text of `/metrics`.
    pub(crate) async fn metrics(&self) -> String {
        let uri = &self.config.endpoints[0];
        let address = uri.authority().expect("an address").as_str();
        let mut socket = tokio::net::TcpStream::connect(address)
            .await
            .expect("it accepts");
        let ask = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        self.talk(&mut socket, &ask).await
    }

    async fn talk(&self, socket: &mut tokio::net::TcpStream, ask: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        socket.write_all(ask.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        socket
            .read_to_string(&mut answer)
            .await
            .expect("it answers");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have exited by itself.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Returns a key of [`Server::seed`].
pub(crate) fn key(i: u64) -> Vec<u8> {
    format!("/registry/pods/ns-{:03}/pod-{i:010}", i / 1000).into_bytes()
}

/// Returns the CPU time of this process so far.
pub(crate) fn own_cpu() -> Duration {
    clock(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(id: ClockId) -> Duration {
    let time: TimeSpec = clock_gettime(id).expect("the clock is there");
    time.into()
}

/// Returns the runtime of clients. It has one thread, so that the server can use the other cores.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}
