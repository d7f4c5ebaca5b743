//! Tests of frames as buffers, and of HTTP/2's writes of them to a socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use hyper::body::Incoming;
use listen::{Handler, serve_one};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tonic::Status;

use super::*;
use crate::body::{FrameSource, ResponseBody};

fn drain_vectored(mut frame: Frame, step: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while frame.has_remaining() {
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = frame.chunks_vectored(&mut slices);
        let seen = slices[..filled].iter().flat_map(|s| s.iter().copied());
        let before = out.len();
        out.extend(seen.take(step));
        let take = out.len() - before;
        frame.advance(take);
    }
    out
}

#[test]
fn a_frame_reads_as_the_bytes_it_was_built_from() {
    for step in [1, 7, 4096, 1 << 20] {
        let mut builder: FrameBuilder = FrameBuilder::new(64);
        let mut expected = Vec::new();
        for (i, len) in [10usize, 5_000, 3, 70_000, 1, 4_096, 2]
            .into_iter()
            .enumerate()
        {
            let bytes = vec![i as u8; len];
            expected.extend_from_slice(&bytes);
            builder.put_shared(Bytes::from(bytes));
        }
        assert_eq!(builder.len(), expected.len());
        assert_eq!(
            drain_vectored(builder.finish(), step),
            expected,
            "step {step}"
        );
    }
}

#[test]
fn frames_have_the_exact_size_wherever_pieces_end() {
    let mut builder = FrameBuilder::with_target(1 << 20, 10_000);
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for (i, len) in [
        10usize, 50_000, 3, 9_990, 4_096, 4_000, 4_000, 4_000, 25_000,
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = vec![i as u8; len];
        expected.extend_from_slice(&bytes);
        match i % 2 {
            0 => builder.put_shared(Bytes::from(bytes)),
            _ => {
                // The buffer has bytes before and after the slice.
                let buffer = [&[0xff][..], &bytes, &[0xff]].concat().into();
                builder.put_slice(BufferSlice::new(&buffer, 1..1 + len));
            }
        }
        while builder.is_full() {
            let frame = builder.take_frame();
            assert_eq!(frame.remaining(), 10_000);
            seen.extend(drain_vectored(frame, 777));
        }
    }
    let rest = builder.take_frame();
    assert!(rest.remaining() < 10_000 && builder.is_empty());
    seen.extend(drain_vectored(rest, usize::MAX));
    assert!(seen == expected, "every byte once, in order");
}

#[test]
fn chunks_end_with_the_frame() {
    let mut builder: FrameBuilder = FrameBuilder::with_target(0, 5_000);
    builder.put_shared(Bytes::from(vec![1; 12_000]));
    for len in [5_000, 5_000, 2_000] {
        let mut frame = builder.take_frame();
        assert_eq!(frame.chunk().len(), len);
        assert_eq!(frame.copy_to_bytes(len), vec![1; len]);
    }
}

#[test]
#[should_panic(expected = "cannot advance")]
fn advancing_past_the_end_panics() {
    Frame::<SharedSlice>::from(Bytes::from_static(b"ab")).advance(3);
}

/// Size of a referenced slice: 52 of them fill a frame.
const SLICE_BYTES: usize = 5_000;

/// Number of slices of a body.
const SLICES: usize = 600;

fn slices() -> impl Iterator<Item = Bytes> {
    (0..SLICES).map(|i| {
        let bytes: Vec<u8> = (0..SLICE_BYTES).map(|j| (i * 31 + j) as u8).collect();
        Bytes::from(bytes)
    })
}

/// Serves responses of many slices, in frames of the usual size.
#[derive(Clone)]
struct ManySlices;

impl Handler for ManySlices {
    type Data = Frame;
    type Body = ResponseBody;

    fn refuse(&self, _: &Request<Incoming>) -> Option<Response<ResponseBody>> {
        None
    }

    async fn handle(self, _: Request<Incoming>) -> Response<ResponseBody> {
        let mut builder = FrameBuilder::new(usize::MAX);
        slices().for_each(|slice| builder.put_shared(slice));
        Response::new(ResponseBody::pulled(Frames(builder)))
    }
}

struct Frames(FrameBuilder);

impl FrameSource for Frames {
    fn next_frame(&mut self) -> Result<Option<Frame>, Status> {
        Ok((!self.0.is_empty()).then(|| self.0.take_frame()))
    }
}

/// A socket that accepts at most `most` bytes per write, and records the size of each write.
struct Socket {
    inner: DuplexStream,
    most: usize,
    writes: Arc<Mutex<Vec<usize>>>,
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut all = Vec::new();
        for buf in bufs {
            let room = self.most - all.len();
            all.extend_from_slice(&buf[..buf.len().min(room)]);
        }
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &all))?;
        self.writes.lock().push(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

/// Reads `bodies` of [`ManySlices`] concurrently over one connection, with this window and maximum
/// DATA frame, over a socket that accepts at most `most` bytes per write. Checks every byte.
/// Returns the sizes of the writes.
async fn read_over_http2(bodies: usize, window: u32, frame: usize, most: usize) -> Vec<usize> {
    let (near, inner) = tokio::io::duplex(4 << 20);
    let writes = Arc::new(Mutex::new(Vec::new()));
    let socket = Socket {
        inner,
        most,
        writes: writes.clone(),
    };
    let server = tokio::spawn(serve_one(socket, ManySlices));
    let (client, connection) = h2::client::Builder::new()
        .initial_window_size(window)
        .initial_connection_window_size(8 << 20)
        .max_frame_size(frame as u32)
        .handshake::<_, Bytes>(near)
        .await
        .expect("a handshake");
    let connection = tokio::spawn(connection);
    let expected: Vec<u8> = slices().flatten().collect();
    let read_one = async |mut client: h2::client::SendRequest<Bytes>| {
        let request = Request::get("http://localhost/").body(()).expect("a GET");
        let (response, _) = client.send_request(request, true).expect("a stream");
        let mut body = response.await.expect("a response").into_body();
        let mut seen = Vec::new();
        while let Some(data) = body.data().await {
            let data = data.expect("data");
            seen.extend_from_slice(&data);
            let released = body.flow_control().release_capacity(data.len());
            released.expect("it was taken from this window");
        }
        assert!(seen == expected, "every byte once, in order");
    };
    let all = (0..bodies).map(|_| read_one(client.clone()));
    futures::future::join_all(all).await;
    connection.abort();
    server.abort();
    writes.lock().clone()
}

/// HTTP/2 by itself passes only 16 slices to a write.
#[tokio::test]
async fn http2_writes_a_frame_of_many_slices_in_one_call() {
    const HEADER_BYTES: usize = 9;
    let writes = read_over_http2(1, 8 << 20, TARGET_BYTES, usize::MAX).await;
    let whole = writes
        .iter()
        .filter(|&&bytes| bytes >= TARGET_BYTES + HEADER_BYTES);
    assert_eq!(
        whole.count(),
        SLICES * SLICE_BYTES / TARGET_BYTES,
        "{writes:?}"
    );
}

/// Frames end within the exposed slices, at the last of them, and among the extra ones; writes end
/// wherever the socket is full; and bodies alternate.
#[tokio::test]
async fn the_bytes_do_not_depend_on_the_ends_of_writes_and_frames() {
    let large = 8 << 20;
    for most in [usize::MAX, 200_000, 81_000, 80_009, 30_000, 777] {
        for (bodies, window, frame) in [
            (1, large, TARGET_BYTES),
            (1, large, 70_000),
            (1, large, 100_000),
            (1, large, TARGET_BYTES / 2),
            (1, 16 * SLICE_BYTES as u32, TARGET_BYTES),
            (3, large, TARGET_BYTES),
            (3, large, 100_000),
            (3, 300_001, TARGET_BYTES),
        ] {
            read_over_http2(bodies, window, frame, most).await;
        }
    }
}
