//! An API with scripted responses, which records its requests.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::Value;

use crate::http1_server::Http1Server;

/// Returns status and body for a method, a path without query, and the number of earlier requests.
pub type Answer = fn(&str, &str, usize) -> (u16, Value);

/// A running server, which stops when dropped.
#[derive(Debug)]
pub struct Scripted {
    server: Http1Server,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If its thread cannot be started.
    #[must_use]
    pub fn start(answer: Answer) -> Self {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        let server = Http1Server::start(move |request| {
            let response = respond(&request, answer, &log);
            async move { response }
        });
        Self { server, asked }
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns `METHOD path` of every request so far.
    ///
    /// # Panics
    /// If a response has panicked.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
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
