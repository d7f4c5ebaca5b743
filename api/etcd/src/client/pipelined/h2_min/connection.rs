//! The connection: handshake, reading, writing and its end. [`receive`] handles received frames.
//!
//! Requests are encoded directly into one output buffer and responses are read from one input
//! buffer, so everything that is ready at the same time costs one system call. Flow control is
//! implemented in both directions.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::FutureExt;
use http::HeaderValue;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame::{self, FrameHead};
use super::hpack::{Decoder, Encoder};
use super::send::SendState;
use super::stream::Streams;
use crate::client::config::{ClientConfig, is_tls};
use crate::client::dial::{self, Socket};
use crate::client::pipelined::{Completion, Ended, Rpc};
use crate::error::Error;

mod receive;

/// Minimum room for one read, bytes.
const READ_BYTES: usize = 64 * 1024;

/// One connection; [`PipelinedConnection`](crate::client::pipelined::PipelinedConnection) documents
/// the methods.
pub(in crate::client::pipelined) struct MinConnection {
    socket: Socket,
    limits: Limits,
    outgoing: SendState,
    /// Bytes received; `input[parsed..filled]` are not parsed yet.
    input: Vec<u8>,
    parsed: usize,
    filled: usize,
    decoder: Decoder,
    /// A header block that a later CONTINUATION frame completes, and the head of its HEADERS frame.
    partial_block: Option<(FrameHead, Vec<u8>)>,
    streams: Streams,
    /// Received body bytes for which no WINDOW_UPDATE of the connection has been sent.
    unacknowledged: u32,
    /// Whether the peer's SETTINGS have been received.
    settings_received: bool,
    /// Whether the peer has sent GOAWAY, after which it accepts no new calls.
    going_away: bool,
    supported: bool,
    ended: bool,
}

/// The limits that this client announces, in bytes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    stream_window: u32,
    connection_window: u32,
    frame: usize,
    message: usize,
}

impl std::fmt::Debug for MinConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MinConnection")
            .field("outstanding", &self.outstanding())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl MinConnection {
    /// Connects and waits for the peer's SETTINGS. The inner error is the reason why this
    /// implementation does not support a peer that has accepted the connection.
    pub(in crate::client::pipelined) async fn connect(
        config: &ClientConfig,
        token: Option<&HeaderValue>,
    ) -> Result<Result<Self, Ended>, Error> {
        let limits = Limits {
            stream_window: config.http2.stream_window_bytes,
            connection_window: config.http2.connection_window_bytes,
            frame: config.http2.max_frame_bytes as usize,
            message: config.max_message_bytes,
        };
        let handshake = move |socket| {
            async move {
                let mut connection = Self::new(socket, limits);
                let received = std::future::poll_fn(|cx| connection.poll_settings(cx)).await;
                Ok(received.map(|()| connection))
            }
            .boxed()
        };
        let (connection, endpoint) = dial::first(config, handshake).await?;
        let authority = endpoint.authority().map_or("", |a| a.as_str());
        let headers = Encoder::new(
            is_tls(&endpoint),
            authority,
            token.map(HeaderValue::as_bytes),
        );
        Ok(connection.and_then(|mut connection| {
            connection.outgoing.set_request_headers(headers)?;
            Ok(connection)
        }))
    }

    fn new(socket: Socket, limits: Limits) -> Self {
        let mut outgoing = SendState::default();
        frame::open(
            outgoing.buffer(),
            limits.stream_window,
            limits.connection_window,
            limits.frame as u32,
        );
        Self {
            socket,
            limits,
            outgoing,
            input: vec![0; READ_BYTES],
            parsed: 0,
            filled: 0,
            decoder: Decoder::default(),
            partial_block: None,
            streams: Streams::new(),
            unacknowledged: 0,
            settings_received: false,
            going_away: false,
            supported: true,
            ended: false,
        }
    }

    fn poll_settings(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        while !self.settings_received {
            self.poll_write(cx)?;
            ready!(self.poll_read(cx))?;
            self.handle_frames(&mut |_| {})?;
        }
        Poll::Ready(Ok(()))
    }

    pub(in crate::client::pipelined) fn outstanding(&self) -> usize {
        self.streams.open() + self.outgoing.queued()
    }

    pub(in crate::client::pipelined) fn is_supported(&self) -> bool {
        self.supported
    }

    /// Returns whether no more calls can be opened. Open calls continue.
    fn takes_no_calls(&self) -> bool {
        self.going_away || self.streams.next_id().is_none()
    }

    /// Sets the stream id of the next call.
    #[cfg(test)]
    pub(in crate::client::pipelined) fn continue_at(&mut self, stream: u32) {
        self.streams.continue_at(stream);
    }

    pub(in crate::client::pipelined) fn send(
        &mut self,
        rpc: Rpc,
        request: &impl Message,
        token: u64,
    ) -> Result<(), Error> {
        if self.ended || self.takes_no_calls() {
            return Err((&Ended::Closed("takes no new calls".into())).into());
        }
        self.outgoing.send(rpc, request, token, &mut self.streams);
        Ok(())
    }

    pub(in crate::client::pipelined) fn poll_drive(
        &mut self,
        cx: &mut Context<'_>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Poll<Result<(), Error>> {
        let ended = match ready!(self.poll_completions(cx, on_completion)) {
            Ok(()) => return Poll::Ready(Ok(())),
            Err(ended) => ended,
        };
        self.ended = true;
        self.supported = matches!(ended, Ended::Closed(_));
        let received = Instant::now();
        let unfinished = self
            .streams
            .remove_from(0)
            .into_iter()
            .map(|call| call.token);
        for token in unfinished.chain(self.outgoing.take_queued()) {
            on_completion(Completion {
                token,
                received,
                response: Err((&ended).into()),
            });
        }
        Poll::Ready(Err((&ended).into()))
    }

    fn poll_completions(
        &mut self,
        cx: &mut Context<'_>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Poll<Result<(), Ended>> {
        if self.ended {
            return Poll::Ready(Err(Ended::Closed("has ended before".into())));
        }
        loop {
            self.outgoing.send_queued(&mut self.streams);
            self.poll_write(cx)?;
            if self.takes_no_calls() && self.streams.open() == 0 {
                let why = match self.going_away {
                    true => "the peer is going away",
                    false => "its stream ids are used up",
                };
                return Poll::Ready(Err(Ended::Closed(why.into())));
            }
            ready!(self.poll_read(cx))?;
            let mut completed = false;
            let taken = self.handle_frames(&mut |done| {
                completed = true;
                on_completion(done);
            });
            taken?;
            if completed {
                // Window updates and PING replies are written with the next requests, or in the
                // next poll.
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Writes the output buffer, to the extent that the socket accepts it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), Ended> {
        while let Some(rest) = self.outgoing.unwritten() {
            match Pin::new(&mut self.socket).poll_write(cx, rest) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(closed(&io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.outgoing.mark_written(count),
                Poll::Ready(Err(e)) => return Err(closed(&e)),
            }
        }
        // A TLS socket holds back records until it is flushed.
        match Pin::new(&mut self.socket).poll_flush(cx) {
            Poll::Ready(Err(e)) => Err(closed(&e)),
            _ => Ok(()),
        }
    }

    /// Reads once. First moves unparsed bytes to the front of the buffer, to make room for a whole
    /// frame.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.parsed > 0 {
            self.input.copy_within(self.parsed..self.filled, 0);
            self.filled -= self.parsed;
            self.parsed = 0;
        }
        if self.filled == self.input.len() {
            let most = READ_BYTES.max(frame::FRAME_HEAD_BYTES + self.limits.frame);
            self.input.resize((self.input.len() * 2).min(most), 0);
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.filled..]);
        match ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer)) {
            Ok(()) if buffer.filled().is_empty() => {
                Poll::Ready(Err(Ended::Closed("closed by the peer".into())))
            }
            Ok(()) => {
                self.filled += buffer.filled().len();
                Poll::Ready(Ok(()))
            }
            Err(e) => Poll::Ready(Err(closed(&e))),
        }
    }

    /// Handles every complete frame in the input buffer.
    fn handle_frames(
        &mut self,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Ended> {
        let received = Instant::now();
        // Taken out of `self`, because handling a frame borrows the whole connection.
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[self.parsed..self.filled];
        let mut taken = Ok(());
        while let Some((head, tail)) = FrameHead::read(rest) {
            if head.len > self.limits.frame {
                taken = Err(unsupported("a frame larger than announced"));
                break;
            }
            let Some((payload, tail)) = tail.split_at_checked(head.len) else {
                break;
            };
            rest = tail;
            taken = self.handle_frame(head, payload, received, on_completion);
            if taken.is_err() {
                break;
            }
        }
        self.parsed = self.filled - rest.len();
        self.input = input;
        taken
    }
}

fn closed(error: &io::Error) -> Ended {
    Ended::Closed(error.to_string())
}

fn unsupported(what: &'static str) -> Ended {
    Ended::Unsupported(what.into())
}
