//! A real kube-apiserver, configured to write as little as possible on its own.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::Method;
use tempfile::TempDir;

use crate::http::{Reply, send};
use crate::tls::{self, Relay};

/// Returns the path of the program, or the reason why it cannot run here.
pub(crate) fn program() -> Result<PathBuf, String> {
    test_support::program("KUBE_APISERVER_BIN", "kube-apiserver")
}

/// Time until the server must be ready, in tenths of a second.
const START_LIMIT_DS: usize = 1_200;
/// Number of attempts to start, since another process may take the free port first.
const STARTS: usize = 3;
/// Number of lines of the log that are shown if the server does not start.
const LOG_LINES: usize = 30;

/// Disabled admission plugins: they need other parts of a cluster, or change what is written.
const NO_ADMISSION: &str =
    "ServiceAccount,TaintNodesByCondition,DefaultTolerationSeconds,Priority,RuntimeClass";

/// Feature gates: features that write without a request are disabled. Shards are enabled, since
/// they are disabled by default in kube-apiserver and enabled by default in bench-server.
const GATES: &str =
    "APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false,ShardedListAndWatch=true";

/// A running server; killed and waited for when dropped.
pub(crate) struct Apiserver {
    /// `http://127.0.0.1:PORT`, the URL of a relay that connects to the server over TLS.
    pub(crate) url: String,
    /// The server's address, for TLS.
    #[allow(dead_code, reason = "for tests of clients that speak TLS themselves")]
    pub(crate) address: SocketAddr,
    _relay: Relay,
    child: Child,
    /// The server's identities, which another server may share.
    folder: Arc<TempDir>,
    etcd: String,
}

impl Apiserver {
    /// Starts a server over the etcd at `etcd`, and waits until it is ready.
    ///
    /// # Errors
    /// The last lines of the server's log, if it does not become ready.
    pub(crate) async fn start(etcd: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        tls::write_identities(folder.path());
        Self::start_as(Arc::new(folder), etcd).await
    }

    /// Starts another server with the same identities over another etcd.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    #[allow(dead_code, reason = "for a pair of them")]
    pub(crate) async fn another(&self, etcd: &str) -> Result<Self, String> {
        Self::start_as(Arc::clone(&self.folder), etcd).await
    }

    /// Stops the server and starts another one over the same etcd.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    #[allow(dead_code, reason = "for a pair of them")]
    pub(crate) async fn start_again(self) -> Result<Self, String> {
        let (folder, etcd) = (Arc::clone(&self.folder), self.etcd.clone());
        drop(self);
        Self::start_as(folder, &etcd).await
    }

    async fn start_as(folder: Arc<TempDir>, etcd: &str) -> Result<Self, String> {
        let mut last = String::new();
        for _ in 0..STARTS {
            match Self::start_once(Arc::clone(&folder), etcd).await {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn start_once(folder: Arc<TempDir>, etcd: &str) -> Result<Self, String> {
        let address = free_address();
        let mut child = Command::new(program()?)
            .args(flags(folder.path(), address, etcd))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let log: Arc<Mutex<VecDeque<String>>> = Arc::default();
        if let Some(errors) = child.stderr.take() {
            let log = log.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    let mut log = log.lock().expect("nobody panics while holding the log");
                    log.push_back(line);
                    if log.len() > LOG_LINES {
                        log.pop_front();
                    }
                }
            });
        }
        let relay = Relay::start(address, folder.path());
        let mut server = Self {
            url: relay.url.clone(),
            address,
            _relay: relay,
            child,
            folder,
            etcd: etcd.to_owned(),
        };
        for _ in 0..START_LIMIT_DS {
            let ended = server.child.try_wait().ok().flatten().is_some();
            let listens = !ended && tokio::net::TcpStream::connect(address).await.is_ok();
            if listens && server.get("/readyz").await.code == 200 {
                return Ok(server);
            }
            if ended {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = log.lock().expect("nobody panics while holding the log");
        let lines: Vec<_> = log.iter().map(String::as_str).collect();
        Err(format!(
            "kube-apiserver did not start:\n{}",
            lines.join("\n")
        ))
    }

    /// Returns the folder with the server's identity and an administrator's (see
    /// [`tls::write_identities`]).
    #[allow(dead_code, reason = "for tests of clients that speak TLS themselves")]
    pub(crate) fn identities(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        send(&self.url, Method::GET, path, &[], "").await
    }
}

impl Drop for Apiserver {
    fn drop(&mut self) {
        // The server may have exited already; either way it must be reaped.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns an address for a server that cannot choose a port itself.
fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

/// Returns the server's flags. Everything that writes on its own is disabled, so that the revision
/// does not change between two requests.
fn flags(folder: &Path, address: SocketAddr, etcd: &str) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let accounts = tls::ACCOUNTS;
    vec![
        format!("--etcd-servers={etcd}"),
        "--etcd-compaction-interval=0".to_owned(),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        "--advertise-address=192.0.2.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--cert-dir={}", folder.display()),
        format!("--tls-cert-file={}", file(&format!("{}.crt", tls::SERVING))),
        format!(
            "--tls-private-key-file={}",
            file(&format!("{}.key", tls::SERVING))
        ),
        format!("--client-ca-file={}", file(&format!("{}.crt", tls::ADMIN))),
        "--authorization-mode=AlwaysAllow".to_owned(),
        "--service-account-issuer=https://apiserver.invalid".to_owned(),
        format!(
            "--service-account-signing-key-file={}",
            file(&format!("{accounts}.key"))
        ),
        format!(
            "--service-account-key-file={}",
            file(&format!("{accounts}.pub"))
        ),
        format!("--disable-admission-plugins={NO_ADMISSION}"),
        "--enable-priority-and-fairness=false".to_owned(),
        format!("--feature-gates={GATES}"),
        "--profiling=false".to_owned(),
    ]
}
