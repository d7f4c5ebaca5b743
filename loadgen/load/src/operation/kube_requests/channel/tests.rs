//! Requests to a server that defers them or goes away.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use super::*;

/// Starts a server that defers the first requests, each for a pause. Returns its URL and the
/// counter of its requests.
async fn putting_off(first: u32, pause: &'static str) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let seen = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let seen = Arc::clone(&counted);
            let service = service_fn(move |_: Request<Incoming>| {
                let number = seen.fetch_add(1, Ordering::Relaxed);
                async move {
                    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
                    if number < first {
                        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                        let headers = response.headers_mut();
                        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(pause));
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = http2::Builder::new(TokioExecutor::new());
            let connection = connection.serve_connection(TokioIo::new(socket), service);
            tokio::spawn(async move { connection.await.unwrap_or_default() });
        }
    });
    (url, seen)
}

/// Sends one request and returns its outcome.
async fn get(url: &str) -> KubeCompletion {
    let access = KubeAccess::default();
    let mut channel = KubeChannel::connect(url, &access)
        .await
        .expect("it listens");
    let get = Call::simple(Method::GET, "/it".to_owned(), Bytes::new(), 0);
    channel.send(get, 7).expect("the connection is open");
    let mut all = Vec::new();
    let polled = poll_fn(|cx| channel.poll_completions(cx, &mut |completion| all.push(completion)));
    polled.await.expect("the connection is still open");
    all.pop().expect("one")
}

#[tokio::test]
async fn a_request_that_is_put_off_is_sent_again_after_the_pause_and_counted() {
    let begun = Instant::now();
    let (url, seen) = putting_off(1, "1").await;
    let mut completion = get(&url).await;
    assert_eq!((completion.token(), completion.throttled()), (7, 1));
    assert_eq!(
        completion.take_reply().expect("a response").status,
        StatusCode::OK
    );
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    assert!(completion.received() >= begun + Duration::from_secs(1));
}

#[tokio::test]
async fn a_server_that_puts_everything_off_is_not_asked_for_ever() {
    let (url, seen) = putting_off(u32::MAX, "0").await;
    let mut completion = get(&url).await;
    let reply = completion.take_reply().expect("a response");
    let refused = reply.expect(SmallRequest::Get, StatusCode::OK, "it");
    let refused = refused.expect_err("it was refused").to_string();
    assert!(refused.starts_with("get: 429"), "{refused}");
    assert_eq!(seen.load(Ordering::Relaxed), MAX_RETRIES + 1);
    assert_eq!(completion.throttled(), MAX_RETRIES + 1);
}

#[tokio::test]
async fn what_is_outstanding_on_a_lost_connection_fails_and_it_is_opened_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let access = KubeAccess::default();
    let mut channel = KubeChannel::connect(&url, &access)
        .await
        .expect("it listens");
    let get = || Call::simple(Method::GET, "/it".to_owned(), Bytes::new(), 0);
    channel.send(get(), 1).expect("the connection is open");
    let (socket, _) = listener.accept().await.expect("a client");
    drop(socket);
    let mut failed = 0;
    let ended = loop {
        let taken = poll_fn(|cx| {
            channel.poll_completions(cx, &mut |mut completion| {
                failed += u32::from(completion.take_reply().is_err());
            })
        });
        if let Err(error) = taken.await {
            break error;
        }
        // Gives the connection's own task a chance to run.
        tokio::task::yield_now().await;
    };
    assert_eq!(failed, 1, "{ended}");
    assert!(channel.send(get(), 2).is_err());
    channel.reconnect().await.expect("it still listens");
    channel.send(get(), 3).expect("the connection is open");
}
