//! A proxy in front of a Kubernetes API that drops one MODIFIED event of all its watches.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, BodyStream, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, hyper::Error>;

/// The number of events until the one that is dropped; 0 drops none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loss(Arc<AtomicU64>);

impl Loss {
    /// Drops the n-th event from now on; 1 is the next one.
    pub(crate) fn lose(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// Returns whether no event is to be dropped, or it has been dropped already.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Counts an event; returns whether it is to be dropped.
    fn is_now(&self) -> bool {
        let counted = |left: u64| left.checked_sub(1);
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
        before == Ok(1)
    }
}

/// Starts a proxy in this runtime, with which it ends; returns its address.
pub(crate) async fn start(upstream: SocketAddr, loss: &Loss) -> SocketAddr {
    let loss = loss.clone();
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let loss = loss.clone();
            let service = service_fn(move |request| {
                let loss = loss.clone();
                async move { Ok::<_, Infallible>(forward(upstream, request, loss).await) }
            });
            let connection = server::Builder::new().serve_connection(TokioIo::new(socket), service);
            tokio::spawn(async move { connection.await.unwrap_or_default() });
        }
    });
    address
}

async fn forward(upstream: SocketAddr, request: Request<Incoming>, loss: Loss) -> Response<Body> {
    let socket = TcpStream::connect(upstream)
        .await
        .expect("the server is there");
    let (mut sender, connection) = client::handshake(TokioIo::new(socket))
        .await
        .expect("it speaks HTTP");
    tokio::spawn(async move { connection.await.unwrap_or_default() });
    let is_watch = request
        .uri()
        .query()
        .is_some_and(|q| q.contains("watch=true"));
    let (parts, _) = request.into_parts();
    let request = Request::from_parts(parts, Empty::<Bytes>::new());
    let response = sender.send_request(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let body = if is_watch {
        let mut held = Vec::new();
        let frames = BodyStream::new(body).map(move |frame| {
            let bytes = frame?.into_data().unwrap_or_default();
            held.extend_from_slice(&bytes);
            Ok(Frame::data(without_lost(&mut held, &loss)))
        });
        StreamBody::new(frames).boxed_unsync()
    } else {
        body.boxed_unsync()
    };
    Response::from_parts(parts, body)
}

/// Removes the complete frames from `held`, and returns them without the event that is dropped.
fn without_lost(held: &mut Vec<u8>, loss: &Loss) -> Bytes {
    let mut passed = Vec::new();
    while let Some(length) = held.first_chunk::<4>() {
        let len = 4 + u32::from_be_bytes(*length) as usize;
        if held.len() < len {
            break;
        }
        let frame: Vec<u8> = held.drain(..len).collect();
        let is_change = frame[..len.min(80)]
            .windows(8)
            .any(|word| word == b"MODIFIED");
        if !is_change || !loss.is_now() {
            passed.extend(frame);
        }
    }
    passed.into()
}
