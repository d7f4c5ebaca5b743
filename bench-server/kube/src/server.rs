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
use crate::cache::event_history::MOST as MOST_EVENTS;
pub use crate::feature_gates::FeatureGates;
use crate::http::service::KubeService;
use crate::metrics::Metrics;
use crate::resource::RESOURCES;
use crate::resource_handler::ResourceHandler;
use crate::storage::compaction;
use crate::storage::list_reader::StreamSupport;

/// Time between pings to etcd while a call is open, which a watch always is: an apiserver's. A
/// stopped etcd sends nothing, not even an error, and without pings caches would go stale
/// unnoticed.
const ETCD_PINGS: Duration = Duration::from_secs(30);

/// Flags of the Kubernetes tier.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kubernetes tier")]
pub struct KubeFlags {
    /// Where the Kubernetes API is served: http:// or https:// URLs, comma separated; port 0 picks
    /// one.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub listen_kube_urls: Vec<String>,

    /// Streams that a client may have open on one connection; more are refused. An apiserver's
    /// default is 100.
    #[arg(long, default_value_t = MAX_STREAMS, value_name = "NUMBER")]
    pub http2_max_streams_per_connection: u32,

    /// What holds the objects: the cluster of --etcd-servers, or the store of the etcd tier in this
    /// same process (a target of its own, not to be ranked against two processes).
    #[arg(long, value_enum, default_value_t = Backend::Etcd)]
    pub backend: Backend,

    /// The etcd cluster that holds the objects.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "URL",
        requires = "listen_kube_urls"
    )]
    pub etcd_servers: Vec<String>,

    /// Server certificate (PEM) for https:// listen URLs. This file and the next two are read again
    /// for each connection, and used once they have changed and fit together.
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<std::path::PathBuf>,

    /// Its private key (PEM).
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<std::path::PathBuf>,

    /// CA of client certificates (PEM). Clients are asked for a certificate and may have none; one
    /// of another CA is refused in the handshake.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<std::path::PathBuf>,

    /// What all storage keys begin with.
    #[arg(long, default_value = "/registry", value_name = "PREFIX")]
    pub etcd_prefix: String,

    /// CA of the etcd servers (PEM).
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<std::path::PathBuf>,

    /// Certificate shown to the etcd servers (PEM).
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<std::path::PathBuf>,

    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<std::path::PathBuf>,

    /// How often storage is compacted to what it held one interval ago, taking turns with other
    /// servers that share this storage; 0 means never (default: 5m with --backend embedded; never
    /// in front of --etcd-servers, whose history belongs to others).
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub etcd_compaction_interval: Option<Duration>,

    /// Serve lists from a watch cache; without, every list goes to etcd.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    pub watch_cache: bool,

    /// Events of a resource that the watch cache keeps at most, for watches to go on from. It keeps
    /// those of the last 75 seconds where they are fewer; a watch from before gets 410. No flag of
    /// kube-apiserver.
    #[arg(
        long,
        default_value_t = MOST_EVENTS as u32,
        value_parser = clap::value_parser!(u32).range(100..=MOST_EVENTS as i64),
        value_name = "EVENTS"
    )]
    pub watch_cache_max_events: u32,

    /// Mechanisms to switch off: EtcdRangeStream (whole lists from etcd by RangeStream),
    /// ConsistentListFromCache, ListFromCacheSnapshot (exact and continued lists), WatchList
    /// (sendInitialEvents), WatchListCompression, DetectCacheInconsistency, ShardedListAndWatch
    /// (shardSelector), and two that are no gates of upstream's: CacheIndex (selectors by index)
    /// and ShardIndex (shards by index; without, every object is hashed). All are on.
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

    /// Returns how often storage is compacted; `None` is never.
    fn compaction_interval(&self) -> Option<Duration> {
        let interval = match (self.etcd_compaction_interval, self.backend) {
            (Some(interval), _) => interval,
            (None, Backend::Embedded) => compaction::DEFAULT_INTERVAL,
            (None, Backend::Etcd) => Duration::ZERO,
        };
        (!interval.is_zero()).then_some(interval)
    }
}

/// What holds the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// An etcd cluster, over gRPC.
    Etcd,
    /// The store of this process.
    Embedded,
}

/// Why the tier did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address or a URL cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no connection to etcd.
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
    /// The service behind them.
    pub service: KubeService,
    /// Accept loops, caches, compaction.
    tasks: Tasks,
}

impl KubeTier {
    /// Binds every URL, connects to etcd, then serves; the caches fill meanwhile.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub async fn start(flags: &KubeFlags, common: &CommonFlags) -> Result<Self, StartError> {
        let mut config = ClientConfig::new(&flags.etcd_servers.join(","))?;
        config.tls.ca.clone_from(&flags.etcd_cafile);
        config.tls.cert.clone_from(&flags.etcd_certfile);
        config.tls.key.clone_from(&flags.etcd_keyfile);
        config.keep_alive = Some(ETCD_PINGS);
        let backend = Arc::new(KubernetesClient::new(Client::connect(config).await?));
        Self::start_over(backend, flags, common).await
    }

    /// Serves as [`Self::start`] does, over a backend that is connected already.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
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

    /// Waits until a task has ended that the tier cannot do without, and returns which. Pending as
    /// long as the tier is well.
    pub async fn ended(&mut self) -> TaskEnded {
        self.tasks.ended().await
    }
}
