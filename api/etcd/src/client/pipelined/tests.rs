//! Tests both implementations against the h2 crate's server with narrow limits, and against a
//! scripted peer.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;

use super::*;
use crate::client::config::Http2;
use crate::proto::etcdserverpb::{PutRequest, RangeRequest, RangeResponse, ResponseHeader};
use crate::proto::mvccpb::KeyValue;

async fn listen() -> (TcpListener, ClientConfig) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let config = ClientConfig::new(&address.to_string()).expect("an address");
    (listener, config)
}

/// Serves every call with a Range response whose value is the request's message, in frames of odd
/// sizes; or with an error status if the request contains `fail`.
async fn echo(socket: TcpStream, settings: h2::server::Builder) {
    let mut connection: h2::server::Connection<_, Bytes> =
        settings.handshake(socket).await.expect("a client");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let mut body = request.into_body();
            let mut received = Vec::new();
            while let Some(data) = body.data().await {
                let data = data.expect("the client sends it whole");
                let _enough = body.flow_control().release_capacity(data.len());
                received.extend_from_slice(&data);
            }
            let head = Response::builder().header("content-type", "application/grpc");
            if received.windows(4).any(|w| w == b"fail") {
                let head = head
                    .header("grpc-status", "9")
                    .header("grpc-message", "not%20now")
                    .body(())
                    .expect("a head");
                respond.send_response(head, true).expect("open");
                return;
            }
            let answer = RangeResponse {
                header: Some(ResponseHeader {
                    revision: 7,
                    ..Default::default()
                }),
                kvs: vec![KeyValue {
                    key: "k".into(),
                    value: received[5..].to_vec().into(),
                    ..Default::default()
                }],
                count: 1,
                ..Default::default()
            };
            let mut framed = vec![0];
            framed.extend((answer.encoded_len() as u32).to_be_bytes());
            framed.extend(answer.encode_to_vec());
            let head = head.body(()).expect("a head");
            let mut stream = respond.send_response(head, false).expect("open");
            for part in framed.chunks(1_777) {
                let part = Bytes::copy_from_slice(part);
                stream.send_data(part, false).expect("open");
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            stream.send_trailers(trailers).expect("open");
        });
    }
}

async fn answers(
    calls: &mut PipelinedConnection,
    count: usize,
) -> Vec<(u64, Result<Vec<u8>, Error>)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let mut note =
            |done: Completion<'_>| seen.push((done.token, done.response.map(<[u8]>::to_vec)));
        calls.drive(&mut note).await.expect("the connection lives");
    }
    seen.sort_by_key(|(token, _)| *token);
    seen
}

#[tokio::test]
async fn both_implementations_return_the_same_within_narrow_limits() {
    for framing in [Framing::Minimal, Framing::H2Crate] {
        let (listener, mut config) = listen().await;
        config.http2.stream_window_bytes = 20_000;
        config.http2.connection_window_bytes = 70_000;
        let server = tokio::spawn(async move {
            let mut settings = h2::server::Builder::new();
            settings
                .initial_window_size(10_000)
                .max_concurrent_streams(7)
                .max_frame_size(16_384);
            echo(listener.accept().await.expect("a client").0, settings).await;
        });
        let mut calls = PipelinedConnection::connect_as(framing, &config, None)
            .await
            .expect("it accepts");
        assert_eq!(calls.framing(), framing);
        let request = |token: u64| PutRequest {
            key: format!("/{token}").into(),
            // Some values are larger than a frame, than a stream's window and than the connection's
            // window.
            value: vec![token as u8; [0, 100, 16_384, 150_000][token as usize % 4]].into(),
            ..Default::default()
        };
        for token in 0..40 {
            calls.send(Rpc::Put, &request(token), token).expect("alive");
        }
        assert_eq!(calls.outstanding(), 40);
        for (token, answer) in answers(&mut calls, 40).await {
            let answer = answer.expect("the peer echoes");
            let answer = parse_range_response(&answer).expect("a range response");
            assert_eq!((answer.revision, answer.count), (7, 1));
            let value = answer.object.expect("one object").value;
            assert!(value == request(token).encode_to_vec(), "call {token}");
        }
        assert_eq!(calls.outstanding(), 0);
        let failing = RangeRequest {
            key: "fail".into(),
            ..Default::default()
        };
        calls.send(Rpc::Range, &failing, 1).expect("alive");
        let (_, answer) = answers(&mut calls, 1).await.remove(0);
        match answer {
            Err(Error::Status { code, message }) => {
                assert_eq!(
                    (code, message.as_str()),
                    (Code::FailedPrecondition, "not now")
                );
            }
            other => panic!("{other:?}"),
        }
        drop(calls);
        server.await.expect("it ends with its client");
    }
}

#[tokio::test]
async fn a_peer_with_a_small_header_table_is_reached_by_the_h2_crate() {
    let (listener, config) = listen().await;
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let mut settings = h2::server::Builder::new();
            settings.header_table_size(100);
            let socket = listener.accept().await.expect("a client").0;
            tokio::spawn(echo(socket, settings));
        }
    });
    let mut calls = PipelinedConnection::connect(&config, None)
        .await
        .expect("h2 can");
    assert_eq!(calls.framing(), Framing::H2Crate);
    calls
        .send(Rpc::Range, &RangeRequest::default(), 5)
        .expect("alive");
    assert!(answers(&mut calls, 1).await[0].1.is_ok());
    server.await.expect("two connections");
}

/// Accepts one client, waits for a request, then sends `frames` and closes its sending side.
async fn scripted(listener: TcpListener, frames: Vec<u8>) -> TcpStream {
    let mut socket = asked(listener).await;
    socket.write_all(&frames).await.expect("it reads");
    socket.shutdown().await.expect("it is open");
    socket
}

/// Accepts a client, waits until it has sent a request, and returns the socket.
async fn asked(listener: TcpListener) -> TcpStream {
    let (mut socket, _) = listener.accept().await.expect("a client");
    let settings: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    socket.write_all(settings).await.expect("it reads");
    // Reads until the request's DATA: preface 24 bytes, settings 27, window update 13, ack 9,
    // headers.
    let mut seen = Vec::new();
    while !seen.windows(6).any(|w| w == [0, 1, 0, 0, 0, 1]) {
        let mut part = [0; 1024];
        let count = socket.read(&mut part).await.expect("it writes");
        assert_ne!(count, 0, "the client left");
        seen.extend_from_slice(&part[..count]);
    }
    socket
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// Makes one call to a peer that sends `frames`; returns the result of the call and of driving it.
async fn one_call(frames: Vec<u8>) -> (Vec<Result<Vec<u8>, Error>>, Result<(), Error>) {
    one_call_with(frames, |_| {}).await
}

async fn one_call_with(
    frames: Vec<u8>,
    http2: impl FnOnce(&mut Http2),
) -> (Vec<Result<Vec<u8>, Error>>, Result<(), Error>) {
    let (listener, mut config) = listen().await;
    http2(&mut config.http2);
    let peer = tokio::spawn(scripted(listener, frames));
    let mut calls = PipelinedConnection::connect(&config, None)
        .await
        .expect("settings come");
    calls
        .send(Rpc::Range, &RangeRequest::default(), 1)
        .expect("alive");
    let mut seen = Vec::new();
    let mut note = |done: Completion<'_>| seen.push(done.response.map(<[u8]>::to_vec));
    let turn = tokio::time::timeout(Duration::from_secs(20), calls.drive(&mut note)).await;
    drop(peer.await.expect("the script runs through"));
    (seen, turn.expect("an end"))
}

/// Returns `grpc-status: 0` as a literal without indexing.
fn status_ok() -> Vec<u8> {
    [&[0, 11][..], b"grpc-status", &[1], b"0"].concat()
}

#[tokio::test]
async fn padding_priority_continuation_and_unknown_frames_are_accepted() {
    let trailers = status_ok();
    let frames = [
        frame(0xbe, 0xff, 1, b"whatever"),
        frame(6, 0, 0, &[9; 8]),
        // Two bytes of padding, a priority, and an incomplete header block.
        frame(1, 0x8 | 0x20, 1, &[2, 0, 0, 0, 0, 16, 0x88, 0, 0]),
        frame(9, 0x4, 1, &[]),
        frame(0, 0x8, 1, &[3, 0, 0, 0, 0, 2, 0, 0, 0]),
        frame(0, 0, 1, b"hi"),
        frame(1, 0x1, 1, &trailers[..5]),
        frame(9, 0, 1, &trailers[5..9]),
        frame(9, 0x4, 1, &trailers[9..]),
    ];
    let (seen, turn) = one_call(frames.concat()).await;
    turn.expect("nothing is wrong");
    assert_eq!(seen[0].as_ref().expect("an answer"), b"hi");
}

#[tokio::test]
async fn a_failed_call_reports_its_cause() {
    let head = frame(1, 0x4, 1, &[0x88]);
    let end = frame(1, 0x5, 1, &status_ok());
    for (frames, text) in [
        (frame(3, 0, 1, &[0, 0, 0, 7]), "reset with error code 7"),
        (
            [&head[..], &frame(0, 1, 1, &[0; 5])].concat(),
            "without a grpc-status",
        ),
        (frame(1, 0x5, 1, &[0x8d]), "not HTTP status 200"),
        (
            [&head[..], &frame(0, 0, 1, &[0, 0, 0, 0, 9]), &end].concat(),
            "prefix says 9 bytes, response has 0",
        ),
        ([&head[..], &end].concat(), "no message prefix"),
        (frame(7, 0, 0, &[0; 8]), "going away"),
    ] {
        let (seen, _) = one_call(frames).await;
        assert_eq!(seen.len(), 1, "{text}");
        let error = seen[0].as_ref().expect_err(text).to_string();
        assert!(error.contains(text), "{error}, expected {text}");
    }
}

#[tokio::test]
async fn a_protocol_violation_ends_the_connection_and_every_call() {
    let setting = |name: u8, value: u32| {
        let pair = [&[0, name][..], &value.to_be_bytes()].concat();
        frame(4, 0, 0, &pair)
    };
    let no_place = "a frame on a stream where it has no place";
    let length = "a frame of a length that its kind does not have";
    let never_opened = "a frame of a stream that was never opened";
    let frame_size = "a largest frame that HTTP/2 does not have";
    let window = "a window beyond the largest";
    for (frames, text) in [
        (frame(5, 0x4, 1, &[0, 0, 0, 2, 0x88]), "a push"),
        (frame(1, 0x4, 1, &[0xff, 0x7f]), "malformed"),
        (
            vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1],
            "larger than announced",
        ),
        (frame(9, 0x4, 1, &[]), "a continuation of nothing"),
        (Vec::new(), "closed by the peer"),
        (setting(2, 1), "a server that asks for pushes"),
        (setting(4, 1 << 31), window),
        (setting(5, (1 << 14) - 1), frame_size),
        (setting(5, 1 << 24), frame_size),
        (frame(4, 0, 0, &[0; 5]), length),
        (frame(4, 1, 0, &[0; 6]), length),
        (frame(4, 0, 1, &[]), no_place),
        (frame(6, 0, 0, &[0; 7]), length),
        (frame(6, 0, 1, &[0; 8]), no_place),
        (frame(8, 0, 0, &[0; 4]), "a window update of nothing"),
        (frame(8, 0, 0, &[0; 5]), length),
        (frame(8, 0, 0, &(u32::MAX >> 1).to_be_bytes()), window),
        (frame(8, 0, 3, &[0, 0, 0, 1]), never_opened),
        (frame(3, 0, 1, &[0; 3]), length),
        (frame(3, 0, 0, &[0; 4]), no_place),
        (frame(3, 0, 3, &[0; 4]), never_opened),
        (frame(7, 0, 0, &[0; 7]), length),
        (frame(7, 0, 1, &[0; 8]), no_place),
        (frame(0, 0, 0, &[0; 5]), no_place),
        (frame(0, 0, 3, &[0; 5]), never_opened),
        (frame(1, 0x4, 2, &[0x88]), never_opened),
    ] {
        let (seen, turn) = one_call(frames).await;
        let error = turn.expect_err(text).to_string();
        assert!(error.contains(text), "{error}, expected {text}");
        assert!(seen.len() == 1 && seen[0].is_err(), "{text}");
    }
}

#[tokio::test]
async fn data_beyond_a_flow_control_window_ends_the_connection() {
    for (stream, connection, sent, text) in [
        (
            10_000,
            1 << 20,
            12_000,
            "more data than the stream's window",
        ),
        (
            1 << 20,
            65_535,
            70_000,
            "more data than the connection's window",
        ),
    ] {
        let windows = |http2: &mut Http2| {
            http2.stream_window_bytes = stream;
            http2.connection_window_bytes = connection;
        };
        let data = frame(0, 0, 1, &vec![0; sent]);
        let (_, turn) = one_call_with(data, windows).await;
        let error = turn.expect_err(text).to_string();
        assert!(error.contains(text), "{error}, expected {text}");
    }
}

#[tokio::test]
async fn goaway_fails_later_calls_and_accepted_ones_complete() {
    let reason = frame(7, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11]);
    let (seen, _) = one_call(reason).await;
    let error = seen[0].as_ref().expect_err("refused").to_string();
    assert!(error.contains("going away, error code 11"), "{error}");

    let frames = [
        frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]),
        frame(1, 0x4, 1, &[0x88]),
        frame(0, 0, 1, &[0, 0, 0, 0, 2, b'h', b'i']),
        frame(1, 0x5, 1, &status_ok()),
    ];
    let (seen, turn) = one_call(frames.concat()).await;
    turn.expect("the call is among those that it takes");
    assert_eq!(seen[0].as_ref().expect("an answer"), b"hi");
}

/// The peer allows one open call, sends GOAWAY, and responds to that call only after the other
/// calls have failed because of the GOAWAY.
#[tokio::test]
async fn both_implementations_have_open_calls_answered_by_a_peer_that_goes_away() {
    for framing in [Framing::Minimal, Framing::H2Crate] {
        let (listener, config) = listen().await;
        let (failed, refused) = tokio::sync::oneshot::channel();
        let server = tokio::spawn(async move {
            let mut settings = h2::server::Builder::new();
            settings.max_concurrent_streams(1);
            let socket = listener.accept().await.expect("a client").0;
            let mut connection: h2::server::Connection<_, Bytes> =
                settings.handshake(socket).await.expect("a client");
            let accepted = connection.accept().await.expect("a call");
            let (_request, mut respond) = accepted.expect("a call");
            connection.graceful_shutdown();
            let answer = async {
                refused.await.expect("the others fail");
                let head = Response::builder().header("content-type", "application/grpc");
                let head = head.body(()).expect("a head");
                let mut stream = respond.send_response(head, false).expect("open");
                let message = Bytes::from_static(&[0, 0, 0, 0, 2, b'h', b'i']);
                stream.send_data(message, false).expect("open");
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                stream.send_trailers(trailers).expect("open");
            };
            // Further calls get no response.
            let serve = async { while connection.accept().await.is_some() {} };
            tokio::join!(answer, serve);
        });
        let calls = PipelinedConnection::connect_as(framing, &config, None).await;
        let mut calls = calls.expect("it accepts");
        for token in 0..4 {
            let sent = calls.send(Rpc::Range, &RangeRequest::default(), token);
            sent.expect("alive");
        }
        let mut seen = Vec::new();
        let mut failed = Some(failed);
        loop {
            let mut note = |done: Completion<'_>| {
                seen.push((done.token, done.response.map(<[u8]>::to_vec)));
            };
            let turn = tokio::time::timeout(Duration::from_secs(20), calls.drive(&mut note));
            let ended = turn.await.expect("a turn").is_err();
            if let Some(failed) = failed.take() {
                assert!(seen.iter().all(|(_, answer)| answer.is_err()), "{seen:?}");
                failed.send(()).expect("the server waits");
            }
            if ended {
                break;
            }
        }
        let answered = seen.iter().filter(|(_, answer)| answer.is_ok());
        let answered: Vec<_> = answered.map(|(token, _)| *token).collect();
        assert_eq!(
            (answered, seen.len()),
            (vec![0], 4),
            "{framing:?}: {seen:?}"
        );
        assert!(calls.send(Rpc::Range, &RangeRequest::default(), 5).is_err());
        drop(calls);
        server.await.expect("it ends with its client");
    }
}

#[tokio::test]
async fn stream_ids_that_are_used_up_end_a_connection_once_its_calls_are_answered() {
    let (listener, config) = listen().await;
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (socket, _) = listener.accept().await.expect("a client");
            tokio::spawn(echo(socket, h2::server::Builder::new()));
        }
    });
    let mut calls = PipelinedConnection::connect(&config, None).await;
    let calls = calls.as_mut().expect("it accepts");
    let Inner::Minimal(connection) = &mut calls.inner else {
        panic!("the minimal implementation serves this peer");
    };
    // Only two stream ids are left.
    connection.continue_at((1 << 31) - 3);
    let request = RangeRequest::default();
    for token in 0..2 {
        calls.send(Rpc::Range, &request, token).expect("an id");
    }
    let refused = calls.send(Rpc::Range, &request, 2);
    let refused = refused.expect_err("no id is left").to_string();
    assert!(refused.contains("takes no new calls"), "{refused}");
    for (token, answer) in answers(calls, 2).await {
        answer.unwrap_or_else(|error| panic!("call {token}: {error}"));
    }
    let ended = calls.drive(&mut |_| {}).await;
    let ended = ended.expect_err("nothing can follow").to_string();
    assert!(ended.contains("stream ids are used up"), "{ended}");

    calls.reconnect().await.expect("it accepts again");
    assert_eq!(calls.framing(), Framing::Minimal);
    calls.send(Rpc::Range, &request, 3).expect("a new one");
    assert!(answers(calls, 1).await[0].1.is_ok());
    server.await.expect("two connections");
}

/// Without a limit, a peer that sends PINGs and reads no replies would make the client's buffer
/// grow.
#[tokio::test]
async fn a_peer_that_floods_and_does_not_read_is_disconnected() {
    let settings = frame(4, 0, 0, &[]);
    for (flood, expected) in [(frame(6, 0, 0, &[9; 8]), "ping"), (settings, "settings")] {
        let (listener, config) = listen().await;
        let peer = tokio::spawn(async move {
            // Ends when the client does. The peer reads nothing, and the client stops reading once
            // it has closed the connection.
            let mut socket = asked(listener).await;
            let many = flood.repeat(1_000);
            while socket.write_all(&many).await.is_ok() {}
        });
        let mut calls = PipelinedConnection::connect(&config, None)
            .await
            .expect("settings come");
        calls
            .send(Rpc::Range, &RangeRequest::default(), 1)
            .expect("alive");
        let mut seen = 0;
        let mut note = |_: Completion<'_>| seen += 1;
        let turn = tokio::time::timeout(Duration::from_secs(60), calls.drive(&mut note)).await;
        let error = turn.expect("an end").expect_err(expected).to_string();
        assert!(error.contains("left 10000 replies"), "{expected}: {error}");
        assert_eq!(seen, 1, "the call is shown as failed");
        assert_eq!(calls.framing(), Framing::Minimal);
        drop(calls);
        peer.await.expect("it ends with its client");
    }
}

/// Only unread replies are limited, not PINGs.
#[tokio::test]
async fn a_peer_that_reads_may_ping_without_limit() {
    let (listener, config) = listen().await;
    let peer = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        let settings = frame(4, 0, 0, &[]);
        socket.write_all(&settings).await.expect("it reads");
        let (mut read, mut write) = socket.split();
        let (pings, answers) = (frame(6, 0, 0, &[9; 8]).repeat(1_000), async {
            let mut received = 0;
            let mut part = [0; 4096];
            while received < 50 * 17_000 {
                received += read.read(&mut part).await.expect("it writes");
            }
        });
        let asking = async {
            for _ in 0..50 {
                write.write_all(&pings).await.expect("it reads");
            }
        };
        tokio::join!(asking, answers);
        write.shutdown().await.expect("it is open");
    });
    let mut calls = PipelinedConnection::connect(&config, None)
        .await
        .expect("settings come");
    let mut note = |_: Completion<'_>| {};
    let turn = tokio::time::timeout(Duration::from_secs(60), calls.drive(&mut note)).await;
    let error = turn.expect("an end").expect_err("the end").to_string();
    assert!(error.contains("closed by the peer"), "{error}");
    peer.await.expect("every ping was answered");
}
