//! Fresh servers for a row, ready to be seeded: ours, an etcd binary, or connections to what is there.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{StatusRequest, StatusResponse};
use futures::future::select_all;
use http::Method;
use kube_api::envelope::MEDIA_TYPE;
use tempfile::TempDir;
use tokio::process::Command;
use workloads::strategy::Strategy;

use super::child::{ChildError, ChildServer, Death};
use super::kube::config::Context;
use super::kube::{Connection, KubeAccess, KubeError, Options};
use super::silence::{ANSWERS_WITHIN, in_time};
use super::{TargetSpec, guard};
use crate::result::ServerSetup;
use crate::sample::MetricsClient;

/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long the HTTP tier may take to fill its cache on top of that.
const CACHE_WITHIN: Duration = Duration::from_secs(120);
/// Pause between looks at whether it is.
const READY_STEP: Duration = Duration::from_millis(20);
/// Quota of databases that we start: far beyond what a row loads, so that it never decides.
const QUOTA_BYTES: u64 = 64 << 30;

/// Why a row has no server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process could not be started or did not get ready.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The endpoint could not be reached or refused.
    #[error(transparent)]
    Endpoint(#[from] EtcdError),
    /// The HTTP tier answers, but its cache does not get ready.
    #[error(
        "the cache behind {url} is not filled after {} s: {reason}; its last lines: {log}",
        CACHE_WITHIN.as_secs()
    )]
    Cache {
        /// Where it listens.
        url: String,
        /// What `/readyz` answered last.
        reason: String,
        /// The last lines of its log.
        log: String,
    },
    /// The Kubernetes API could not be reached.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// No port or folder could be had.
    #[error("cannot prepare a server: {0}")]
    Io(#[from] std::io::Error),
}

/// Starts what a target names.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program that has a `serve` command: our own.
    pub own_program: PathBuf,
    /// Connection settings for endpoints that are there; the endpoints in it do not count.
    pub connect: ClientConfig,
    /// What Kubernetes APIs that are there let clients in by.
    pub kube_access: KubeAccess,
}

/// Servers that are up, or an endpoint that is there.
#[derive(Debug)]
pub struct Running {
    /// How to reach the etcd tier; `None` for a Kubernetes API that is there.
    pub etcd: Option<ClientConfig>,
    /// URL of the Kubernetes API, once there is one.
    pub kube_url: Option<String>,
    /// What the Kubernetes API lets clients in by.
    pub kube_access: KubeAccess,
    /// How it was set up, for the result.
    pub setup: ServerSetup,
    /// How unary answers are encoded.
    pub unary_encoding: &'static str,
    processes: Vec<ChildServer>,
    /// Where an etcd keeps its data; removed with this.
    folder: Option<TempDir>,
    own_program: PathBuf,
}

impl Launcher {
    /// Starts or connects what `target` names, for a row of this strategy. The Kubernetes tier of our own servers comes
    /// later, by [`Running::start_kube`]: its cache is filled from what was seeded.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(
        &self,
        target: &TargetSpec,
        strategy: Strategy,
    ) -> Result<Running, StartError> {
        match target {
            TargetSpec::Bench => self.start_bench(strategy).await,
            TargetSpec::EtcdBinary { path, fsync, .. } => self.start_etcd(path, *fsync).await,
            TargetSpec::Etcd(endpoints) => self.connect(endpoints).await,
            TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) => {
                let (url, kube_access) = self.kube_of(target)?;
                let version = kube_version(&url, &kube_access);
                let version = tokio::time::timeout(ANSWERS_WITHIN, version).await;
                let version = version.ok().flatten().map(|version| format!(" {version}"));
                Ok(Running {
                    etcd: None,
                    kube_url: Some(url.trim_end_matches('/').to_owned()),
                    kube_access,
                    setup: ServerSetup {
                        program: format!("Kubernetes API{}", version.unwrap_or_default()),
                        ..ServerSetup::default()
                    },
                    unary_encoding: "unknown",
                    processes: Vec::new(),
                    folder: None,
                    own_program: self.own_program.clone(),
                })
            }
        }
    }

    /// Where a Kubernetes API that is there is, and what it lets us in by.
    ///
    /// # Errors
    /// [`KubeError`] when the file that kubectl reads has no such context, or cannot be read.
    pub fn kube_of(&self, target: &TargetSpec) -> Result<(String, KubeAccess), KubeError> {
        match target {
            TargetSpec::Kubeconfig(name) => {
                let context = Context::named(name)?;
                Ok((context.server, context.credentials.access()?))
            }
            TargetSpec::Kube(url) => Ok((url.clone(), self.kube_access.clone())),
            other => Err(KubeError::Url {
                url: other.to_string(),
                reason: "is no Kubernetes API",
            }),
        }
    }

    /// Connects to an endpoint that is there, once; asks a Kubernetes API for one object of `resource`, which it may not want
    /// to tell.
    ///
    /// # Errors
    /// [`StartError`] when it cannot be reached, or refuses.
    pub async fn reach(&self, target: &TargetSpec, resource: &str) -> Result<(), StartError> {
        if let TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) = target {
            let (url, access) = self.kube_of(target)?;
            let mut connection = Connection::new(&url, access, Options::default())?;
            let path = format!("/api/v1/{resource}?limit=1");
            connection.get(&path, MEDIA_TYPE).await?.drain().await?;
        } else if let TargetSpec::Etcd(endpoints) = target {
            self.connect(endpoints).await?;
        }
        Ok(())
    }

    async fn start_bench(&self, strategy: Strategy) -> Result<Running, StartError> {
        let encoding = match strategy {
            Strategy::Unary => "buffered",
            _ => "incremental",
        };
        let quota = QUOTA_BYTES.to_string();
        let args = words(&[
            "serve",
            "--listen-client-urls",
            "http://127.0.0.1:0",
            "--range-encoding",
            encoding,
            "--quota-backend-bytes",
            &quota,
            "--log-level",
            "warn",
        ]);
        let mut child = guarded("etcd", &self.own_program, &self.own_program, &args)?;
        let url = child.ready_line("ready etcd=", READY_WITHIN).await?;
        let config = ClientConfig::new(&url)?;
        let version = in_time(status(&config)).await?.version;
        Ok(Running {
            etcd: Some(config),
            kube_url: None,
            kube_access: KubeAccess::default(),
            setup: ServerSetup {
                program: format!(
                    "bench-server {} (as etcd {version})",
                    env!("CARGO_PKG_VERSION")
                ),
                flags: shown(&args),
                allocator: Some("jemalloc".to_owned()),
                fsync: None,
                quota_bytes: Some(QUOTA_BYTES),
                ..ServerSetup::default()
            },
            unary_encoding: encoding,
            processes: vec![child],
            folder: None,
            own_program: self.own_program.clone(),
        })
    }

    async fn start_etcd(&self, path: &Path, fsync: bool) -> Result<Running, StartError> {
        let help = Command::new(path).arg("--help").output().await;
        let help = help.map_err(|source| ChildError::Spawn {
            program: path.to_owned(),
            source,
        })?;
        let knows = |flag: &str| {
            [&help.stdout, &help.stderr]
                .iter()
                .any(|text| String::from_utf8_lossy(text).contains(flag))
        };
        let no_fsync = !fsync && knows("--unsafe-no-fsync");
        let folder = tempfile::Builder::new()
            .prefix(&folder_prefix())
            .tempdir()?;
        let (client_url, peer_url) = (free_url()?, free_url()?);
        let quota = QUOTA_BYTES.to_string();
        let cluster = format!("default={peer_url}");
        let mut args = words(&["--data-dir"]);
        args.push(folder.path().as_os_str().to_owned());
        args.extend(words(&[
            "--listen-client-urls",
            &client_url,
            "--advertise-client-urls",
            &client_url,
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
            "--initial-cluster",
            &cluster,
            "--quota-backend-bytes",
            &quota,
            "--log-level",
            "warn",
        ]));
        if no_fsync {
            args.push("--unsafe-no-fsync".into());
        }
        let mut child = guarded("etcd", &self.own_program, path, &args)?;
        let config = ClientConfig::new(&client_url)?;
        let version = until_answering(&config, &mut child).await?;
        Ok(Running {
            etcd: Some(config),
            kube_url: None,
            kube_access: KubeAccess::default(),
            setup: ServerSetup {
                program: format!("etcd {version}"),
                flags: shown(&args),
                allocator: Some("go".to_owned()),
                fsync: Some(!no_fsync),
                quota_bytes: Some(QUOTA_BYTES),
                ..ServerSetup::default()
            },
            unary_encoding: "buffered",
            processes: vec![child],
            folder: Some(folder),
            own_program: self.own_program.clone(),
        })
    }

    async fn connect(&self, endpoints: &str) -> Result<Running, StartError> {
        let config = ClientConfig {
            endpoints: ClientConfig::new(endpoints)?.endpoints,
            ..self.connect.clone()
        };
        let status = in_time(status(&config)).await?;
        Ok(Running {
            etcd: Some(config),
            kube_url: None,
            // What its metrics page is read with; a token is for Kubernetes APIs alone.
            kube_access: KubeAccess {
                authorization: None,
                ..self.kube_access.clone()
            },
            setup: ServerSetup {
                program: format!("etcd {}", status.version),
                quota_bytes: u64::try_from(status.db_size_quota).ok().filter(|&q| q > 0),
                ..ServerSetup::default()
            },
            unary_encoding: "unknown",
            processes: Vec::new(),
            folder: None,
            own_program: self.own_program.clone(),
        })
    }
}

impl Running {
    /// Starts our HTTP tier in front of the etcd tier, with these flags of a row's own; returns once its cache holds what
    /// was seeded.
    ///
    /// # Errors
    /// [`StartError::Child`].
    pub async fn start_kube(&mut self, flags: &[String]) -> Result<(), StartError> {
        if self.kube_url.is_some() {
            return Ok(());
        }
        let endpoints = self.etcd.iter().flat_map(|config| &config.endpoints);
        let endpoints: Vec<_> = endpoints
            .map(|uri| uri.to_string().trim_end_matches('/').to_owned())
            .collect();
        let mut args = words(&[
            "serve",
            "--listen-kube-urls",
            "http://127.0.0.1:0",
            "--etcd-servers",
            &endpoints.join(","),
            "--log-level",
            "warn",
        ]);
        args.extend(flags.iter().map(OsString::from));
        let mut child = guarded("kube", &self.own_program, &self.own_program, &args)?;
        let url = child.ready_line("ready kube=", READY_WITHIN).await?;
        let url = url.trim_end_matches('/').to_owned();
        cache_filled(&url, &mut child).await?;
        self.kube_url = Some(url);
        self.setup.flags.push("+".to_owned());
        self.setup.flags.extend(shown(&args));
        self.processes.push(child);
        Ok(())
    }

    /// The processes that we started, etcd tier first.
    #[must_use]
    pub fn processes(&self) -> &[ChildServer] {
        &self.processes
    }

    /// Where a process serves its metrics: the URL of its tier.
    #[must_use]
    pub fn metrics_url(&self, process: &str) -> Option<String> {
        match process {
            "kube" => self.kube_url.clone(),
            _ => self
                .etcd
                .as_ref()?
                .endpoints
                .first()
                .map(ToString::to_string),
        }
    }

    /// Where an etcd that we started keeps its data.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(TempDir::path)
    }

    /// The first process found dead.
    pub async fn death(&mut self) -> Option<Death> {
        for process in &mut self.processes {
            if let Some(death) = process.died().await {
                return Some(death);
            }
        }
        None
    }

    /// The process that is dead, or dies within this time: a connection breaks a moment before its server has ended.
    pub async fn death_within(&mut self, within: Duration) -> Option<Death> {
        if self.processes.is_empty() {
            return None;
        }
        let deaths = self.processes.iter_mut();
        let first = select_all(deaths.map(|process| Box::pin(process.death_comes())));
        tokio::time::timeout(within, first)
            .await
            .ok()
            .map(|(death, ..)| death)
    }

    /// Kills what was started, the HTTP tier first, and waits until it is gone.
    pub async fn stop(mut self) {
        while let Some(process) = self.processes.pop() {
            process.stop().await;
        }
    }
}

/// Data folders of servers of this process that are there: what it leaves when it ends without dropping its [`Running`].
#[must_use]
pub fn folders_left() -> Vec<PathBuf> {
    let prefix = folder_prefix();
    let entries = std::fs::read_dir(std::env::temp_dir());
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

/// How the names of our servers' data folders begin.
fn folder_prefix() -> String {
    format!("loadgen-etcd-{}-", std::process::id())
}

/// Starts a server that dies with us.
fn guarded(
    name: &str,
    own_program: &Path,
    program: &Path,
    args: &[OsString],
) -> Result<ChildServer, ChildError> {
    ChildServer::spawn(name, own_program, &guard::arguments(program, args))
}

async fn status(config: &ClientConfig) -> Result<StatusResponse, EtcdError> {
    let client = Client::connect(config.clone()).await?;
    let status = client.maintenance().status(StatusRequest {}).await?;
    Ok(status.into_inner())
}

/// What a Kubernetes API says that it is; `None` when it does not.
async fn kube_version(url: &str, access: &KubeAccess) -> Option<String> {
    let mut connection = Connection::new(url, access.clone(), Options::default()).ok()?;
    let mut body = connection.get("/version", "application/json").await.ok()?;
    let mut text = Vec::new();
    while let Some(part) = body.next().await.ok()? {
        text.extend_from_slice(&part);
    }
    let version: serde_json::Value = serde_json::from_slice(&text).ok()?;
    version["gitVersion"].as_str().map(str::to_owned)
}

/// Asks until the server answers: etcd prints no line that all its versions share.
async fn until_answering(
    config: &ClientConfig,
    child: &mut ChildServer,
) -> Result<String, StartError> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        // One that takes the connection and then says nothing is late, too.
        let left = deadline.saturating_duration_since(Instant::now());
        if let Ok(Ok(status)) = tokio::time::timeout(left, status(config)).await {
            return Ok(status.version);
        }
        if let Some(death) = child.died().await {
            return Err(ChildError::Died(death).into());
        }
        if Instant::now() > deadline {
            return Err(child.slow(READY_WITHIN).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A loopback URL whose port was free a moment ago; etcd does not say which one it got for port 0.
fn free_url() -> std::io::Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    Ok(format!(
        "http://127.0.0.1:{}",
        listener.local_addr()?.port()
    ))
}

fn words(args: &[&str]) -> Vec<OsString> {
    args.iter().map(OsString::from).collect()
}

fn shown(args: &[OsString]) -> Vec<String> {
    args.iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}

/// Waits until an HTTP tier says that its cache is filled, or is dead.
async fn cache_filled(url: &str, child: &mut ChildServer) -> Result<(), StartError> {
    let begun = Instant::now();
    let not_filled = |reason: String, child: &ChildServer| StartError::Cache {
        url: url.to_owned(),
        reason,
        log: child.last_lines(),
    };
    let mut client = MetricsClient::new(url).map_err(|e| not_filled(e.to_string(), child))?;
    loop {
        let Err(error) = client.text(Method::GET, "/readyz").await else {
            return Ok(());
        };
        if let Some(death) = child.died().await {
            return Err(ChildError::Died(death).into());
        }
        if begun.elapsed() > CACHE_WITHIN {
            return Err(not_filled(error.to_string(), child));
        }
        tokio::time::sleep(READY_STEP).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_folder_that_stays_is_found_by_its_name() {
        let folder = tempfile::Builder::new().prefix(&folder_prefix()).tempdir();
        let folder = folder.expect("a temporary folder");
        assert!(folders_left().contains(&folder.path().to_owned()));
    }

    #[tokio::test]
    async fn a_tier_that_dies_while_its_cache_fills_is_told_with_its_last_words() {
        let args = words(&["-c", "echo no room for the cache >&2; exit 3"]);
        let mut child = ChildServer::spawn("kube", Path::new("/bin/sh"), &args).expect("a shell");
        let nobody = free_url().expect("a free port");
        let error = cache_filled(&nobody, &mut child).await;
        let error = error.expect_err("it never gets ready");
        assert!(
            matches!(&error, StartError::Child(ChildError::Died(_))),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("exit status: 3") && text.contains("no room for the cache"),
            "{text}"
        );
    }
}
