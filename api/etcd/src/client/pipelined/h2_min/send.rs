//! The sending half of a connection: requests, replies, and the peer's limits.

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

/// Values that SETTINGS_MAX_FRAME_SIZE may have.
const FRAME_BYTES: RangeInclusive<usize> = 1 << 14..=(1 << 24) - 1;

/// An output buffer larger than this is freed once it is written.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// Limit of replies to PING, SETTINGS and DATA frames that wait to be written, some 170 KB. Usual
/// peers cause one or two.
const MAX_QUEUED_REPLIES: usize = 10_000;

/// The output buffer, the peer's limits, and the requests that wait for them.
#[derive(Debug)]
pub(super) struct SendState {
    out: Vec<u8>,
    written: usize,
    /// Replies to PING, SETTINGS and DATA frames in `out`, all before `replies_end`.
    replies: usize,
    replies_end: usize,
    headers: Option<Encoder>,
    /// Body bytes that the connection may still send.
    window: i64,
    /// Body bytes that a new stream may send.
    initial_window: i64,
    max_frame: usize,
    max_streams: usize,
    header_table: usize,
    /// The request of which a part was sent.
    partial: Option<PartialRequest>,
    /// Requests of which nothing was sent.
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

    /// Returns the output buffer, for frames that need no window.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Returns the bytes to write.
    pub(super) fn unwritten(&self) -> Option<&[u8]> {
        self.out.get(self.written..).filter(|rest| !rest.is_empty())
    }

    /// Records that the socket accepted `count` bytes.
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

    /// Appends a reply to a frame of the peer, written by `reply`. Their number is limited, since a
    /// peer may send such frames without end and read nothing.
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

    /// Appends a WINDOW_UPDATE for a stream; 0 is the connection.
    ///
    /// # Errors
    /// [`Ended::Flooded`].
    pub(super) fn send_window_update(&mut self, stream: u32, bytes: u32) -> Result<(), Ended> {
        self.reply(|out| frame::window_update(out, stream, bytes))
    }

    /// Returns the number of requests of which nothing was sent.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Sends a request if the peer's limits allow it whole, otherwise queues it.
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

    /// Sends queued requests as far as the peer's limits allow.
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
                    // A larger table need not be used; a smaller one needs an update in a block.
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

    /// Adds the increment of a WINDOW_UPDATE to a stream's window; 0 is the connection.
    pub(super) fn add_credit(&mut self, stream: u32, bytes: u32) -> Result<(), &'static str> {
        let window = match &mut self.partial {
            _ if stream == 0 => &mut self.window,
            Some(partial) if partial.stream == stream => &mut partial.window,
            // The request of this stream was sent whole.
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

    /// Drops the unsent rest of a call that has ended; returns whether there was one.
    pub(super) fn drop_partial(&mut self, stream: u32) -> bool {
        self.partial.take_if(|p| p.stream == stream).is_some()
    }

    /// Drops the unsent rest of a call at or above `stream`, which the peer does not accept.
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
    // A request is far below 4 GiB.
    out.put_u32(len as u32);
    request
        .encode(out)
        .expect("a Vec grows to whatever is written");
}
