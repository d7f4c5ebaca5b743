//! The sending half of a connection: requests, replies to the peer's frames, and the peer's limits.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use bytes::BufMut;
use prost::Message;

use super::frame::{self, setting};
use super::hpack::{DEFAULT_TABLE_BYTES, Encoder};
use super::stream::Streams;
use crate::client::pipelined::response::PREFIX_BYTES;
use crate::client::pipelined::{Ended, Rpc};

/// The largest window that HTTP/2 allows.
const MAX_WINDOW: i64 = (1 << 31) - 1;

/// Valid values of SETTINGS_MAX_FRAME_SIZE.
const FRAME_BYTES: RangeInclusive<usize> = 1 << 14..=(1 << 24) - 1;

/// Largest output buffer that is kept after it has been written, bytes; larger ones are freed.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// Maximum number of replies to PING, SETTINGS and DATA frames that wait to be written (some 170
/// KB). Normal peers cause one or two.
const MAX_QUEUED_REPLIES: usize = 10_000;

/// The output buffer, the peer's limits, and the requests that these limits delay.
#[derive(Debug)]
pub(super) struct SendState {
    out: Vec<u8>,
    written: usize,
    /// Number of replies to PING, SETTINGS and DATA frames in `out`, all before `replies_end`.
    replies: usize,
    replies_end: usize,
    headers: Option<Encoder>,
    /// Body bytes that may still be sent on the connection.
    window: i64,
    /// Body bytes that may be sent on a new stream.
    initial_window: i64,
    max_frame: usize,
    max_streams: usize,
    header_table: usize,
    /// The request that has been sent partially.
    partial: Option<PartialRequest>,
    /// Requests of which nothing has been sent.
    queue: VecDeque<QueuedRequest>,
}

#[derive(Debug)]
struct PartialRequest {
    stream: u32,
    body: Vec<u8>,
    sent: usize,
    window: i64,
}

#[derive(Debug)]
struct QueuedRequest {
    rpc: Rpc,
    token: u64,
    body: Vec<u8>,
}

impl Default for SendState {
    fn default() -> Self {
        Self {
            out: Vec::new(),
            written: 0,
            replies: 0,
            replies_end: 0,
            headers: None,
            window: frame::DEFAULT_WINDOW.into(),
            initial_window: frame::DEFAULT_WINDOW.into(),
            max_frame: *FRAME_BYTES.start(),
            max_streams: usize::MAX,
            header_table: DEFAULT_TABLE_BYTES,
            partial: None,
            queue: VecDeque::new(),
        }
    }
}

impl SendState {
    /// Sets the encoder of request headers, once the endpoint is known.
    pub(super) fn set_request_headers(&mut self, headers: Encoder) -> Result<(), Ended> {
        if headers.table_bytes() > self.header_table {
            return Err(Ended::Unsupported("header table too small".into()));
        }
        self.headers = Some(headers);
        Ok(())
    }

    /// Returns the output buffer, to append frames that are not subject to flow control.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Returns the bytes that must still be written.
    pub(super) fn unwritten(&self) -> Option<&[u8]> {
        self.out.get(self.written..).filter(|rest| !rest.is_empty())
    }

    /// Records that the socket has accepted `count` bytes.
    pub(super) fn mark_written(&mut self, count: usize) {
        self.written += count;
        if self.written >= self.replies_end {
            self.replies = 0;
            self.replies_end = 0;
        }
        if self.written == self.out.len() {
            self.written = 0;
            self.out.clear();
            if self.out.capacity() > MAX_KEPT_BYTES {
                self.out = Vec::new();
            }
        }
    }

    /// Appends the reply to a frame of the peer, which `reply` encodes. The number of replies is
    /// limited, because a peer may send such frames without end and read nothing.
    fn reply(&mut self, reply: impl FnOnce(&mut Vec<u8>)) -> Result<(), Ended> {
        if self.replies == MAX_QUEUED_REPLIES {
            return Err(Ended::Flooded {
                replies: MAX_QUEUED_REPLIES,
            });
        }
        reply(&mut self.out);
        self.replies += 1;
        self.replies_end = self.out.len();
        Ok(())
    }

    /// Appends the reply to a PING.
    ///
    /// # Errors
    /// [`Ended::Flooded`].
    pub(super) fn pong(&mut self, payload: &[u8]) -> Result<(), Ended> {
        self.reply(|out| frame::pong(out, payload))
    }

    /// Appends a WINDOW_UPDATE for a stream, or for the connection if `stream` is 0.
    ///
    /// # Errors
    /// [`Ended::Flooded`].
    pub(super) fn send_window_update(&mut self, stream: u32, bytes: u32) -> Result<(), Ended> {
        self.reply(|out| frame::window_update(out, stream, bytes))
    }

    /// Returns the number of requests of which nothing has been sent.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Sends a request if the peer's limits allow all of it; otherwise queues it.
    pub(super) fn send(
        &mut self,
        rpc: Rpc,
        request: &impl Message,
        token: u64,
        streams: &mut Streams,
    ) {
        let message = request.encoded_len();
        let body = PREFIX_BYTES + message;
        let fits = body <= self.max_frame
            && body as i64 <= self.window.min(self.initial_window)
            && self.may_open(streams);
        if self.queue.is_empty() && self.partial.is_none() && fits {
            let stream = self.open(rpc, token, streams);
            self.window -= body as i64;
            frame::data_head(&mut self.out, stream, body, true);
            write_message(&mut self.out, request, message);
        } else {
            let mut queued = Vec::with_capacity(body);
            write_message(&mut queued, request, message);
            self.queue.push_back(QueuedRequest {
                rpc,
                token,
                body: queued,
            });
        }
    }

    /// Sends queued requests to the extent that the peer's limits allow.
    pub(super) fn send_queued(&mut self, streams: &mut Streams) {
        loop {
            if let Some(partial) = &mut self.partial {
                while partial.sent < partial.body.len() {
                    let rest = &partial.body[partial.sent..];
                    let window = self.window.min(partial.window);
                    let len = rest.len().min(self.max_frame) as i64;
                    let len = len.min(window).max(0) as usize;
                    if len == 0 {
                        return;
                    }
                    frame::data_head(&mut self.out, partial.stream, len, len == rest.len());
                    self.out.extend_from_slice(&rest[..len]);
                    partial.sent += len;
                    partial.window -= len as i64;
                    self.window -= len as i64;
                }
                self.partial = None;
            }
            if !self.may_open(streams) {
                return;
            }
            let Some(next) = self.queue.pop_front() else {
                return;
            };
            let stream = self.open(next.rpc, next.token, streams);
            self.partial = Some(PartialRequest {
                stream,
                body: next.body,
                sent: 0,
                window: self.initial_window,
            });
        }
    }

    fn may_open(&self, streams: &Streams) -> bool {
        streams.open() < self.max_streams && streams.next_id().is_some()
    }

    fn open(&mut self, rpc: Rpc, token: u64, streams: &mut Streams) -> u32 {
        let stream = streams.next_id().expect("may_open was checked");
        streams.push(token);
        let headers = self.headers.as_mut().expect("set when connected");
        frame::headers(&mut self.out, stream, |block| headers.write(rpc, block));
        stream
    }

    /// Applies the peer's settings and acknowledges them.
    ///
    /// # Errors
    /// [`Ended::Unsupported`] for settings that HTTP/2 forbids or that this client does not
    /// support, [`Ended::Flooded`].
    pub(super) fn settings(&mut self, payload: &[u8]) -> Result<(), Ended> {
        self.apply(payload)
            .map_err(|what| Ended::Unsupported(what.into()))?;
        self.reply(frame::settings_ack)
    }

    fn apply(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        for (name, value) in frame::settings(payload) {
            match name {
                setting::HEADER_TABLE_SIZE => {
                    // A larger table need not be used. A smaller one would require an update in a
                    // header block.
                    self.header_table = self.header_table.min(value as usize);
                    if self.header_table < DEFAULT_TABLE_BYTES {
                        return Err("a header table below the default");
                    }
                }
                setting::MAX_CONCURRENT_STREAMS => self.max_streams = value as usize,
                setting::ENABLE_PUSH if value != 0 => return Err("a server that asks for pushes"),
                setting::INITIAL_WINDOW_SIZE => {
                    if i64::from(value) > MAX_WINDOW {
                        return Err("a window beyond the largest");
                    }
                    let change = i64::from(value) - self.initial_window;
                    self.initial_window = value.into();
                    if let Some(partial) = &mut self.partial {
                        partial.window += change;
                        if partial.window > MAX_WINDOW {
                            return Err("a window beyond the largest");
                        }
                    }
                }
                setting::MAX_FRAME_SIZE => {
                    self.max_frame = value as usize;
                    if !FRAME_BYTES.contains(&self.max_frame) {
                        return Err("a largest frame that HTTP/2 does not have");
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the increment of a WINDOW_UPDATE to the window of a stream, or of the connection if
    /// `stream` is 0.
    pub(super) fn add_credit(&mut self, stream: u32, bytes: u32) -> Result<(), &'static str> {
        let window = match &mut self.partial {
            _ if stream == 0 => &mut self.window,
            Some(partial) if partial.stream == stream => &mut partial.window,
            // The request of this stream has been sent completely.
            _ => return Ok(()),
        };
        if bytes == 0 {
            return Err("a window update of nothing");
        }
        *window += i64::from(bytes);
        if *window > MAX_WINDOW {
            return Err("a window beyond the largest");
        }
        Ok(())
    }

    /// Drops the unsent rest of the request of a call that has ended; returns whether there was
    /// one.
    pub(super) fn drop_partial(&mut self, stream: u32) -> bool {
        self.partial.take_if(|p| p.stream == stream).is_some()
    }

    /// Drops the unsent rest of a request whose stream id is at least `stream`, which the peer does
    /// not accept.
    pub(super) fn drop_partials_from(&mut self, stream: u32) {
        self.partial.take_if(|p| p.stream >= stream);
    }

    /// Removes the queued requests; returns their tokens.
    pub(super) fn take_queued(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.queue).into_iter().map(|q| q.token)
    }
}

fn write_message(out: &mut Vec<u8>, request: &impl Message, len: usize) {
    out.put_u8(0);
    // A request is much smaller than 4 GiB.
    out.put_u32(len as u32);
    request
        .encode(out)
        .expect("a Vec grows to whatever is written");
}
