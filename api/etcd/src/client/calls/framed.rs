//! HTTP/2 framed by hand, as far as unary gRPC calls need it (RFC 9113).
//!
//! Requests are written straight into one output buffer and answers read from one input buffer, so
//! whatever is ready together costs one system call. Flow control is kept in both directions. What
//! a peer may do and this does not know (a header table below the default, a push, a broken block) ends the
//! connection with [`Ended::Unknown`], and the caller goes on with the `h2` library; so does what it may not do.
//!
//! Here is the connection: reading, writing, how it ends. [`frames`] is what comes in.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::FutureExt;
use http::HeaderValue;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::hpack::{Decoder, Encoder};
use super::outgoing::Outgoing;
use super::streams::Streams;
use super::wire::{self, Head};
use super::{Completion, Ended, Rpc};
use crate::client::config::{ClientConfig, is_tls};
use crate::client::dial::{self, Socket};
use crate::error::Error;

mod frames;

/// Bytes that one read may bring at least.
const READ_BYTES: usize = 64 * 1024;

/// One connection. See [`super::CallConnection`] for what its methods promise.
pub(super) struct Framed {
    socket: Socket,
    limits: Limits,
    outgoing: Outgoing,
    /// Bytes that came in; `input[parsed..filled]` are not looked at yet.
    input: Vec<u8>,
    parsed: usize,
    filled: usize,
    decoder: Decoder,
    /// A header block whose end is in a CONTINUATION frame to come, and what opened it.
    partial_block: Option<(Head, Vec<u8>)>,
    streams: Streams,
    /// Body bytes that the peer was not yet given connection credit for.
    unacknowledged: u32,
    /// Whether the peer's settings came.
    settled: bool,
    /// Whether the peer said that it takes no new calls.
    going_away: bool,
    understood: bool,
    ended: bool,
}

/// What this side announces, in bytes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    stream_window: u32,
    connection_window: u32,
    frame: usize,
    message: usize,
}

impl std::fmt::Debug for Framed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Framed")
            .field("outstanding", &self.outstanding())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Framed {
    /// Connects and waits for the peer's settings. The inner error says why a peer that accepted
    /// cannot be spoken to this way.
    pub(super) async fn connect(
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
                let mut framed = Self::new(socket, limits);
                let settled = std::future::poll_fn(|cx| framed.poll_settled(cx)).await;
                Ok(settled.map(|()| framed))
            }
            .boxed()
        };
        let (framed, endpoint) = dial::first(config, handshake).await?;
        let authority = endpoint.authority().map_or("", |a| a.as_str());
        let headers = Encoder::new(
            is_tls(&endpoint),
            authority,
            token.map(HeaderValue::as_bytes),
        );
        Ok(framed.and_then(|mut framed| {
            framed.outgoing.introduce(headers)?;
            Ok(framed)
        }))
    }

    fn new(socket: Socket, limits: Limits) -> Self {
        let mut outgoing = Outgoing::default();
        wire::open(
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
            settled: false,
            going_away: false,
            understood: true,
            ended: false,
        }
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        while !self.settled {
            self.poll_write(cx)?;
            ready!(self.poll_read(cx))?;
            self.take_frames(&mut |_| {})?;
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn outstanding(&self) -> usize {
        self.streams.open() + self.outgoing.queued()
    }

    pub(super) fn was_understood(&self) -> bool {
        self.understood
    }

    pub(super) fn send(
        &mut self,
        rpc: Rpc,
        request: &impl Message,
        token: u64,
    ) -> Result<(), Error> {
        if self.ended || self.going_away {
            return Err((&Ended::Closed("takes no new calls".into())).into());
        }
        self.outgoing.send(rpc, request, token, &mut self.streams);
        Ok(())
    }

    pub(super) fn poll_turn(
        &mut self,
        cx: &mut Context<'_>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Poll<Result<(), Error>> {
        let ended = match ready!(self.poll_completions(cx, on_completion)) {
            Ok(()) => return Poll::Ready(Ok(())),
            Err(ended) => ended,
        };
        self.ended = true;
        self.understood = matches!(ended, Ended::Closed(_));
        let received = Instant::now();
        let unfinished = self.streams.take_from(0).into_iter().map(|call| call.token);
        for token in unfinished.chain(self.outgoing.abandon()) {
            on_completion(Completion {
                token,
                received,
                answer: Err((&ended).into()),
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
            self.outgoing.pump(&mut self.streams);
            self.poll_write(cx)?;
            if self.going_away && self.outstanding() == 0 {
                return Poll::Ready(Err(Ended::Closed("the peer is going away".into())));
            }
            ready!(self.poll_read(cx))?;
            let mut completed = false;
            let taken = self.take_frames(&mut |done| {
                completed = true;
                on_completion(done);
            });
            taken?;
            if completed {
                // Credit and answers to pings leave with the next requests, or now if none follow.
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Writes what is due, as far as the socket takes it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), Ended> {
        while let Some(rest) = self.outgoing.unwritten() {
            match Pin::new(&mut self.socket).poll_write(cx, rest) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(closed(&io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.outgoing.wrote(count),
                Poll::Ready(Err(e)) => return Err(closed(&e)),
            }
        }
        // A TLS socket holds records back until it is flushed.
        match Pin::new(&mut self.socket).poll_flush(cx) {
            Poll::Ready(Err(e)) => Err(closed(&e)),
            _ => Ok(()),
        }
    }

    /// Reads once. What is left of the last read is moved to the front, so that there is room for a
    /// whole frame.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.parsed > 0 {
            self.input.copy_within(self.parsed..self.filled, 0);
            self.filled -= self.parsed;
            self.parsed = 0;
        }
        if self.filled == self.input.len() {
            let most = READ_BYTES.max(wire::HEAD_BYTES + self.limits.frame);
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

    /// Takes every whole frame that came in.
    fn take_frames(&mut self, on_completion: &mut impl FnMut(Completion<'_>)) -> Result<(), Ended> {
        let received = Instant::now();
        // Taken out while it is read, because frames change the rest of the connection.
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[self.parsed..self.filled];
        let mut taken = Ok(());
        while let Some((head, tail)) = Head::read(rest) {
            if head.len > self.limits.frame {
                taken = Err(unknown("a frame larger than announced"));
                break;
            }
            let Some((payload, tail)) = tail.split_at_checked(head.len) else {
                break;
            };
            rest = tail;
            taken = self.take_frame(head, payload, received, on_completion);
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

fn unknown(what: &'static str) -> Ended {
    Ended::Unknown(what.into())
}
