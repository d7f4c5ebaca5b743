//! The server of the baseline: sends bytes of one buffer, through the HTTP server of the tiers and
//! through a plain socket.
//!
//! Nothing is stored, collected or encoded: frames of 256 KiB reference the buffer. The baseline is
//! a separate process, the same for every target, so its memory is freed when it ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::Status;

use crate::listen::{BoundListener, ConnectionClass, Handler, Limits, Workers};
use crate::wire::body::{FrameSource, ResponseBody};
use crate::wire::frame::{Frame, TARGET_BYTES};

/// Content of the buffer: not zero, so that each page is allocated.
const FILL: u8 = b'b';

/// Serves `bytes` bytes until its task is dropped: as the body of any HTTP response, and for every
/// byte received on the plain socket. Prints `ready baseline=URL socket=ADDRESS` on standard output
/// once it accepts connections.
///
/// # Errors
/// Errors of binding a port or starting a thread.
pub async fn serve(bytes: usize) -> anyhow::Result<()> {
    let buffer = Bytes::from(vec![FILL; bytes]);
    let http = BoundListener::loopback().await?;
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no port")?;
    let address = socket.local_addr()?;
    let ready = format!("ready baseline={} socket={address}\n", http.url);
    let sent = buffer.clone();
    thread::Builder::new()
        .name("socket".to_owned())
        .spawn(move || {
            for stream in socket.incoming().flatten() {
                let sent = sent.clone();
                thread::spawn(move || answer(stream, &sent));
            }
        })?;
    let workers = Arc::new(Workers::start(0, true, Limits::trusting())?);
    std::io::stdout().write_all(ready.as_bytes())?;
    http.accept(workers, Baseline(buffer), ConnectionClass::Clients)
        .await;
    Ok(())
}

/// Sends `bytes` for each received byte, until the client disconnects.
fn answer(mut stream: TcpStream, bytes: &[u8]) {
    if let Err(e) = stream.set_nodelay(true) {
        tracing::debug!("connection lost before it was served: {e}");
        return;
    }
    let mut asked = [0];
    while stream.read_exact(&mut asked).is_ok() {
        for part in bytes.chunks(TARGET_BYTES) {
            if stream.write_all(part).is_err() {
                return;
            }
        }
    }
}

/// The HTTP handler, with the buffer.
#[derive(Debug, Clone)]
struct Baseline(Bytes);

impl Handler for Baseline {
    type Data = Frame;
    type Body = ResponseBody;

    fn refuse(&self, _: &Request<Incoming>) -> Option<Response<ResponseBody>> {
        None
    }

    async fn handle(self, _: Request<Incoming>) -> Response<ResponseBody> {
        let len = self.0.len() as u64;
        Response::new(ResponseBody::plain(Unsent(self.0), len))
    }
}

/// The unsent part of the buffer.
struct Unsent(Bytes);

impl FrameSource for Unsent {
    fn next_frame(&mut self) -> Result<Option<Frame>, Status> {
        let len = self.0.len().min(TARGET_BYTES);
        Ok((len > 0).then(|| Frame::from(self.0.split_to(len))))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;

    #[test]
    fn frames_reference_the_buffer_in_order() {
        let buffer = Bytes::from(vec![FILL; 2 * TARGET_BYTES + 7]);
        let begin = buffer.as_ptr() as usize;
        let mut unsent = Unsent(buffer.clone());
        let mut seen = Vec::new();
        while let Some(frame) = unsent.next_frame().expect("it never fails") {
            seen.push((frame.chunk().as_ptr() as usize - begin, frame.remaining()));
        }
        let expected = [
            (0, TARGET_BYTES),
            (TARGET_BYTES, TARGET_BYTES),
            (2 * TARGET_BYTES, 7),
        ];
        assert_eq!(seen, expected);
    }
}
