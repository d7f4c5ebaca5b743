//! What comes in on a connection framed by hand, frame by frame.
//!
//! A peer that breaks a rule of RFC 9113 ends the connection; what concerns one call only ends that call.

use std::time::Instant;

use http::{HeaderMap, HeaderName, HeaderValue};
use tonic::{Code, Status};

use super::{Framed, unknown};
use crate::client::calls::answer::{self, PREFIX_BYTES};
use crate::client::calls::streams::Call;
use crate::client::calls::wire::{self, Head, Kind};
use crate::client::calls::{Completion, Ended};
use crate::error::Error;

/// The highest stream id and the largest credit: 31 bits, the highest of the 32 is reserved.
const MOST_ID: u32 = u32::MAX >> 1;

impl Framed {
    /// Takes one whole frame.
    pub(super) fn take_frame(
        &mut self,
        head: Head,
        payload: &[u8],
        received: Instant,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Ended> {
        if let Some(fault) = head.fault() {
            return Err(unknown(fault));
        }
        if !self.settled && head.kind != Kind::Settings {
            return Err(unknown("no settings first"));
        }
        if self.partial_block.is_some() && head.kind != Kind::Continuation {
            return Err(unknown("a header block with something inside"));
        }
        match head.kind {
            Kind::Data => self.data(head, payload, received, on_completion),
            Kind::Headers => {
                let block = head.block(payload).ok_or(unknown("padding too long"))?;
                if !head.ends_block() {
                    self.partial_block = Some((head, block.to_vec()));
                    return Ok(());
                }
                self.headers(head, block, received, on_completion)
            }
            Kind::Continuation => {
                let Some((opened, mut block)) = self.partial_block.take() else {
                    return Err(unknown("a continuation of nothing"));
                };
                block.extend_from_slice(payload);
                if opened.stream != head.stream || block.len() > wire::MOST_BLOCK_BYTES {
                    return Err(unknown("a header block out of bounds"));
                }
                if !head.ends_block() {
                    self.partial_block = Some((opened, block));
                    return Ok(());
                }
                self.headers(opened, &block, received, on_completion)
            }
            Kind::Settings if head.is_ack() => Ok(()),
            Kind::Settings => {
                self.settled = true;
                self.outgoing.settings(payload)
            }
            Kind::WindowUpdate => {
                self.check_opened(head.stream)?;
                let credit = wire::number(payload).unwrap_or_default() & MOST_ID;
                self.outgoing.credit(head.stream, credit).map_err(unknown)
            }
            Kind::Ping if head.is_ack() => Ok(()),
            Kind::Ping => self.outgoing.pong(payload),
            Kind::Reset => {
                self.check_opened(head.stream)?;
                let code = wire::number(payload).unwrap_or_default();
                if let Some(call) = self.streams.take(head.stream) {
                    self.outgoing.forget(head.stream);
                    let status = Status::new(
                        wire::status_of_reset(code),
                        format!("stream reset with error code {code}"),
                    );
                    self.complete(call, received, Err(status.into()), on_completion);
                }
                Ok(())
            }
            Kind::GoAway => {
                self.go_away(payload, received, on_completion);
                Ok(())
            }
            Kind::Push => Err(unknown("a push")),
            Kind::Other => Ok(()),
        }
    }

    /// The peer takes no new calls: those above the last that it takes never happened, the others go on.
    fn go_away(
        &mut self,
        payload: &[u8],
        received: Instant,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) {
        self.going_away = true;
        let refused = (wire::number(payload).unwrap_or_default() & MOST_ID) + 1;
        let ended = match payload.get(4..).and_then(wire::number) {
            Some(0) | None => Ended::Closed("the peer is going away".into()),
            Some(code) => Ended::Closed(format!("the peer is going away, error code {code}")),
        };
        self.outgoing.forget_from(refused);
        for call in self.streams.take_from(refused) {
            self.complete(call, received, Err((&ended).into()), on_completion);
        }
        for token in self.outgoing.abandon() {
            on_completion(Completion {
                token,
                received,
                answer: Err((&ended).into()),
            });
        }
    }

    /// A frame for a stream that was never opened breaks the connection; one for a call that has ended is late.
    fn check_opened(&self, stream: u32) -> Result<(), Ended> {
        match stream == 0 || self.streams.was_opened(stream) {
            true => Ok(()),
            false => Err(unknown("a frame of a stream that was never opened")),
        }
    }

    fn data(
        &mut self,
        head: Head,
        payload: &[u8],
        received: Instant,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Ended> {
        let len = payload.len() as u32;
        self.unacknowledged += len;
        if self.unacknowledged > self.limits.connection_window.max(wire::DEFAULT_WINDOW) {
            return Err(unknown("more data than the connection's window"));
        }
        if self.unacknowledged >= self.limits.connection_window / 2 {
            self.outgoing.grant(0, self.unacknowledged)?;
            self.unacknowledged = 0;
        }
        let data = head.unpadded(payload).ok_or(unknown("padding too long"))?;
        let Some(call) = self.streams.get_mut(head.stream) else {
            return self.check_opened(head.stream);
        };
        call.unacknowledged += len;
        if call.unacknowledged > self.limits.stream_window {
            return Err(unknown("more data than the stream's window"));
        }
        call.body.extend_from_slice(data);
        if call.body.len() > self.limits.message.saturating_add(PREFIX_BYTES) {
            wire::cancel(self.outgoing.buffer(), head.stream);
            let error = answer::too_large(self.limits.message);
            return self.end(head.stream, received, Err(error), on_completion);
        }
        if head.ends_stream() {
            let error = Error::Protocol("call ended without a grpc-status".into());
            return self.end(head.stream, received, Err(error), on_completion);
        }
        if call.unacknowledged >= self.limits.stream_window / 2 {
            self.outgoing.grant(head.stream, call.unacknowledged)?;
            call.unacknowledged = 0;
        }
        Ok(())
    }

    /// A whole header block: the head of a response, or its end.
    fn headers(
        &mut self,
        head: Head,
        block: &[u8],
        received: Instant,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Ended> {
        let mut http = None;
        let mut grpc_ok = false;
        let mut others = None;
        let read = self.decoder.read(block, |name, value| match (name, value) {
            (b":status", value) => http = Some(value == b"200"),
            (b"grpc-status", b"0") => grpc_ok = true,
            (name, value) if name.starts_with(b"grpc-") => {
                others.get_or_insert_with(HeaderMap::new);
                if let (Some(map), Ok(name), Ok(value)) = (
                    &mut others,
                    HeaderName::from_bytes(name),
                    HeaderValue::from_bytes(value),
                ) {
                    map.insert(name, value);
                }
            }
            _ => {}
        });
        read.map_err(|malformed| Ended::Unknown(malformed.to_string()))?;
        let Some(call) = self.streams.get_mut(head.stream) else {
            return self.check_opened(head.stream);
        };
        if !head.ends_stream() {
            // Anything but 200 is told when the call ends; an informational head is followed by another.
            call.head |= http == Some(true);
            return Ok(());
        }
        let head_ok = call.head || http == Some(true);
        let status = others.as_ref().and_then(Status::from_header_map);
        let answer = match (grpc_ok, status) {
            (true, _) if head_ok => Ok(()),
            (_, Some(status)) if head_ok && status.code() != Code::Ok => Err(Error::from(status)),
            _ if !head_ok => Err(Error::Protocol("answer is not HTTP status 200".into())),
            _ => Err(Error::Protocol("call ended without a grpc-status".into())),
        };
        self.end(head.stream, received, answer, on_completion)
    }

    /// Ends a call that may not have been sent whole yet.
    fn end(
        &mut self,
        stream: u32,
        received: Instant,
        answer: Result<(), Error>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Ended> {
        if let Some(call) = self.streams.take(stream) {
            if self.outgoing.forget(stream) {
                wire::cancel(self.outgoing.buffer(), stream);
            }
            self.complete(call, received, answer, on_completion);
        }
        Ok(())
    }

    fn complete(
        &mut self,
        call: Call,
        received: Instant,
        answer: Result<(), Error>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) {
        on_completion(Completion {
            token: call.token,
            received,
            answer: answer.and_then(|()| answer::message(&call.body)),
        });
        self.streams.recycle(call.body);
    }
}
