//! Test cases: the servers of a case, and its test with a name and a time limit.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::client::kubernetes::KubernetesClient;
use http::Method;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use test_support::proxy::Proxy;

use crate::http::{Reply, send};
use crate::peer::{Peer, Server};

/// Time allowed for a case, including the start of servers.
const CASE_LIMIT: Duration = Duration::from_secs(120);
/// Time allowed for a server to print its address.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Lines of a tier's log that are kept.
const LOG_LINES: usize = 1_000;

/// The storage of the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A store in the same process.
    Embedded,
    /// bench-server's etcd tier.
    Bench,
    /// etcd 3.7.3.
    Etcd,
    /// etcd 3.4.
    Etcd34,
}

/// Backends that support all of the tier.
pub(crate) const ALL: &[Backend] = &[Backend::Embedded, Backend::Bench, Backend::Etcd];
/// Backends in another process, which outlive the tier and which two tiers can share.
pub(crate) const APART: &[Backend] = &[Backend::Bench, Backend::Etcd];
/// Single etcds, for behaviour that only one of them has.
pub(crate) const BENCH: &[Backend] = &[Backend::Bench];
pub(crate) const ETCD: &[Backend] = &[Backend::Etcd];
/// One backend, for behaviour that does not depend on it.
pub(crate) const ONE: &[Backend] = &[Backend::Embedded];

impl Backend {
    pub(crate) const ALL: [Self; 4] = [Self::Embedded, Self::Bench, Self::Etcd, Self::Etcd34];

    fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Bench => "bench",
            Self::Etcd => "etcd",
            Self::Etcd34 => "etcd34",
        }
    }

    /// Returns the reason why the backend's etcd cannot run here, if there is one.
    pub(crate) fn missing(self) -> Option<String> {
        self.peer().and_then(Peer::missing)
    }

    /// Returns the etcd of the tier; `None` for storage in the same process.
    fn peer(self) -> Option<Peer> {
        match self {
            Self::Embedded => None,
            Self::Bench => Some(Peer::Bench),
            Self::Etcd => Some(Peer::Etcd),
            Self::Etcd34 => Some(Peer::Etcd34),
        }
    }
}

/// A test case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `file::function`.
    pub(crate) name: &'static str,
    /// The backends that the case runs over.
    pub(crate) on: &'static [Backend],
    /// The program that the case needs: environment variable and name.
    pub(crate) needs: Option<(&'static str, &'static str)>,
    /// Further flags of the tier.
    pub(crate) flags: &'static [&'static str],
    pub(crate) run: fn(TestCluster) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Lists a file's cases: `cases![one on ALL; two on APART with ["--flag=value"]]`.
macro_rules! cases {
    ($($name:ident on $on:ident $(with $flags:expr)? $(, needs $needs:expr)?);* $(;)?) => {
        pub(crate) fn cases() -> Vec<$crate::harness::Case> {
            vec![$($crate::harness::Case {
                name: concat!(module_path!(), "::", stringify!($name)),
                on: $on,
                needs: { let _needs: Option<(&str, &str)> = None; $(let _needs = Some($needs);)? _needs },
                flags: { let _flags: &'static [&'static str] = &[]; $(let _flags = &$flags;)? _flags },
                run: |cluster| Box::pin($name(cluster)),
            }),*]
        }
    };
}
pub(crate) use cases;

/// Runs every case over each of its backends, filtered by the command line.
pub(crate) fn run_all(cases: &[Case]) -> ExitCode {
    let mut trials = Vec::new();
    for backend in Backend::ALL {
        let run_there = cases.iter().filter(|case| case.on.contains(&backend));
        trials.extend(run_there.map(|case| trial(backend, *case)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Returns the test that runs `case` over `backend`. If a program is missing, the test is ignored;
/// in CI it fails.
fn trial(backend: Backend, case: Case) -> Trial {
    let missing = backend.missing().or_else(|| {
        case.needs
            .and_then(|(variable, name)| test_support::program(variable, name).err())
    });
    let (_, name) = case.name.split_once("::").unwrap_or_default();
    let name = format!("{}::{name}", backend.name());
    test_support::trial(name, missing, move || run(backend, case))
}

fn run(backend: Backend, case: Case) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async move {
        let cluster = TestCluster::start(backend, case.flags).await?;
        match tokio::time::timeout(CASE_LIMIT, (case.run)(cluster)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Failed::from(format!("not finished after {CASE_LIMIT:?}"))),
        }
    })
}

/// A running tier; killed and waited for when dropped.
pub(crate) struct Tier {
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    /// The second URL of a tier that listens on two; otherwise empty.
    pub(crate) other_url: String,
    /// The URL of the etcd API of a store in the same process.
    etcd_url: Option<String>,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Tier {
    async fn start(arguments: &[String]) -> Result<Self, String> {
        let mut child = Command::new(crate::SERVER)
            .args(arguments)
            .arg("--worker-threads=2")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("no standard output")?;
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                told.send(line).ok(); // lines after the last expected one are not received
            }
        });
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let errors = child.stderr.take().ok_or("no standard error")?;
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let mut kept = kept.lock().expect("nobody panics while holding the log");
                if kept.len() < LOG_LINES {
                    kept.push(line);
                }
            }
        });
        let mut tier = Self {
            url: String::new(),
            other_url: String::new(),
            etcd_url: None,
            child,
            log,
        };
        while tier.url.is_empty() {
            let line = lines.recv_timeout(START_LIMIT);
            let line = line.map_err(|_| format!("bench-server {arguments:?} did not start"))?;
            if let Some(url) = line.strip_prefix("ready etcd=") {
                tier.etcd_url = Some(url.to_owned());
            } else if let Some(url) = line.strip_prefix("ready kube=") {
                let (first, second) = url.split_once(',').unwrap_or((url, ""));
                first.clone_into(&mut tier.url);
                second.clone_into(&mut tier.other_url);
            }
        }
        for _ in 0..600 {
            if tier.get("/readyz").await.code == 200 {
                return Ok(tier);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("caches are not filled".to_owned())
    }

    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: impl Into<hyper::body::Bytes>,
    ) -> Reply {
        send(
            &self.url,
            method,
            path,
            &[("content-type", media_type)],
            body,
        )
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        send(&self.url, Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Reply {
        let body = object.to_string();
        self.request(Method::POST, path, "application/json", body)
            .await
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> Reply {
        let body = object.to_string();
        self.request(Method::PUT, path, "application/json", body)
            .await
    }

    /// Sends a merge patch.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Reply {
        let body = patch.to_string();
        self.request(Method::PATCH, path, "application/merge-patch+json", body)
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.request(Method::DELETE, path, "application/json", "")
            .await
    }

    /// Creates a ConfigMap; returns its revision.
    #[track_caller]
    pub(crate) fn config_map(&self, namespace: &str, name: &str) -> impl Future<Output = i64> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let object = json!({"metadata": {"name": name}, "data": {"k": "v"}});
        async move { self.post(&path, &object).await.ok().revision() }
    }

    /// Returns whether a line of the tier's log contains all of `parts`.
    pub(crate) fn logged(&self, parts: &[&str]) -> bool {
        let log = self
            .log
            .lock()
            .expect("nobody panics while holding the log");
        log.iter()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    }

    /// Returns the sum of a metric's samples whose line begins with `name` and has all of `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let body = self.get("/metrics").await.ok().body;
        let text = String::from_utf8_lossy(&body);
        text.lines()
            .filter(|line| line.starts_with(name))
            .filter(|line| labels.iter().all(|label| line.contains(label)))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        // The tier may have exited already; either way it must be reaped.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A tier and its storage.
pub(crate) struct TestCluster {
    pub(crate) backend: Backend,
    pub(crate) tier: Tier,
    flags: Vec<String>,
    etcd: Option<Server>,
}

impl std::ops::Deref for TestCluster {
    type Target = Tier;

    fn deref(&self) -> &Tier {
        &self.tier
    }
}

impl TestCluster {
    pub(crate) async fn start(backend: Backend, flags: &[&str]) -> Result<Self, String> {
        let etcd = match backend.peer() {
            Some(peer) => Some(Server::start(peer, &[])?),
            None => None,
        };
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let tier = Tier::start(&arguments(etcd.as_ref(), "http://127.0.0.1:0", &flags)).await?;
        Ok(Self {
            backend,
            tier,
            flags,
            etcd,
        })
    }

    /// Starts another tier in front of the same etcd, with the same flags.
    pub(crate) async fn another(&self) -> Tier {
        let arguments = arguments(self.etcd.as_ref(), "http://127.0.0.1:0", &self.flags);
        Tier::start(&arguments).await.expect("another tier starts")
    }

    /// Starts another tier, whose connection to etcd can be cut, with these flags beside the
    /// cluster's own.
    pub(crate) async fn behind_a_proxy(&self, flags: &[&str]) -> (Proxy, Tier) {
        let etcd = self.etcd.as_ref().expect("etcd is another process");
        let proxy = Proxy::start(&etcd.url);
        let mut arguments = arguments(self.etcd.as_ref(), "http://127.0.0.1:0", &self.flags);
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        arguments.push(format!("--etcd-servers={}", proxy.url()));
        arguments.retain(|argument| *argument != format!("--etcd-servers={}", etcd.url));
        let tier = Tier::start(&arguments).await;
        (proxy, tier.expect("another tier starts"))
    }

    /// Starts another tier in front of the same etcd, with these flags.
    pub(crate) async fn another_with(&self, flags: &[&str]) -> Tier {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let arguments = arguments(self.etcd.as_ref(), "http://127.0.0.1:0", &flags);
        Tier::start(&arguments).await.expect("another tier starts")
    }

    /// Returns the etcd of the tier.
    pub(crate) fn etcd(&mut self) -> &mut Server {
        self.etcd.as_mut().expect("etcd is another process")
    }

    /// Stops the tier and starts it again on the same port.
    pub(crate) async fn restart(&mut self) {
        self.stop_tier();
        self.start_tier().await;
    }

    pub(crate) fn stop_tier(&mut self) {
        self.tier.child.kill().expect("it runs");
        self.tier.child.wait().expect("it ends");
    }

    /// Starts the stopped tier again on the same port.
    pub(crate) async fn start_tier(&mut self) {
        let arguments = arguments(self.etcd.as_ref(), &self.tier.url, &self.flags);
        self.tier = Tier::start(&arguments)
            .await
            .expect("the tier starts again");
    }

    /// Returns a client of the storage.
    pub(crate) async fn storage(&self) -> KubernetesClient {
        let url = self.etcd.as_ref().map(|etcd| &etcd.url);
        let url = url
            .or(self.tier.etcd_url.as_ref())
            .expect("one of both is there");
        let config = ClientConfig::new(url).expect("a server's URL");
        KubernetesClient::new(Client::connect(config).await.expect("the server answers"))
    }
}

fn arguments(etcd: Option<&Server>, url: &str, flags: &[String]) -> Vec<String> {
    let mut arguments = vec![format!("--listen-kube-urls={url}")];
    match etcd {
        Some(etcd) => arguments.push(format!("--etcd-servers={}", etcd.url)),
        None => arguments.extend([
            "--backend=embedded".to_owned(),
            "--listen-client-urls=http://127.0.0.1:0".to_owned(),
        ]),
    }
    arguments.extend_from_slice(flags);
    arguments
}

/// Returns the program that the case needs.
pub(crate) fn program(variable: &str, name: &str) -> PathBuf {
    test_support::program(variable, name).expect("the case is skipped without it")
}
