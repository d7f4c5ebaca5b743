//! Starts and stops the etcd tier.

use std::sync::Arc;

use etcd_api::proto::etcdserverpb::auth_server::AuthServer;
use etcd_api::proto::etcdserverpb::cluster_server::ClusterServer;
use etcd_api::proto::etcdserverpb::lease_server::LeaseServer;
use etcd_api::proto::etcdserverpb::maintenance_server::MaintenanceServer;
use etcd_api::proto::health::health_server::HealthServer;
use listen::flags::CommonFlags;
use listen::tasks::{TaskEnded, Tasks};
use listen::{
    BoundListener, ConnectionClass, LimitCollector, Limits, ListenError, ServerTls, Workers,
};
use memory::metrics;
use store::LogError;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;

use super::auth::AuthService;
use super::cluster::ClusterService;
use super::flags::EtcdFlags;
use super::health_grpc::HealthService;
use super::lease::LeaseService;
use super::maintenance::MaintenanceService;
use super::service::EtcdService;
use super::{Node, background};

/// The error of starting the tier.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An invalid address, URL or certificate.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// An invalid value of a flag.
    #[error("{flag}: {reason}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// The reason.
        reason: String,
    },
    /// The log in the data directory cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The system could not create a thread.
    #[error("cannot start worker threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// A running etcd tier. Dropping it stops accepting and closes every connection.
#[derive(Debug)]
pub struct EtcdTier {
    /// Client URLs with their actual ports.
    pub urls: Vec<String>,
    /// The node that the listeners serve.
    pub node: Arc<Node>,
    /// Accept loops, lease expiry and compaction.
    tasks: Tasks,
}

impl EtcdTier {
    /// Binds every URL, then serves.
    ///
    /// # Errors
    /// [`StartError`]; nothing keeps running.
    pub async fn start(flags: &EtcdFlags, common: &CommonFlags) -> Result<Self, StartError> {
        if let Some(names) = flags.without_effect.names() {
            tracing::info!("flags of etcd that have no effect here: {names}");
        }
        let tls = Arc::new(ServerTls::new(flags.tls_files()));
        let retention = background::retention(flags).map_err(|reason| StartError::Flag {
            flag: "--auto-compaction-retention",
            reason,
        })?;
        let bound = bind_all(&flags.listen_client_urls, &tls).await?;
        let metrics_bound = bind_all(&flags.listen_metrics_urls, &tls).await?;
        let urls: Vec<String> = bound.iter().map(|b| b.url.clone()).collect();
        let advertised = if flags.advertise_client_urls.is_empty() {
            urls.clone()
        } else {
            flags.advertise_client_urls.clone()
        };
        let config = store::Config {
            quota_backend_bytes: flags.quota_backend_bytes,
            max_txn_ops: flags.max_txn_ops,
            ..store::Config::default()
        };
        let store = flags.data.open(config).await?;
        let node = Arc::new(Node::new(store, flags, common, advertised));
        let mut registry = metrics::registry();
        registry.register_collector(Box::new(LimitCollector));
        tls.register(&mut registry);
        let mut service = EtcdService::new(node.clone(), routes(&node), registry);
        if common.enable_debug_endpoints {
            service = service.with_debug_endpoints();
        }
        let limits = Limits::new(flags.max_concurrent_streams, common);
        let workers = Workers::start(common.worker_threads, common.gather_writes, limits)?;
        let workers = Arc::new(workers);
        let mut tasks = Tasks::default();
        let expiry = background::expire_leases(node.store.clone());
        tasks.spawn("the expiry of leases", expiry);
        if let Some(retention) = retention {
            let compaction = background::compact(node.clone(), retention);
            tasks.spawn("automatic compaction", compaction);
        }
        for listener in bound {
            let name = format!("the listener on {}", listener.url);
            let accepting =
                listener.accept(workers.clone(), service.clone(), ConnectionClass::Clients);
            tasks.spawn(name, accepting);
        }
        for listener in metrics_bound {
            let name = format!("the listener on {}", listener.url);
            let accepting = listener.accept(
                workers.clone(),
                service.without_grpc(),
                ConnectionClass::Metrics,
            );
            tasks.spawn(name, accepting);
        }
        Ok(Self { urls, node, tasks })
    }

    /// Waits until a task of the tier ends, which does not happen in normal operation.
    pub async fn ended(&mut self) -> TaskEnded {
        tokio::select! {
            ended = self.tasks.ended() => ended,
            reason = self.node.store.log_failed() => TaskEnded::failed("the log", &reason),
        }
    }

    /// Closes the log: every acknowledged write is as durable as `--fsync` provides. Writes that
    /// are already accepted are published; later ones are refused.
    pub async fn close(&self) {
        let store = self.node.store.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || store.close_log()).await {
            tracing::error!("the log was not closed: {error}");
        }
    }
}

async fn bind_all(
    urls: &[String],
    tls: &Arc<ServerTls>,
) -> Result<Vec<BoundListener>, ListenError> {
    let mut bound = Vec::with_capacity(urls.len());
    for url in urls {
        bound.push(BoundListener::bind(url, tls).await?);
    }
    Ok(bound)
}

/// Returns the routes of every service except KV and Watch.
fn routes(node: &Arc<Node>) -> Routes {
    let most = node.max_message_bytes();
    macro_rules! limited {
        ($server:ident, $service:expr) => {
            $server::new($service)
                .max_decoding_message_size(most)
                .accept_compressed(CompressionEncoding::Gzip)
        };
    }
    Routes::default()
        .add_service(limited!(LeaseServer, LeaseService(node.clone())))
        .add_service(limited!(
            MaintenanceServer,
            MaintenanceService(node.clone())
        ))
        .add_service(limited!(ClusterServer, ClusterService(node.clone())))
        .add_service(limited!(AuthServer, AuthService(node.clone())))
        .add_service(limited!(HealthServer, HealthService))
}
