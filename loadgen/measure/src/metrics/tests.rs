//! Tests with pages as etcd and our servers write them, and a socket that responds once.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const PAGE: &str = "\
# HELP grpc_server_handled_total Total number of RPCs completed.
# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Range\"} 3
grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Txn\"} 4
grpc_server_handled_total{grpc_code=\"Unavailable\",grpc_method=\"Range\"} 1
go_memstats_heap_inuse_bytes 1.048576e+06
odd{label=\"a } b\"} 7 1700000000000
nonsense
";

#[test]
fn metrics_are_summed_over_labels() {
    let page = MetricsText(PAGE.to_owned());
    assert_eq!(page.sum("grpc_server_handled_total"), Some(8.0));
    assert_eq!(
        page.sum("grpc_server_handled"),
        None,
        "a name is not a prefix"
    );
    assert_eq!(
        page.sum("odd"),
        Some(7.0),
        "a brace within a label ends nothing"
    );
}

#[test]
fn what_is_allocated_is_found_by_the_gauge_of_its_allocator() {
    assert_eq!(MetricsText(PAGE.to_owned()).allocated(), Some(1 << 20));
    assert_eq!(
        MetricsText("jemalloc_allocated_bytes 12\n".to_owned()).allocated(),
        Some(12)
    );
    assert_eq!(MetricsText::default().allocated(), None);
}

#[test]
fn only_plain_http_with_a_port_is_taken() {
    assert!(MetricsClient::new("http://127.0.0.1:2379/health").is_ok());
    for url in [
        "https://127.0.0.1:2379",
        "http://127.0.0.1",
        "127.0.0.1:2379",
        "",
    ] {
        let error = MetricsClient::new(url).expect_err(url);
        assert!(error.to_string().contains(&format!("`{url}`")), "{error}");
    }
}

/// Responds to each connection's first request with `answer`, then closes the connection.
async fn serve(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a loopback port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let read = socket.read(&mut request).await.expect("a request");
            assert!(
                request[..read].ends_with(b"\r\n\r\n"),
                "small enough for one packet"
            );
            socket
                .write_all(answer.as_bytes())
                .await
                .expect("the client reads");
        }
    });
    url
}

#[tokio::test]
async fn a_lost_connection_is_made_again() {
    let url =
        serve("HTTP/1.1 200 OK\r\ncontent-length: 12\r\nconnection: close\r\n\r\nabcdefghijk\n")
            .await;
    let mut client = MetricsClient::new(&url).expect("our own URL");
    for _ in 0..2 {
        assert_eq!(
            client
                .text(Method::GET, "/health")
                .await
                .expect("an answer"),
            "abcdefghijk\n"
        );
    }
}

#[tokio::test]
async fn an_answer_other_than_200_is_an_error_with_its_status() {
    let url = serve("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    let error = MetricsClient::new(&url)
        .expect("our own URL")
        .metrics()
        .await
        .expect_err("404");
    assert!(
        error
            .to_string()
            .ends_with("/metrics returned 404 Not Found"),
        "{error}"
    );
}

#[tokio::test]
async fn allocated_bytes_are_known_from_the_first_answer_on() {
    let url = serve("HTTP/1.1 200 OK\r\ncontent-length: 29\r\nconnection: close\r\n\r\njemalloc_allocated_bytes 4096").await;
    let client = MetricsClient::new(&url).expect("our own URL");
    let watch = AllocatedWatch::start(client, Duration::from_secs(3_600))
        .await
        .expect("the page has the gauge");
    assert_eq!(watch.latest(), 4096);
}

#[test]
fn only_counters_that_grew_are_kept() {
    let of = |pairs: &[(&str, f64)]| {
        let pairs = pairs.iter();
        pairs
            .map(|&(name, value)| (name.to_owned(), value))
            .collect()
    };
    let before: BTreeMap<String, f64> = of(&[("a_total", 3.0), ("b_total", 5.0)]);
    let after = of(&[("a_total", 3.0), ("b_total", 9.0), ("c_total", 1.0)]);
    let expected = BTreeMap::from([("b_total".to_owned(), 4), ("c_total".to_owned(), 1)]);
    assert_eq!(grown(&before, after), expected);
}
