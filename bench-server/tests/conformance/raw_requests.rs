//! Requests that no client library sends: gRPC with another HTTP method, another content type or a
//! malformed deadline; and the headers of plain HTTP responses.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::proto::etcdserverpb::WatchRequest;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tonic::{Code, Status};

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::request::{delete, put, range};

cases![on ONE_ENCODING;
    only_post_with_a_grpc_content_type_is_a_call, a_query_is_part_of_the_method,
    malformed_timeouts, the_deadline_ends_a_call,
    the_deadline_ends_a_stream_between_messages, payload_formats, compressed_messages,
    http_headers,
];

const RANGE: &str = "/etcdserverpb.KV/Range";
const LEASES: &str = "/etcdserverpb.Lease/LeaseLeases";
const GRPC: &str = "application/grpc";
/// Time after which a deadline of less than a second must have passed.
const PATIENCE: Duration = Duration::from_secs(10);

async fn socket(t: &Target) -> TokioIo<TcpStream> {
    let address = t.server.url.trim_start_matches("http://");
    TokioIo::new(TcpStream::connect(address).await.expect("the client port"))
}

/// Sends one request over a new HTTP/2 connection. The body of the response is read later.
async fn send(t: &Target, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), socket(t).await).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// Sends one request over a new HTTP/2 connection, and reads the response.
async fn http2(t: &Target, request: Request<Full<Bytes>>) -> hyper::Result<Response<Bytes>> {
    let (mut head, body) = send(t, request).await?.into_parts();
    let body = body.collect().await?;
    if let Some(trailers) = body.trailers() {
        head.headers.extend(trailers.clone());
    }
    Ok(Response::from_parts(head, body.to_bytes()))
}

/// Returns a message with a prefix whose first byte is `format`.
fn framed(format: u8, message: &impl Message) -> Bytes {
    prefixed(format, &message.encode_to_vec())
}

/// Returns a message compressed by gzip, with its prefix.
fn gzipped(message: &impl Message) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&message.encode_to_vec());
    prefixed(1, &written.and_then(|()| encoder.finish()).expect("memory"))
}

fn prefixed(format: u8, message: &[u8]) -> Bytes {
    let length = (message.len() as u32).to_be_bytes();
    [&[format][..], &length, message].concat().into()
}

/// Returns a call with further headers.
fn call(
    method: &str,
    path: &str,
    content_type: &str,
    headers: &[(&'static str, &str)],
    body: Bytes,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://etcd{path}"))
        .header("content-type", content_type)
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body)).expect("a request")
}

/// Returns HTTP's status, gRPC's code and its message.
async fn outcome(t: &Target, request: Request<Full<Bytes>>) -> (StatusCode, Code, String) {
    let response = http2(t, request).await.expect("a response");
    let status = Status::from_header_map(response.headers()).expect("a gRPC status");
    (
        response.status(),
        status.code(),
        status.message().to_owned(),
    )
}

async fn only_post_with_a_grpc_content_type_is_a_call(t: Target) {
    t.set("k", "v").await;
    let write = framed(0, &delete("k", ""));
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        for (path, body) in [
            ("/etcdserverpb.KV/DeleteRange", write.clone()),
            (LEASES, framed(0, &())),
        ] {
            let text =
                format!("Received a HEADERS frame with :method \"{method}\" which should be POST");
            assert_eq!(
                outcome(&t, call(method, path, GRPC, &[], body)).await,
                (StatusCode::METHOD_NOT_ALLOWED, Code::Internal, text),
                "{method} {path}"
            );
        }
    }
    for content_type in ["application/grpcx", "application/grpc-web+proto"] {
        let request = call(
            "POST",
            "/etcdserverpb.KV/DeleteRange",
            content_type,
            &[],
            write.clone(),
        );
        let text = format!("invalid gRPC request content-type \"{content_type}\"");
        assert_eq!(
            outcome(&t, request).await,
            (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Code::InvalidArgument,
                text
            )
        );
    }
    assert_eq!(t.all_keys().await, ["k"], "nothing was deleted");
    for content_type in ["application/grpc+proto", "application/grpc;charset=utf-8"] {
        let request = call("POST", RANGE, content_type, &[], framed(0, &range("k", "")));
        let (code, status, text) = outcome(&t, request).await;
        assert_eq!((code, status), (StatusCode::OK, Code::Ok), "{text}");
    }
}

async fn a_query_is_part_of_the_method(t: Target) {
    let path = format!("{RANGE}?x=1");
    let request = call("POST", &path, GRPC, &[], framed(0, &range("k", "")));
    let text = "unknown method Range?x=1 for service etcdserverpb.KV".to_owned();
    assert_eq!(
        outcome(&t, request).await,
        (StatusCode::OK, Code::Unimplemented, text)
    );
}

async fn malformed_timeouts(t: Target) {
    for (timeout, reason) in [
        ("x", r#"transport: timeout string is too short: "x""#),
        ("1s", r#"transport: timeout unit is not recognized: "1s""#),
        (
            "999999999S",
            r#"transport: timeout string is too long: "999999999S""#,
        ),
        ("-1S", r#"strconv.ParseUint: parsing "-1": invalid syntax"#),
    ] {
        for (path, body) in [
            (RANGE, framed(0, &range("k", ""))),
            (LEASES, framed(0, &())),
        ] {
            let request = call("POST", path, GRPC, &[("grpc-timeout", timeout)], body);
            let text = format!("malformed grpc-timeout: {reason}");
            assert_eq!(
                outcome(&t, request).await,
                (StatusCode::BAD_REQUEST, Code::Internal, text),
                "{path}"
            );
        }
    }
}

async fn the_deadline_ends_a_call(t: Target) {
    let over = [("grpc-timeout", "0S")];
    for (path, body) in [
        ("/etcdserverpb.KV/Put", framed(0, &put("too-late", "v"))),
        (LEASES, framed(0, &())),
    ] {
        let text = "context deadline exceeded".to_owned();
        assert_eq!(
            outcome(&t, call("POST", path, GRPC, &over, body)).await,
            (StatusCode::OK, Code::DeadlineExceeded, text),
            "{path}"
        );
    }
    assert_eq!(t.all_keys().await, [""; 0]);
    let request = framed(0, &range("k", ""));
    let request = call("POST", RANGE, GRPC, &[("grpc-timeout", "10S")], request);
    let (_, code, text) = outcome(&t, request).await;
    assert_eq!(code, Code::Ok, "{text}");

    // A stream that would not end by itself. etcd either resets it or returns the status, depending
    // on timing.
    let body = framed(0, &WatchRequest::default());
    let watch = "/etcdserverpb.Watch/Watch";
    let request = call("POST", watch, GRPC, &[("grpc-timeout", "300m")], body);
    let ended = tokio::time::timeout(PATIENCE, http2(&t, request)).await;
    let ended = ended.expect("a call ends at its deadline");
    if t.peer.is_bench() || ended.is_ok() {
        let response = ended.expect("a status");
        let status = Status::from_header_map(response.headers()).expect("a gRPC status");
        assert_eq!(
            (status.code(), status.message()),
            (Code::DeadlineExceeded, "context deadline exceeded")
        );
    }
}

/// A client that reads nothing until its deadline has passed. etcd either resets the stream or
/// returns the status.
async fn the_deadline_ends_a_stream_between_messages(t: Target) {
    const OBJECTS: usize = 20;
    const OBJECT_BYTES: usize = 1 << 20;
    for i in 0..OBJECTS {
        t.set(format!("k{i:02}"), "v".repeat(OBJECT_BYTES)).await;
    }
    let deadline = Duration::from_millis(300);
    let headers = [("grpc-timeout", "300m")];
    let path = "/etcdserverpb.KV/RangeStream";
    let request = call("POST", path, GRPC, &headers, framed(0, &range("k", "l")));
    let response = send(&t, request).await.expect("a response");
    assert_eq!(response.status(), StatusCode::OK);
    tokio::time::sleep(deadline * 2).await;
    let read = tokio::time::timeout(PATIENCE, response.into_body().collect()).await;
    let read = read.expect("a call ends at its deadline");
    if !t.peer.is_bench() && read.is_err() {
        return;
    }
    let body = read.expect("a body");
    let trailers = body.trailers().expect("trailers").clone();
    let status = Status::from_header_map(&trailers).expect("a gRPC status");
    assert_eq!(
        (status.code(), status.message()),
        (Code::DeadlineExceeded, "context deadline exceeded")
    );
    let mut rest = body.to_bytes();
    assert!(rest.len() < OBJECTS * OBJECT_BYTES, "{}", rest.len());
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[1..5].try_into().expect("a prefix"));
        assert!(rest.len() >= 5 + length as usize, "a message is cut");
        rest = rest.slice(5 + length as usize..);
    }
}

async fn payload_formats(t: Target) {
    for format in [2, 128, 255] {
        let request = framed(format, &range("k", ""));
        let text = format!("grpc: received unexpected payload format {format}");
        assert_eq!(
            outcome(&t, call("POST", RANGE, GRPC, &[], request)).await,
            (StatusCode::OK, Code::Internal, text)
        );
    }
}

/// Clients of grpc-go may compress their messages (`grpc.UseCompressor(gzip.Name)`).
async fn compressed_messages(t: Target) {
    t.set("k", "v").await;
    let range_of_k = range("k", "");
    let large_put = put("k", vec![0; 3 << 20]);
    for (path, encoding, body, code, text) in [
        (RANGE, "gzip", gzipped(&range_of_k), Code::Ok, ""),
        (LEASES, "gzip", gzipped(&()), Code::Ok, ""),
        // Uncompressed although compression is announced.
        (RANGE, "gzip", framed(0, &range_of_k), Code::Ok, ""),
        (LEASES, "gzip", framed(0, &()), Code::Ok, ""),
        (
            "/etcdserverpb.KV/Put",
            "gzip",
            gzipped(&large_put),
            Code::ResourceExhausted,
            "grpc: received message after decompression larger than max 2097152",
        ),
        (
            RANGE,
            "identity",
            gzipped(&range_of_k),
            Code::Internal,
            "grpc: compressed flag set with identity or empty encoding",
        ),
        (
            RANGE,
            "snappy",
            framed(0, &range_of_k),
            Code::Unimplemented,
            "grpc: Decompressor is not installed for grpc-encoding \"snappy\"",
        ),
        (
            LEASES,
            "snappy",
            framed(0, &()),
            Code::Unimplemented,
            "grpc: Decompressor is not installed for grpc-encoding \"snappy\"",
        ),
    ] {
        let request = call("POST", path, GRPC, &[("grpc-encoding", encoding)], body);
        assert_eq!(
            outcome(&t, request).await,
            (StatusCode::OK, code, text.to_owned()),
            "{path}, {encoding}"
        );
    }
    // A compressed message without a `grpc-encoding` header.
    let request = call("POST", RANGE, GRPC, &[], gzipped(&range_of_k));
    let (_, code, text) = outcome(&t, request).await;
    assert_eq!(
        (code, text.as_str()),
        (
            Code::Internal,
            "grpc: compressed flag set with identity or empty encoding"
        )
    );
}

/// Sends one request by HTTP/1.1.
async fn http1(t: &Target, method: &str, path: &str) -> (StatusCode, HeaderMap, String) {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(socket(t).await)
        .await
        .expect("HTTP/1.1");
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "etcd")
        .body(Full::<Bytes>::default())
        .expect("a request");
    let response = sender.send_request(request).await.expect("a response");
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let body = String::from_utf8(body.to_vec()).expect("text");
    (head.status, head.headers, body)
}

async fn http_headers(t: Target) {
    crate::maintenance::storage_version_is_known(&t).await;
    let (code, headers, body) = http1(&t, "GET", "/health").await;
    assert_eq!(
        (code, headers["content-type"].as_bytes()),
        (StatusCode::OK, &b"text/plain; charset=utf-8"[..]),
        "{body}"
    );
    let (_, headers, body) = http1(&t, "GET", "/version").await;
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(
        body,
        r#"{"etcdserver":"3.7.3","etcdcluster":"3.7.0","storage":"3.7.0"}"#
    );
    for path in ["/health", "/livez", "/readyz", "/version"] {
        for method in ["HEAD", "POST", "PUT"] {
            let (code, headers, _) = http1(&t, method, path).await;
            assert_eq!(
                (code, headers.get("allow").map(|allow| allow.as_bytes())),
                (StatusCode::METHOD_NOT_ALLOWED, Some(&b"GET"[..])),
                "{method} {path}"
            );
        }
    }
    for method in ["HEAD", "POST"] {
        let (code, ..) = http1(&t, method, "/metrics").await;
        assert_eq!(code, StatusCode::OK, "{method}");
    }
}
