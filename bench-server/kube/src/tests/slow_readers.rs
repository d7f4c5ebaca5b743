//! Tests of slow clients: a list is cut off if it is not read within the request's 60 s.

use listen::serve_one;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use super::*;

/// Together, the objects are larger than all buffers between the list and its client.
const OBJECTS: usize = 400;
const OBJECT_BYTES: usize = 20_000;
const SECOND: Duration = Duration::from_secs(1);

/// Returns a tier with pods of 8 MB in total.
async fn large() -> (FakeEtcd, KubeTier) {
    let etcd = FakeEtcd::default();
    let text = "x".repeat(OBJECT_BYTES);
    let mut writes = Vec::new();
    for i in 0..OBJECTS {
        let (name, mut raw) = (format!("pod-{i:03}"), Vec::new());
        let pod = json!({"metadata": {"name": name, "namespace": "a", "annotations": {"a": text}}});
        from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
        let key = format!("/registry/pods/a/{name}");
        writes.push((key, Some(envelope::seal("v1", "Pod", &raw))));
    }
    let writes: Vec<_> = writes
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    etcd.write(&writes);
    let tier = ready(&etcd, &[]).await;
    (etcd, tier)
}

/// Returns a connection to the tier, and the task that serves it.
fn connect(tier: &KubeTier) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = tokio::io::duplex(64 * 1024);
    (
        client,
        tokio::spawn(serve_one(server, tier.service.clone())),
    )
}

async fn ask(client: &mut DuplexStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: tier\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("taken");
}

/// Reads `bytes` per second until the server has closed the connection, or a chunked body has
/// ended.
async fn read_slowly(client: &mut (impl AsyncRead + Unpin), bytes: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut some = vec![0; bytes];
    loop {
        tokio::time::sleep(SECOND).await;
        let mut room = &mut some[..];
        while !room.is_empty() && !all.ends_with(b"\r\n0\r\n\r\n") {
            let count = client.read(room).await.expect("no error");
            if count == 0 {
                return all;
            }
            all.extend_from_slice(&room[..count]);
            room = &mut room[count..];
        }
        if all.ends_with(b"\r\n0\r\n\r\n") {
            return all;
        }
    }
}

async fn aborted(tier: &KubeTier) -> f64 {
    metric(&tier.service, "apiserver_request_aborts_total").await
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_read_is_cut_off_after_a_minute() {
    for (path, limit) in [("/api/v1/pods", 60), ("/api/v1/pods?timeout=5s", 5)] {
        let (_etcd, tier) = large().await;
        let (mut client, serving) = connect(&tier);
        ask(&mut client, path).await;
        let started = Instant::now();
        let mut read = Vec::new();
        while !serving.is_finished() {
            tokio::time::sleep(SECOND).await;
            read.push(client.read_u8().await.expect("a byte"));
            assert!(read.len() < 100, "{path} is cut off");
        }
        let took = started.elapsed().as_secs();
        assert!((limit..=limit + 1).contains(&took), "{path} took {took} s");
        assert_eq!(aborted(&tier).await, 1.0);
        // The connection, the body and its snapshot are dropped.
        let inflight = "apiserver_current_inflight_requests{request_kind=\"readOnly\"}";
        assert_eq!(metric(&tier.service, inflight).await, 0.0);
        // Buffered bytes still arrive, without the end of the body.
        client.read_to_end(&mut read).await.expect("closed");
        assert!(read.starts_with(b"HTTP/1.1 200 OK"), "it had begun");
        assert!(read.len() < OBJECTS * OBJECT_BYTES);
        assert!(!read.ends_with(b"0\r\n\r\n"), "the list is not whole");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_reader_keeps_is_told() {
    const DELETED: usize = 10;
    let (etcd, tier) = large().await;
    let gauge = async |name: &str| {
        let name = format!("bench_server_{name}{{group=\"\",resource=\"pods\"}}");
        metric(&tier.service, &name).await
    };
    let (mut client, _serving) = connect(&tier);
    ask(&mut client, "/api/v1/pods").await;
    client.read_u8().await.expect("it begins");
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(gauge("lists_open").await, 1.0);
    assert_eq!(gauge("list_oldest_seconds").await, 3.0);
    let mut revision = 0;
    for i in 0..DELETED {
        revision = etcd.write(&[(format!("/registry/pods/a/pod-{i:03}").as_str(), None)]);
    }
    tokio::time::sleep(SECOND).await;
    let kept = gauge("list_pinned_bytes").await;
    assert_eq!(kept, 0.0, "older states are kept anyway");
    // The cache drops compacted snapshots within 15 s.
    etcd.compact_at(revision);
    tokio::time::sleep(20 * SECOND).await;
    let kept = gauge("list_pinned_bytes").await;
    let deleted = (DELETED * OBJECT_BYTES) as f64;
    assert!((deleted..1.1 * deleted).contains(&kept), "{kept}");
    drop(client);
    tokio::time::sleep(SECOND).await;
    assert_eq!(gauge("lists_open").await, 0.0);
    assert_eq!(gauge("list_pinned_bytes").await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_read_in_time_is_whole_and_its_connection_goes_on() {
    let (_etcd, tier) = large().await;
    let (mut client, serving) = connect(&tier);
    for _ in 0..2 {
        ask(&mut client, "/api/v1/pods").await;
        // Read within 60 s, but slowly.
        let answer = read_slowly(&mut client, OBJECTS * OBJECT_BYTES / 40).await;
        assert!(answer.len() > OBJECTS * OBJECT_BYTES);
        assert!(answer.ends_with(b"0\r\n\r\n"));
        tokio::time::sleep(80 * SECOND).await;
        assert!(!serving.is_finished(), "an idle connection has no limit");
    }
    assert_eq!(aborted(&tier).await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn over_http2_only_the_list_is_reset() {
    let (_etcd, tier) = large().await;
    let (client, serving) = connect(&tier);
    let (mut sender, connection) = h2::client::handshake(client).await.expect("a handshake");
    tokio::spawn(connection);
    let get = |path: &str| {
        let uri = format!("http://tier{path}");
        Request::get(uri).body(()).expect("a request")
    };
    let (response, _) = sender
        .send_request(get("/api/v1/pods"), true)
        .expect("sent");
    let response = response.await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    // The first flow-control window is used up, and never enlarged.
    let started = Instant::now();
    let ended = loop {
        match body.data().await.expect("no orderly end") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(started.elapsed().as_secs(), 60);
    assert_eq!(ended.reason(), Some(h2::Reason::CANCEL));
    assert_eq!(aborted(&tier).await, 1.0);
    // The connection still serves other requests.
    let path = "/api/v1/namespaces/none/pods";
    let (response, _) = sender.send_request(get(path), true).expect("sent");
    assert_eq!(response.await.expect("an answer").status(), StatusCode::OK);
    assert!(!serving.is_finished());
}

/// hyper polls a body only while there is room for more, so it never polls for the end of this one.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_read_is_over_a_minute_after_its_end() {
    let (_etcd, tier) = large().await;
    let (mut client, serving) = connect(&tier);
    ask(&mut client, "/api/v1/pods?watch=1&timeoutSeconds=10").await;
    let started = Instant::now();
    while !serving.is_finished() {
        tokio::time::sleep(SECOND).await;
        assert!(started.elapsed() < 100 * SECOND, "it ends");
    }
    assert!(started.elapsed() >= 70 * SECOND);
    let open = "apiserver_longrunning_requests";
    assert_eq!(metric(&tier.service, open).await, 0.0);
    let mut read = Vec::new();
    client.read_to_end(&mut read).await.expect("closed");
    assert!(
        !read.ends_with(b"0\r\n\r\n"),
        "what was not read is not sent"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_no_time_is_over_at_once() {
    let (_etcd, tier) = large().await;
    let read = async |seconds: i64| {
        let path = format!("/api/v1/pods?watch=1&timeoutSeconds={seconds}");
        get(&tier.service, &path).await
    };
    let none = read(-1).await;
    assert_eq!((none.code, none.body.len()), (StatusCode::OK, 0));
    // A timeout that exceeds the range of clocks.
    let longest = read(i64::MAX);
    let waited = tokio::time::timeout(7_200 * SECOND, longest).await;
    assert!(waited.is_err(), "it goes on");
}
