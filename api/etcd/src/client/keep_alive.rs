//! Pings on connections that do not go through tonic: a peer that is gone is noticed although it says nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use h2::{Ping, PingPong};

/// How long an answer may take, on every connection: an apiserver's timeout.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Counts the requests of a connection that are in flight.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<AtomicUsize>);

/// One of them, until dropped.
#[derive(Debug)]
pub(super) struct Flight(InFlight);

impl InFlight {
    pub(super) fn begin(&self) -> Flight {
        self.0.fetch_add(1, Ordering::Relaxed);
        Flight(self.clone())
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Pings every `interval` while requests are in flight (etcd closes connections for pings without);
/// returns why the peer is taken for gone.
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
        match tokio::time::timeout(ANSWER_WITHIN, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return "closed under a ping",
            Err(_) => return "no answer to a ping",
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
    const NOTICED_WITHIN: Duration = INTERVAL.saturating_add(ANSWER_WITHIN.saturating_mul(2));

    /// A server that is stopped: the system takes connections for it, and nobody answers.
    async fn frozen() -> (TcpListener, ClientConfig) {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a loopback port is free");
        let address = listener.local_addr().expect("it is bound");
        let mut config = ClientConfig::new(&address.to_string()).expect("an address");
        config.keep_alive = Some(INTERVAL);
        (listener, config)
    }

    /// Such a watch was once waited for as long as the server was stopped.
    #[tokio::test]
    async fn a_watch_of_a_server_that_is_stopped_fails() {
        let (_listener, config) = frozen().await;
        let client = Client::connect(config).await.expect("it is taken");
        tokio::time::pause();
        let mut watches = client.watch();
        let watch = watches.watch(tokio_stream::pending::<WatchRequest>());
        let watch = timeout(NOTICED_WITHIN, watch).await;
        assert!(watch.expect("it is noticed").is_err());
    }

    #[tokio::test]
    async fn a_list_of_a_server_that_is_stopped_fails() {
        let (_listener, config) = frozen().await;
        let connection = RawConnection::connect(&config, None).await;
        let connection = connection.expect("it is taken");
        tokio::time::pause();
        let request = RangeRequest::default();
        let list = connection.open(ListRpc::Range, &request);
        let list = timeout(NOTICED_WITHIN, list).await;
        assert!(list.expect("it is noticed").is_err());
    }
}
