//! Sends nearly well-formed requests to both tiers: each gets a consistent response, and no thread
//! panics.
//!
//! `FUZZ_MUTATIONS=N` sends N requests to each tier (default 2,000), `FUZZ_SEED=S` sends other
//! ones. A failure prints the request's number, which together with the seed identifies the
//! request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bench_server::embedded::EmbeddedEtcd;
use bench_server::etcd::server::EtcdTier;
use bench_server::flags::Flags;
use bench_server::kube::server::KubeTier;
use bytes::Bytes;
use clap::Parser;
use fuzz_targets::mutation::{self, Mutations};
use fuzz_targets::{objects, text};
use h2::client::SendRequest;
use http::{HeaderMap, Request, StatusCode};
use tokio::net::TcpStream;

/// Time limit of a response. Requests that wait for a revision fail after 3 s.
const WITHIN: Duration = Duration::from_secs(20);

#[test]
fn requests_of_the_kubernetes_tier_that_are_nearly_well_formed() {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let panics = count_panics();
    runtime.block_on(async {
        let (etcd, kube) = start().await;
        let mut client = connect(&kube.urls[0]).await;
        let queries = [text::list_queries(), queries()].concat();
        let bodies = [
            objects::pods_as_json(),
            objects::custom_resources(),
            objects::envelopes(),
            patches(),
        ]
        .concat();
        for number in 0..mutation::count() {
            let mut random = Mutations::new(mutation::seed(), number);
            let request = Request::builder()
                .method(random.pick::<str>(METHODS))
                .uri(format!(
                    "{}{}?{}",
                    kube.urls[0],
                    random.pick::<str>(PATHS),
                    escaped(&random.of(&queries))
                ))
                .header("accept", visible(&random.of(&accepts())))
                .header("content-type", random.pick::<str>(CONTENT_TYPES))
                .body(());
            let Ok(request) = request else {
                continue;
            };
            let shown = format!("{number}: {} {}", request.method(), request.uri());
            let body = random.of(&bodies);
            let response = exchange(&mut client, request, body).await;
            let (status, _, body) = response.unwrap_or_else(|error| panic!("{shown}: {error}"));
            check_status(&shown, status, &body);
        }
        assert_eq!(panics.load(Ordering::Relaxed), 0, "a thread panicked");
        drop(etcd);
    });
}

#[test]
fn messages_of_the_etcd_tier_that_are_nearly_well_formed() {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let panics = count_panics();
    runtime.block_on(async {
        let (etcd, kube) = start().await;
        let mut client = connect(&etcd.urls[0]).await;
        for number in 0..mutation::count() {
            let mut random = Mutations::new(mutation::seed(), number);
            let method = random.pick::<str>(RPCS);
            let message = random.of(&messages());
            let request = Request::post(format!("{}/{method}", etcd.urls[0]))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(())
                .expect("a request");
            let length = (message.len() as u32).to_be_bytes();
            let body = [&[0], &length[..], &message].concat();
            let response = exchange(&mut client, request, body).await;
            let shown = format!("{number}: {method} {message:?}");
            let (status, trailers, _) = response.unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(status, StatusCode::OK, "{shown}");
            check_code(&shown, &trailers);
        }
        assert_eq!(panics.load(Ordering::Relaxed), 0, "a thread panicked");
        drop(kube);
    });
}

/// Counts the panics of all threads except those of tests from now on, including panics of tasks.
fn count_panics() -> &'static AtomicU64 {
    static PANICS: AtomicU64 = AtomicU64::new(0);
    static COUNTED: std::sync::Once = std::sync::Once::new();
    COUNTED.call_once(|| {
        let show = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let of_test = thread
                .name()
                .is_some_and(|name| name.contains("nearly_well_formed"));
            PANICS.fetch_add(u64::from(!of_test), Ordering::Relaxed);
            show(panic);
        }));
    });
    &PANICS
}

/// Starts both tiers over one store, with a few pods.
async fn start() -> (EtcdTier, KubeTier) {
    let flags = Flags::parse_from([
        "bench-server",
        "--listen-client-urls=http://127.0.0.1:0",
        "--listen-kube-urls=http://127.0.0.1:0",
        "--backend=embedded",
    ]);
    let etcd = EtcdTier::start(&flags.etcd, &flags.common)
        .await
        .expect("a port is free");
    let storage = EmbeddedEtcd::new(etcd.node.store.clone(), Duration::from_secs(600));
    let kube = KubeTier::start_over(Arc::new(storage), &flags.kube, &flags.common)
        .await
        .expect("a port is free");
    for name in ["pods", "configmaps"] {
        let handler = kube.service.handler(name).expect("is served");
        let cache = handler.cache.clone().expect("is on");
        while !cache.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let mut client = connect(&kube.urls[0]).await;
    for (i, pod) in objects::pods_as_json().into_iter().enumerate() {
        let uri = format!("{}/api/v1/namespaces/a/pods", kube.urls[0]);
        let mut pod: serde_json::Value = serde_json::from_slice(&pod).expect("a pod");
        pod["metadata"] = serde_json::json!({"name": format!("pod-{i}"), "namespace": "a"});
        let request = Request::post(uri)
            .header("content-type", "application/json")
            .body(());
        let response = exchange(
            &mut client,
            request.expect("a request"),
            pod.to_string().into_bytes(),
        )
        .await;
        response.expect("a response");
    }
    (etcd, kube)
}

async fn connect(url: &str) -> SendRequest<Bytes> {
    let authority = url.strip_prefix("http://").expect("a URL without TLS");
    let socket = TcpStream::connect(authority).await.expect("it listens");
    let (client, connection) = h2::client::handshake(socket)
        .await
        .expect("it speaks HTTP/2");
    tokio::spawn(async { connection.await.ok() });
    client
}

type Response = (StatusCode, HeaderMap, Vec<u8>);

/// Sends a request and reads its response to the end, or up to 64 KiB of one that does not end,
/// like a watch. Headers and trailers are merged.
async fn exchange(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: Vec<u8>,
) -> Result<Response, String> {
    let text = |error: h2::Error| error.to_string();
    let within = async {
        let mut ready = client.clone().ready().await.map_err(text)?;
        let (response, mut sending) = ready.send_request(request, false).map_err(text)?;
        // A response may arrive before the body was read.
        let sent = sending.send_data(body.into(), true);
        let response = response.await.map_err(text)?;
        drop(sent);
        let (head, mut body) = response.into_parts();
        let mut headers = head.headers;
        let mut bytes = Vec::new();
        loop {
            // A response that does not end is dropped if nothing arrives for a while.
            match tokio::time::timeout(Duration::from_millis(100), body.data()).await {
                Ok(Some(data)) => {
                    let data = data.map_err(text)?;
                    bytes.extend_from_slice(&data);
                    body.flow_control()
                        .release_capacity(data.len())
                        .map_err(text)?;
                    if bytes.len() > 64 << 10 {
                        return Ok((head.status, headers, bytes));
                    }
                }
                Ok(None) => break,
                Err(_) => return Ok((head.status, headers, bytes)),
            }
        }
        if let Some(trailers) = body.trailers().await.map_err(text)? {
            headers.extend(trailers);
        }
        Ok((head.status, headers, bytes))
    };
    tokio::time::timeout(WITHIN, within)
        .await
        .map_err(|_| "no response".to_owned())?
}

/// Messages of errors for which an apiserver also returns 500 or 504, although the request is
/// invalid.
const KNOWN_FAILURES: &[&str] = &[
    "shard selector",
    "resourceVersion: Invalid value",
    "Too large resource version",
];

/// Checks a response of the Kubernetes tier: it must have no server error except for
/// [`KNOWN_FAILURES`], and its Status must agree with the status line.
fn check_status(shown: &str, status: StatusCode, body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    if status.is_server_error() {
        let known = KNOWN_FAILURES.iter().any(|known| text.contains(known));
        assert!(known, "{shown}: {status} {text}");
    }
    if let Ok(status_object) = serde_json::from_slice::<serde_json::Value>(body)
        && status_object["kind"] == "Status"
        && status.is_client_error()
    {
        assert_eq!(status_object["code"], status.as_u16(), "{shown}: {text}");
        let message = status_object["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty(), "{shown}: {text}");
    }
}

/// Checks a gRPC status, which must not be a server error. `Internal` is allowed: Go and tonic send
/// it for a message that cannot be decoded.
fn check_code(shown: &str, trailers: &HeaderMap) {
    let Some(code) = trailers.get("grpc-status") else {
        // The stream has not ended.
        return;
    };
    let message = trailers
        .get("grpc-message")
        .map(|m| String::from_utf8_lossy(m.as_bytes()).into_owned())
        .unwrap_or_default();
    match code.to_str().expect("digits") {
        "2" | "15" => panic!("{shown}: {code:?} {message}"),
        "13" => assert!(
            message.to_lowercase().contains("decode")
                || message.to_lowercase().contains("unmarshal"),
            "{shown}: {message}"
        ),
        _ => {}
    }
}

const METHODS: &[&str] = &[
    "GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD",
];

const PATHS: &[&str] = &[
    "/api/v1/pods",
    "/api/v1/namespaces/a/pods",
    "/api/v1/namespaces/a/pods/pod-0",
    "/api/v1/namespaces/a/pods/pod-1/status",
    "/api/v1/namespaces/%2e%2e/pods/%00",
    "/api/v1/configmaps",
    "/api/v1/namespaces/a/configmaps/x",
    "/apis/apps/v1/namespaces/a/deployments",
    "/api/v1/nodes",
    "/api",
    "/openapi/v3",
    "/version",
];

const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/plain; q",
    "",
];

const RPCS: &[&str] = &[
    "etcdserverpb.KV/Range",
    "etcdserverpb.KV/RangeStream",
    "etcdserverpb.KV/Put",
    "etcdserverpb.KV/DeleteRange",
    "etcdserverpb.KV/Txn",
    "etcdserverpb.KV/Compact",
    "etcdserverpb.Watch/Watch",
    "etcdserverpb.Lease/LeaseGrant",
    "etcdserverpb.Lease/LeaseRevoke",
    "etcdserverpb.Lease/LeaseKeepAlive",
    "etcdserverpb.Lease/LeaseTimeToLive",
    "etcdserverpb.Lease/LeaseLeases",
    "etcdserverpb.Maintenance/Status",
    "etcdserverpb.Maintenance/Alarm",
    "etcdserverpb.Maintenance/HashKV",
    "etcdserverpb.Cluster/MemberList",
    "etcdserverpb.Auth/AuthStatus",
];

fn accepts() -> Vec<Vec<u8>> {
    let all: [&[u8]; 4] = [
        b"application/vnd.kubernetes.protobuf, application/json;q=0.5",
        b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        b"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        b"*/*",
    ];
    all.map(<[u8]>::to_vec).to_vec()
}

fn queries() -> Vec<Vec<u8>> {
    let parameter = |name: &str, values: Vec<Vec<u8>>| {
        let all = values.into_iter();
        all.map(|value| [name.as_bytes(), b"=", &value].concat())
            .collect::<Vec<_>>()
    };
    [
        parameter("labelSelector", text::label_selectors()),
        parameter("fieldSelector", text::field_selectors()),
        parameter("shardSelector", text::shard_selectors()),
        parameter("limit=2&continue", text::continue_tokens()),
        vec![
            b"dryRun=All&fieldManager=m&fieldValidation=Strict&force=true".to_vec(),
            b"pretty=true".to_vec(),
        ],
    ]
    .concat()
}

fn patches() -> Vec<Vec<u8>> {
    let all: [&[u8]; 3] = [
        br#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"test","path":"/spec","value":null},{"op":"move","from":"/a","path":"/b~1~0"}]"#,
        br#"{"metadata":{"labels":{"a":null},"annotations":{"x":"y"}},"spec":{"containers":[{"name":"c","$patch":"delete"}]}}"#,
        br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-0","uid":"x","resourceVersion":"1"},"preconditions":{"uid":"u"},"gracePeriodSeconds":0}"#,
    ];
    all.map(<[u8]>::to_vec).to_vec()
}

/// Returns messages with fields that several calls share: keys, numbers, nested operations.
fn messages() -> Vec<Vec<u8>> {
    let all: [&[u8]; 6] = [
        b"\x0a\x01a\x12\x01b\x18\x02\x20\x01\x28\x01\x30\x02\x38\x01\x40\x01\x48\x01\x50\x01\x58\x02\x60\x03\x68\x02",
        b"\x0a\x03key\x12\x05value\x18\x01\x20\x01\x28\x01\x30\x01",
        // A transaction: a compare, a put, a range, a nested transaction.
        b"\x0a\x09\x08\x00\x10\x03\x1a\x01k\x38\x00\x12\x0a\x12\x08\x0a\x01k\x12\x03abc\x1a\x05\x0a\x03\x0a\x01k\x12\x04\x22\x02\x0a\x00",
        // Watch requests: creation, cancellation, progress.
        b"\x0a\x0e\x0a\x01a\x12\x01b\x18\x05\x20\x01\x28\x01\x30\x01",
        b"\x12\x02\x08\x01",
        b"\x08\x3c\x10\x07",
    ];
    all.map(<[u8]>::to_vec).to_vec()
}

/// Escapes characters that are not allowed in a URI, except for the separators of a query.
fn escaped(query: &[u8]) -> String {
    query.iter().fold(String::new(), |text, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'&' | b'=' | b'%' | b'-' | b'.' | b'_' => {
            text + &char::from(*byte).to_string()
        }
        byte => text + &format!("%{byte:02X}"),
    })
}

/// Keeps the characters that are allowed in a header.
fn visible(value: &[u8]) -> String {
    value
        .iter()
        .filter(|byte| (32..127).contains(*byte))
        .map(|byte| char::from(*byte))
        .collect()
}
