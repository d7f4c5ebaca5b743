//! A proxy in front of a Kubernetes API that loses one MODIFIED event of all watches that go through it.

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

/// Starts one in this runtime, whose end is its end. `lost` counts from 1 which event is lost; 0 loses none.
pub(crate) async fn start(upstream: SocketAddr, lost: u64) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let events = Arc::new(AtomicU64::new(0));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let events = Arc::clone(&events);
            let service = service_fn(move |request| {
                let events = Arc::clone(&events);
                async move { Ok::<_, Infallible>(forward(upstream, request, lost, events).await) }
            });
            let connection = server::Builder::new().serve_connection(TokioIo::new(socket), service);
            tokio::spawn(async move { connection.await.unwrap_or_default() });
        }
    });
    address
}

async fn forward(
    upstream: SocketAddr,
    request: Request<Incoming>,
    lost: u64,
    events: Arc<AtomicU64>,
) -> Response<Body> {
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
            Ok(Frame::data(without_lost(&mut held, lost, &events)))
        });
        StreamBody::new(frames).boxed_unsync()
    } else {
        body.boxed_unsync()
    };
    Response::from_parts(parts, body)
}

/// Takes what is whole of `held`, without the event that is lost.
fn without_lost(held: &mut Vec<u8>, lost: u64, events: &AtomicU64) -> Bytes {
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
        if !is_change || events.fetch_add(1, Ordering::Relaxed) + 1 != lost {
            passed.extend(frame);
        }
    }
    passed.into()
}
