//! An HTTP/1.1 server on its own thread, with responses defined by a test.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;

use crate::own_thread::serve_on_own_thread;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

/// A running server, which stops when dropped.
#[derive(Debug)]
pub struct Http1Server {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Http1Server {
    /// Starts a server on a free port, which calls `respond` for every request.
    ///
    /// # Panics
    /// If the thread cannot be started.
    #[must_use]
    pub fn start<F, R, B>(respond: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
        R: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let (stop, mut stopped) = oneshot::channel();
        let address = serve_on_own_thread(move |listener| async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = &mut stopped => return,
                };
                let (socket, _) = accepted.expect("a connection");
                // Otherwise, a response waits for the acknowledgement of its head.
                socket.set_nodelay(true).expect("a socket's option");
                let respond = respond.clone();
                let service = service_fn(move |request| {
                    let response = respond(request);
                    async move { Ok::<_, Infallible>(response.await) }
                });
                let serving = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
                // A client may close the connection at any time.
                tokio::spawn(async move { serving.await.unwrap_or_default() });
            }
        });
        Self {
            address,
            _stop: stop,
        }
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
