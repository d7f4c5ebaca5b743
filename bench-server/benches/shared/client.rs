//! A client of the Kubernetes tier that reads responses and discards them.

use bench_server::kube::server::KubeTier;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection, which sends one request at a time.
pub(crate) type Client = tokio::sync::Mutex<SendRequest<Empty<Bytes>>>;

/// Connects to the tier.
pub(crate) async fn connect(tier: &KubeTier) -> Client {
    let address = tier.urls[0].strip_prefix("http://").expect("an http URL");
    let socket = TcpStream::connect(address).await.expect("the tier accepts");
    let (sender, connection) = handshake(TokioIo::new(socket)).await.expect("HTTP/1.1");
    tokio::spawn(async move { connection.await.unwrap_or_default() });
    Client::new(sender)
}

/// Sends a request, and passes each chunk of the response's body to `on_data`.
pub(crate) async fn ask(
    client: &Client,
    path: &str,
    accept: &str,
    mut on_data: impl FnMut(&Bytes),
) {
    let request = Request::get(path)
        .header(header::HOST, "bench")
        .header(header::ACCEPT, accept)
        .body(Empty::new())
        .expect("a request");
    let mut client = client.lock().await;
    client.ready().await.expect("connected");
    let response = client.send_request(request).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame.expect("a whole body").data_ref() {
            on_data(data);
        }
    }
}

/// Reads a response without checking it; returns its size, bytes.
pub(crate) async fn read_unchecked(client: &Client, path: &str, accept: &str) -> u64 {
    let mut bytes = 0;
    ask(client, path, accept, |data| bytes += data.len() as u64).await;
    bytes
}
