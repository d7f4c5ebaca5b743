//! A gRPC server on a thread of its own.

use std::net::SocketAddr;

use test_support::own_thread::serve_on_own_thread;
use tokio::sync::oneshot;
use tonic::transport::server::{Router, TcpIncoming};

/// A running server, which stops when dropped.
pub(crate) struct GrpcServer {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl GrpcServer {
    /// Starts the services that `services` returns, on a free port. It is called on the server's
    /// thread.
    pub(crate) fn start<F>(services: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Router>,
    {
        let (stop, stopped) = oneshot::channel();
        let address = serve_on_own_thread(async move |listener| {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = services().await.serve_with_incoming(incoming);
            tokio::select! {
                served = server => served.expect("serving"),
                _ = stopped => {}
            }
        });
        Self {
            address,
            _stop: stop,
        }
    }

    /// Returns the server's URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
