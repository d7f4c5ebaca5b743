//! An API that answers what a test says, and notes what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Method, path without query, and how many requests came before; status and body.
pub(crate) type Answer = fn(&str, &str, usize) -> (u16, Value);

/// A running server; dropped, it stops.
pub(crate) struct Scripted {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _stop: oneshot::Sender<()>,
}

impl Scripted {
    /// Starts one on a free port.
    pub(crate) fn start(answer: Answer) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (bound, address) = std::sync::mpsc::channel();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await;
                let listener = listener.expect("a free port");
                let address = listener.local_addr().expect("it is bound");
                bound.send(address).expect("the test waits for it");
                loop {
                    let accepted = tokio::select! {
                        accepted = listener.accept() => accepted,
                        _ = &mut stopped => return,
                    };
                    let (socket, _) = accepted.expect("a connection");
                    let log = Arc::clone(&log);
                    let service = service_fn(move |request| {
                        let response = respond(&request, answer, &log);
                        async move { Ok::<_, Infallible>(response) }
                    });
                    let serving =
                        http1::Builder::new().serve_connection(TokioIo::new(socket), service);
                    // A client that hangs up is no matter.
                    tokio::spawn(async move { serving.await.unwrap_or_default() });
                }
            });
        });
        Self {
            address: address.recv().expect("the server binds"),
            asked,
            _stop: stop,
        }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `METHOD path` of every request so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic holds it").clone()
    }
}

fn respond(
    request: &Request<Incoming>,
    answer: Answer,
    log: &Mutex<Vec<String>>,
) -> Response<Full<Bytes>> {
    let (method, path) = (request.method().as_str(), request.uri().path());
    let before = {
        let mut log = log.lock().expect("no panic holds it");
        log.push(format!("{method} {path}"));
        log.len() - 1
    };
    let (code, body) = answer(method, path, before);
    let response = Response::builder().status(code).header("retry-after", "0");
    let body = Full::new(Bytes::from(body.to_string()));
    response.body(body).expect("a valid response")
}
