//! Tests with a server that serves given pages, or fails, one request after the other.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Returns the page of a server that has used this much CPU time and handled this many requests.
fn page(cpu_s: u32, handled: u32) -> Option<String> {
    Some(format!(
        "process_cpu_seconds_total {cpu_s}\n\
         process_resident_memory_bytes 1000\n\
         etcd_requests_total {handled}\n"
    ))
}

/// Returns a server that responds to one request after the other with these pages, and with 503 for
/// `None`.
async fn telling(pages: Vec<Option<String>>) -> RemoteServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move {
        for page in pages {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 1024];
            let read = socket.read(&mut request).await;
            assert!(read.expect("a connection that lives") > 0, "a request");
            let (status, page) = match &page {
                Some(page) => ("200 OK", page.as_str()),
                None => ("503 Service Unavailable", "busy"),
            };
            let length = page.len();
            let response = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
            );
            let sent = socket.write_all(response.as_bytes()).await;
            sent.expect("the client reads");
        }
    });
    let server = RemoteServer::open(&url, KubeAccess::default()).await;
    server.expect("the first page is there")
}

#[tokio::test]
async fn what_a_server_did_is_counted_from_the_page_that_the_phase_began_with() {
    let mut server = telling(vec![page(1, 10), page(5, 50), page(7, 80)]).await;
    server.begin().await.expect("the second page is there");
    let cost = server.end().await.expect("the third page is there");
    let counters = BTreeMap::from([("etcd_requests_total".to_owned(), 30)]);
    let cpu_s = 2.0;
    assert_eq!(cost.work, Some(RemoteWork { cpu_s, counters }));
}

/// The counters of the new process less those of the old one would describe neither.
#[tokio::test]
async fn a_server_that_is_started_again_meanwhile_has_no_work() {
    let of_start = |page: Option<String>, at: u32| {
        page.map(|page| format!("{page}process_start_time_seconds {at}\n"))
    };
    for (begin, end) in [
        // The server reports its start time, and its counters are higher than before.
        (of_start(page(5, 50), 100), of_start(page(7, 80), 200)),
        // The server does not report its start time, and its CPU time is lower.
        (page(5, 50), page(1, 80)),
    ] {
        let mut server = telling(vec![begin.clone(), begin, end]).await;
        server.begin().await.expect("the second page is there");
        let cost = server.end().await.expect("the third page is there");
        assert_eq!((cost.work, cost.restarted), (None, true));
    }
}

/// Growth since an earlier page would include the work of a warm-up.
#[tokio::test]
async fn without_the_page_of_its_begin_nobody_knows_what_a_server_did() {
    let mut server = telling(vec![page(1, 10), None, page(7, 80)]).await;
    let refused = server
        .begin()
        .await
        .expect_err("the second page is not there");
    assert!(refused.to_string().contains("503"), "{refused}");
    let cost = server.end().await.expect("the third page is there");
    assert_eq!((cost.work, cost.rss_peak), (None, 1_000));
}

#[tokio::test]
async fn a_server_that_ceases_to_tell_says_why() {
    let mut server = telling(vec![page(1, 10), page(5, 50), None]).await;
    server.begin().await.expect("the second page is there");
    let refused = server.end().await.expect_err("the third page is not there");
    assert!(refused.to_string().contains("503"), "{refused}");
}
