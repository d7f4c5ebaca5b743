//! HTTP/2 pings on connections that do not use tonic, to detect a peer that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use h2::{Ping, PingPong};

/// Time allowed for the acknowledgement of a ping; an apiserver uses the same timeout.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of requests in flight on a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<AtomicUsize>);

/// Counts one request as in flight until dropped.
#[derive(Debug)]
pub(super) struct InFlightGuard(InFlight);

impl InFlight {
    pub(super) fn begin(&self) -> InFlightGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(self.clone())
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends a ping every `interval` while requests are in flight (etcd closes connections that send
/// pings without requests). Returns when the peer is considered lost, with the reason.
pub(super) async fn pings(
    mut pings: PingPong,
    interval: Duration,
    requests: InFlight,
) -> &'static str {
    loop {
        tokio::time::sleep(interval).await;
        if requests.0.load(Ordering::Relaxed) == 0 {
            continue;
        }
        match tokio::time::timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return "connection closed while a ping was open",
            Err(_) => return "no reply to a ping",
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;
    use crate::client::Client;
    use crate::client::config::ClientConfig;
    use crate::client::raw_list::{ListRpc, RawConnection};
    use crate::proto::etcdserverpb::{RangeRequest, WatchRequest};

    const INTERVAL: Duration = Duration::from_secs(30);
    const DETECTED_WITHIN: Duration = INTERVAL.saturating_add(PING_TIMEOUT.saturating_mul(2));

    /// Returns a listener that simulates a server that hangs: the kernel accepts connections for
    /// it, and it sends nothing.
    async fn hanging_server() -> (TcpListener, ClientConfig) {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a loopback port is free");
        let address = listener.local_addr().expect("it is bound");
        let mut config = ClientConfig::new(&address.to_string()).expect("an address");
        config.keep_alive = Some(INTERVAL);
        (listener, config)
    }

    #[tokio::test]
    async fn a_watch_of_a_server_that_hangs_fails() {
        let (_listener, config) = hanging_server().await;
        let client = Client::connect(config).await.expect("it is taken");
        tokio::time::pause();
        let mut watches = client.watch();
        let watch = watches.watch(tokio_stream::pending::<WatchRequest>());
        let watch = timeout(DETECTED_WITHIN, watch).await;
        assert!(watch.expect("the ping timed out").is_err());
    }

    #[tokio::test]
    async fn a_list_of_a_server_that_hangs_fails() {
        let (_listener, config) = hanging_server().await;
        let connection = RawConnection::connect(&config, None).await;
        let connection = connection.expect("it is taken");
        tokio::time::pause();
        let request = RangeRequest::default();
        let list = connection.open(ListRpc::Range, &request);
        let list = timeout(DETECTED_WITHIN, list).await;
        assert!(list.expect("the ping timed out").is_err());
    }
}
