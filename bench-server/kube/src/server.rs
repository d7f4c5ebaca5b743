//! Starting and stopping the Kubernetes tier.

use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use etcd_api::client::config::ClientConfig;
use etcd_api::client::{Client, kubernetes::KubernetesClient};
use etcd_api::kubernetes::KubernetesEtcd;
use listen::flags::{CommonFlags, parse_duration};
use listen::tasks::{TaskEnded, Tasks};
use listen::{
    BoundListener, ClientCertificates, ConnectionClass, LimitCollector, Limits, ListenError,
    MAX_STREAMS, ServerTls, TlsFiles, TlsFlags, Workers, response_bytes,
};
use memory::admission::Admission;
use memory::metrics;

use crate::cache::WatchCache;
use crate::cache::event_history::MAX_CAPACITY as MAX_EVENTS;
pub use crate::feature_gates::FeatureGates;
use crate::http::service::KubeService;
use crate::metrics::Metrics;
use crate::resource::RESOURCES;
use crate::resource_handler::ResourceHandler;
use crate::storage::compaction;
use crate::storage::list_reader::StreamSupport;

/// The interval between keep-alive pings to etcd while a call is open, as in kube-apiserver. A
/// watch is always open. A stopped etcd sends nothing, not even an error, so without pings the
/// caches would go stale unnoticed.
const ETCD_PINGS: Duration = Duration::from_secs(30);

/// Flags of the Kubernetes tier.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kubernetes tier")]
pub struct KubeFlags {
    /// URLs (http:// or https://) on which the Kubernetes API is served, comma separated. Port 0
    /// picks a free port.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub listen_kube_urls: Vec<String>,

    /// Streams that a client may have open on one connection; more are refused. The default of
    /// kube-apiserver is 100.
    #[arg(long, default_value_t = MAX_STREAMS, value_name = "NUMBER")]
    pub http2_max_streams_per_connection: u32,

    /// The storage of the objects: the cluster of --etcd-servers, or the store of the etcd tier in
    /// this same process (a target of its own, not to be ranked against two processes).
    #[arg(long, value_enum, default_value_t = Backend::Etcd)]
    pub backend: Backend,

    /// URLs of the etcd cluster that holds the objects, comma separated.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "URL",
        requires = "listen_kube_urls"
    )]
    pub etcd_servers: Vec<String>,

    /// Server certificate (PEM) for https:// listen URLs. This file and those of
    /// --tls-private-key-file and --client-ca-file are read again for each connection. Changed
    /// files are used once they match each other.
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<std::path::PathBuf>,

    /// Private key (PEM) of the server certificate.
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<std::path::PathBuf>,

    /// CA of client certificates (PEM). Clients are asked for a certificate but need none; a
    /// certificate of another CA is refused in the handshake.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<std::path::PathBuf>,

    /// Prefix of all keys in storage.
    #[arg(long, default_value = "/registry", value_name = "PREFIX")]
    pub etcd_prefix: String,

    /// CA of the etcd servers (PEM).
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<std::path::PathBuf>,

    /// Client certificate (PEM) that is presented to the etcd servers.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<std::path::PathBuf>,

    /// Private key (PEM) of the client certificate.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<std::path::PathBuf>,

    /// Interval at which storage is compacted to its revision of one interval ago. Of the servers
    /// that share a storage, one compacts at each interval. 0 means never (default: 5m with
    /// --backend embedded; never in front of --etcd-servers, whose history belongs to others).
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub etcd_compaction_interval: Option<Duration>,

    /// Serve lists from a watch cache. If false, every list is read from etcd.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    pub watch_cache: bool,

    /// Maximum number of events that the watch cache keeps of a resource, from which watches
    /// resume. It keeps the events of the last 75 seconds if they are fewer. A watch from an
    /// earlier revision gets 410. kube-apiserver has no such flag.
    #[arg(
        long,
        default_value_t = MAX_EVENTS as u32,
        value_parser = clap::value_parser!(u32).range(100..=MAX_EVENTS as i64),
        value_name = "EVENTS"
    )]
    pub watch_cache_max_events: u32,

    /// Mechanisms to switch off: EtcdRangeStream (whole lists from etcd by RangeStream),
    /// ConsistentListFromCache, ListFromCacheSnapshot (exact and continued lists), WatchList
    /// (sendInitialEvents), WatchListCompression, DetectCacheInconsistency, ShardedListAndWatch
    /// (shardSelector), and two that are not gates of kube-apiserver: CacheIndex (selectors by
    /// index) and ShardIndex (shards by index; if off, every object is hashed). All are on by
    /// default.
    #[arg(long, default_value = "", value_name = "GATE=BOOL,…")]
    pub feature_gates: FeatureGates,
}

impl KubeFlags {
    /// Returns the files for https:// listen URLs.
    pub fn tls_files(&self) -> TlsFiles {
        TlsFiles {
            cert: self.tls_cert_file.clone(),
            key: self.tls_private_key_file.clone(),
            client_ca: self.client_ca_file.clone(),
            clients: match self.client_ca_file {
                Some(_) => ClientCertificates::Requested,
                None => ClientCertificates::Ignored,
            },
            flags: TlsFlags {
                cert: "--tls-cert-file",
                key: "--tls-private-key-file",
                client_ca: "--client-ca-file",
            },
        }
    }

    /// Returns the interval at which storage is compacted; `None` means never.
    fn compaction_interval(&self) -> Option<Duration> {
        let interval = match (self.etcd_compaction_interval, self.backend) {
            (Some(interval), _) => interval,
            (None, Backend::Embedded) => compaction::DEFAULT_INTERVAL,
            (None, Backend::Etcd) => Duration::ZERO,
        };
        (!interval.is_zero()).then_some(interval)
    }
}

/// The storage of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// An etcd cluster, over gRPC.
    Etcd,
    /// The store of this process.
    Embedded,
}

/// The reason why the tier did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The tier cannot listen on an address or URL.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The connection to etcd cannot be established.
    #[error("--etcd-servers: {0}")]
    Etcd(#[from] etcd_api::error::Error),
    /// The system refused to start a thread.
    #[error("cannot start worker threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// A running Kubernetes tier. Dropping it closes the listeners, the caches and every connection.
#[derive(Debug)]
pub struct KubeTier {
    /// URLs with their real ports.
    pub urls: Vec<String>,
    /// The service that handles the requests to these URLs.
    pub service: KubeService,
    /// The tasks that accept connections, keep the caches current, and compact storage.
    tasks: Tasks,
}

impl KubeTier {
    /// Connects to etcd, binds every URL, and serves. The caches are filled in the background.
    ///
    /// # Errors
    /// [`StartError`]. Nothing is left running.
    pub async fn start(flags: &KubeFlags, common: &CommonFlags) -> Result<Self, StartError> {
        let mut config = ClientConfig::new(&flags.etcd_servers.join(","))?;
        config.tls.ca.clone_from(&flags.etcd_cafile);
        config.tls.cert.clone_from(&flags.etcd_certfile);
        config.tls.key.clone_from(&flags.etcd_keyfile);
        config.keep_alive = Some(ETCD_PINGS);
        let backend = Arc::new(KubernetesClient::new(Client::connect(config).await?));
        Self::start_over(backend, flags, common).await
    }

    /// Serves as [`Self::start`] does, from a backend that is already connected.
    ///
    /// # Errors
    /// [`StartError`]. Nothing is left running.
    pub async fn start_over(
        backend: Arc<dyn KubernetesEtcd>,
        flags: &KubeFlags,
        common: &CommonFlags,
    ) -> Result<Self, StartError> {
        let tls = Arc::new(ServerTls::new(flags.tls_files()));
        let mut bound = Vec::new();
        for url in &flags.listen_kube_urls {
            bound.push(BoundListener::bind(url, &tls).await?);
        }
        let mut registry = metrics::registry();
        registry.register_collector(Box::new(LimitCollector));
        let admission = Admission::new(response_bytes(common));
        registry.register_collector(admission.collector());
        tls.register(&mut registry);
        let metrics = Metrics::new(&mut registry);
        let gates = flags.feature_gates;
        let streams = Arc::new(StreamSupport::new(gates.etcd_range_stream));
        let mut tasks = Tasks::default();
        let handlers = RESOURCES
            .iter()
            .map(|resource| {
                let prefix = resource.prefix(&flags.etcd_prefix);
                let most_events = flags.watch_cache_max_events as usize;
                let cache = flags.watch_cache.then(|| {
                    WatchCache::new(
                        resource,
                        prefix.clone(),
                        gates,
                        most_events,
                        metrics.clone(),
                    )
                });
                if let Some(cache) = &cache {
                    let running = cache.clone().run(backend.clone(), streams.clone());
                    tasks.spawn(format!("the watch cache of {}", resource.name), running);
                }
                ResourceHandler {
                    resource,
                    prefix,
                    cache,
                    gates,
                    backend: backend.clone(),
                    streams: streams.clone(),
                    metrics: metrics.clone(),
                    admission: admission.clone(),
                }
            })
            .collect();
        if let Some(interval) = flags.compaction_interval() {
            tasks.spawn("compaction", compaction::run(backend.clone(), interval));
        }
        let service = KubeService::new(handlers, registry, common.enable_debug_endpoints);
        let urls = bound.iter().map(|bound| bound.url.clone()).collect();
        let limits = Limits::new(flags.http2_max_streams_per_connection, common);
        let workers = Workers::start(common.worker_threads, common.gather_writes, limits)?;
        let workers = Arc::new(workers);
        for listener in bound {
            let name = format!("the listener on {}", listener.url);
            let accepting =
                listener.accept(workers.clone(), service.clone(), ConnectionClass::Clients);
            tasks.spawn(name, accepting);
        }
        Ok(Self {
            urls,
            service,
            tasks,
        })
    }

    /// Waits until a task that the tier depends on has ended, and returns which. Pending while all
    /// of them run.
    pub async fn ended(&mut self) -> TaskEnded {
        self.tasks.ended().await
    }
}
