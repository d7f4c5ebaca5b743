//! Pings on connections that do not go through tonic: a peer that is gone is noticed although it says nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use h2::{Ping, PingPong};

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

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
