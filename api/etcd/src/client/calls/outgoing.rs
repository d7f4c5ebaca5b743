//! The sending half of a connection framed by hand: requests, and what the peer lets through.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use bytes::BufMut;
use prost::Message;

use super::answer::PREFIX_BYTES;
use super::hpack::{DEFAULT_TABLE_BYTES, Encoder};
use super::streams::Streams;
use super::wire::{self, setting};
use super::{Ended, Rpc};

/// The largest window that HTTP/2 has.
const MOST_WINDOW: i64 = (1 << 31) - 1;

/// What a peer may say is the largest frame that it takes.
const FRAME_BYTES: RangeInclusive<usize> = 1 << 14..=(1 << 24) - 1;

/// An output buffer that grew beyond this is given back once it is written.
const KEEP_BYTES: usize = 256 * 1024;

/// Most answers to PING, SETTINGS and DATA frames that wait for a peer to read them: some 170 KB. A peer asks for one or two.
const MOST_REPLIES: usize = 10_000;

/// What the peer allows, and what waits for it.
#[derive(Debug)]
pub(super) struct Outgoing {
    out: Vec<u8>,
    written: usize,
    /// Answers to PING, SETTINGS and DATA frames in `out`, all of them before `replies_end`.
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
    /// The one request that is on its way in parts.
    partial: Option<Partial>,
    /// Requests that are not begun.
    queue: VecDeque<Queued>,
}

#[derive(Debug)]
struct Partial {
    stream: u32,
    body: Vec<u8>,
    sent: usize,
    window: i64,
}

#[derive(Debug)]
struct Queued {
    rpc: Rpc,
    token: u64,
    body: Vec<u8>,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            out: Vec::new(),
            written: 0,
            replies: 0,
            replies_end: 0,
            headers: None,
            window: wire::DEFAULT_WINDOW.into(),
            initial_window: wire::DEFAULT_WINDOW.into(),
            max_frame: *FRAME_BYTES.start(),
            max_streams: usize::MAX,
            header_table: DEFAULT_TABLE_BYTES,
            partial: None,
            queue: VecDeque::new(),
        }
    }
}

impl Outgoing {
    /// Sets what requests look like, once the endpoint is known.
    pub(super) fn introduce(&mut self, headers: Encoder) -> Result<(), Ended> {
        if headers.table_bytes() > self.header_table {
            return Err(Ended::Unknown("header table too small".into()));
        }
        self.headers = Some(headers);
        Ok(())
    }

    /// Where frames that need no window are appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Bytes that are due.
    pub(super) fn unwritten(&self) -> Option<&[u8]> {
        self.out.get(self.written..).filter(|rest| !rest.is_empty())
    }

    /// Takes note that the socket took `count` of them.
    pub(super) fn wrote(&mut self, count: usize) {
        self.written += count;
        if self.written >= self.replies_end {
            self.replies = 0;
            self.replies_end = 0;
        }
        if self.written == self.out.len() {
            self.written = 0;
            self.out.clear();
            if self.out.capacity() > KEEP_BYTES {
                self.out = Vec::new();
            }
        }
    }

    /// Queues what the peer must be answered, written by `reply`, unless it lets too many answers wait: it may ask
    /// without end and read nothing.
    fn reply(&mut self, reply: impl FnOnce(&mut Vec<u8>)) -> Result<(), Ended> {
        if self.replies == MOST_REPLIES {
            return Err(Ended::Flooded {
                replies: MOST_REPLIES,
            });
        }
        reply(&mut self.out);
        self.replies += 1;
        self.replies_end = self.out.len();
        Ok(())
    }

    /// Answers a PING.
    ///
    /// # Errors
    /// [`Ended::Flooded`].
    pub(super) fn pong(&mut self, payload: &[u8]) -> Result<(), Ended> {
        self.reply(|out| wire::pong(out, payload))
    }

    /// Gives the peer credit for more bytes of a stream; 0 is the connection.
    ///
    /// # Errors
    /// [`Ended::Flooded`].
    pub(super) fn grant(&mut self, stream: u32, bytes: u32) -> Result<(), Ended> {
        self.reply(|out| wire::window_update(out, stream, bytes))
    }

    /// Requests that are not begun.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Begins a request, or queues it behind others and the peer's limits.
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
            wire::data_head(&mut self.out, stream, body, true);
            write_message(&mut self.out, request, message);
        } else {
            let mut framed = Vec::with_capacity(body);
            write_message(&mut framed, request, message);
            self.queue.push_back(Queued {
                rpc,
                token,
                body: framed,
            });
        }
    }

    /// Sends as much of what waits as the peer's limits allow.
    pub(super) fn pump(&mut self, streams: &mut Streams) {
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
                    wire::data_head(&mut self.out, partial.stream, len, len == rest.len());
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
            self.partial = Some(Partial {
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
        let stream = streams.next_id().expect("may_open was asked");
        streams.push(token);
        let headers = self.headers.as_mut().expect("introduced when connected");
        wire::headers(&mut self.out, stream, |block| headers.write(rpc, block));
        stream
    }

    /// Applies the peer's settings and acknowledges them.
    ///
    /// # Errors
    /// [`Ended::Unknown`] for settings that HTTP/2 does not have or this side does not follow, [`Ended::Flooded`].
    pub(super) fn settings(&mut self, payload: &[u8]) -> Result<(), Ended> {
        self.apply(payload)
            .map_err(|what| Ended::Unknown(what.into()))?;
        self.reply(wire::settings_ack)
    }

    fn apply(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        for (name, value) in wire::settings(payload) {
            match name {
                setting::HEADER_TABLE_SIZE => {
                    // A larger table need not be used; a smaller one would have to be agreed on.
                    self.header_table = self.header_table.min(value as usize);
                    if self.header_table < DEFAULT_TABLE_BYTES {
                        return Err("a header table below the default");
                    }
                }
                setting::MAX_CONCURRENT_STREAMS => self.max_streams = value as usize,
                setting::ENABLE_PUSH if value != 0 => return Err("a server that asks for pushes"),
                setting::INITIAL_WINDOW_SIZE => {
                    if i64::from(value) > MOST_WINDOW {
                        return Err("a window beyond the largest");
                    }
                    let change = i64::from(value) - self.initial_window;
                    self.initial_window = value.into();
                    if let Some(partial) = &mut self.partial {
                        partial.window += change;
                        if partial.window > MOST_WINDOW {
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

    /// Adds to a window; 0 is the connection's.
    pub(super) fn credit(&mut self, stream: u32, bytes: u32) -> Result<(), &'static str> {
        let window = match &mut self.partial {
            _ if stream == 0 => &mut self.window,
            Some(partial) if partial.stream == stream => &mut partial.window,
            // Its request was sent whole.
            _ => return Ok(()),
        };
        if bytes == 0 {
            return Err("a window update of nothing");
        }
        *window += i64::from(bytes);
        if *window > MOST_WINDOW {
            return Err("a window beyond the largest");
        }
        Ok(())
    }

    /// Sends no more of a call that has ended; true if there was more.
    pub(super) fn forget(&mut self, stream: u32) -> bool {
        self.partial.take_if(|p| p.stream == stream).is_some()
    }

    /// Sends no more of calls from `stream` on, which the peer does not take.
    pub(super) fn forget_from(&mut self, stream: u32) {
        self.partial.take_if(|p| p.stream >= stream);
    }

    /// Gives up every request that is not begun.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = u64> + use<> {
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
