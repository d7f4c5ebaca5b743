//! Handles the frames that the peer sends.
//!
//! A violation of RFC 9113 ends the connection. An error that concerns only one call ends that
//! call.

use std::time::Instant;

use http::{HeaderMap, HeaderName, HeaderValue};
use tonic::{Code, Status};

use super::{MinConnection, unsupported};
use crate::client::pipelined::h2_min::frame::{self, FrameHead, FrameKind};
use crate::client::pipelined::h2_min::stream::Call;
use crate::client::pipelined::response::{self, PREFIX_BYTES};
use crate::client::pipelined::{Completion, Ended};
use crate::error::Error;

/// The highest stream id and the largest window increment: 31 bits, because the top bit is
/// reserved.
const MAX_STREAM_ID: u32 = u32::MAX >> 1;

impl MinConnection {
    /// Handles one complete frame.
    pub(super) fn handle_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        received: Instant,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Ended> {
        if let Some(violation) = head.violation() {
            return Err(unsupported(violation));
        }
        if !self.settings_received && head.kind != FrameKind::Settings {
            return Err(unsupported("no settings first"));
        }
        if self.partial_block.is_some() && head.kind != FrameKind::Continuation {
            return Err(unsupported("a header block with something inside"));
        }
        match head.kind {
            FrameKind::Data => self.data(head, payload, received, on_completion),
            FrameKind::Headers => {
                let block = head.block(payload).ok_or(unsupported("padding too long"))?;
                if !head.ends_block() {
                    self.partial_block = Some((head, block.to_vec()));
                    return Ok(());
                }
                self.headers(head, block, received, on_completion)
            }
            FrameKind::Continuation => {
                let Some((opened, mut block)) = self.partial_block.take() else {
                    return Err(unsupported("a continuation of nothing"));
                };
                block.extend_from_slice(payload);
                if opened.stream != head.stream || block.len() > frame::MAX_HEADER_BLOCK_BYTES {
                    return Err(unsupported("a header block out of bounds"));
                }
                if !head.ends_block() {
                    self.partial_block = Some((opened, block));
                    return Ok(());
                }
                self.headers(opened, &block, received, on_completion)
            }
            FrameKind::Settings if head.is_ack() => Ok(()),
            FrameKind::Settings => {
                self.settings_received = true;
                self.outgoing.settings(payload)
            }
            FrameKind::WindowUpdate => {
                self.check_opened(head.stream)?;
                let credit = frame::number(payload).unwrap_or_default() & MAX_STREAM_ID;
                self.outgoing
                    .add_credit(head.stream, credit)
                    .map_err(unsupported)
            }
            FrameKind::Ping if head.is_ack() => Ok(()),
            FrameKind::Ping => self.outgoing.pong(payload),
            FrameKind::Reset => {
                self.check_opened(head.stream)?;
                let code = frame::number(payload).unwrap_or_default();
                if let Some(call) = self.streams.take(head.stream) {
                    self.outgoing.drop_partial(head.stream);
                    let status = Status::new(
                        response::status_of_reset(code),
                        format!("stream reset with error code {code}"),
                    );
                    self.complete(call, received, Err(status.into()), on_completion);
                }
                Ok(())
            }
            FrameKind::GoAway => {
                self.go_away(payload, received, on_completion);
                Ok(())
            }
            FrameKind::Push => Err(unsupported("a push")),
            FrameKind::Other => Ok(()),
        }
    }

    /// Handles GOAWAY: fails queued calls and open ones above its stream id. The other calls
    /// continue.
    fn go_away(
        &mut self,
        payload: &[u8],
        received: Instant,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) {
        self.going_away = true;
        let refused = (frame::number(payload).unwrap_or_default() & MAX_STREAM_ID) + 1;
        let ended = match payload.get(4..).and_then(frame::number) {
            Some(0) | None => Ended::Closed("the peer is going away".into()),
            Some(code) => Ended::Closed(format!("the peer is going away, error code {code}")),
        };
        self.outgoing.drop_partials_from(refused);
        for call in self.streams.remove_from(refused) {
            self.complete(call, received, Err((&ended).into()), on_completion);
        }
        for token in self.outgoing.take_queued() {
            on_completion(Completion {
                token,
                received,
                response: Err((&ended).into()),
            });
        }
    }

    /// Returns an error for a frame of a stream that was never opened. Late frames of a call that
    /// has ended are accepted.
    fn check_opened(&self, stream: u32) -> Result<(), Ended> {
        match stream == 0 || self.streams.has_been_opened(stream) {
            true => Ok(()),
            false => Err(unsupported("a frame of a stream that was never opened")),
        }
    }

    fn data(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        received: Instant,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Ended> {
        let len = payload.len() as u32;
        self.unacknowledged += len;
        if self.unacknowledged > self.limits.connection_window.max(frame::DEFAULT_WINDOW) {
            return Err(unsupported("more data than the connection's window"));
        }
        if self.unacknowledged >= self.limits.connection_window / 2 {
            self.outgoing.send_window_update(0, self.unacknowledged)?;
            self.unacknowledged = 0;
        }
        let data = head
            .unpadded(payload)
            .ok_or(unsupported("padding too long"))?;
        let Some(call) = self.streams.get_mut(head.stream) else {
            return self.check_opened(head.stream);
        };
        call.unacknowledged += len;
        if call.unacknowledged > self.limits.stream_window {
            return Err(unsupported("more data than the stream's window"));
        }
        call.body.extend_from_slice(data);
        if call.body.len() > self.limits.message.saturating_add(PREFIX_BYTES) {
            frame::cancel(self.outgoing.buffer(), head.stream);
            let error = response::too_large(self.limits.message);
            return self.end(head.stream, received, Err(error), on_completion);
        }
        if head.ends_stream() {
            let error = Error::Protocol("call ended without a grpc-status".into());
            return self.end(head.stream, received, Err(error), on_completion);
        }
        if call.unacknowledged >= self.limits.stream_window / 2 {
            self.outgoing
                .send_window_update(head.stream, call.unacknowledged)?;
            call.unacknowledged = 0;
        }
        Ok(())
    }

    /// Handles a complete header block: response headers or trailers.
    fn headers(
        &mut self,
        head: FrameHead,
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
        read.map_err(|malformed| Ended::Unsupported(malformed.to_string()))?;
        let Some(call) = self.streams.get_mut(head.stream) else {
            return self.check_opened(head.stream);
        };
        if !head.ends_stream() {
            // A status other than 200 is reported when the call ends. After 1xx headers, others
            // follow.
            call.head |= http == Some(true);
            return Ok(());
        }
        let head_ok = call.head || http == Some(true);
        let status = others.as_ref().and_then(Status::from_header_map);
        let result = match (grpc_ok, status) {
            (true, _) if head_ok => Ok(()),
            (_, Some(status)) if head_ok && status.code() != Code::Ok => Err(Error::from(status)),
            _ if !head_ok => Err(Error::Protocol("response is not HTTP status 200".into())),
            _ => Err(Error::Protocol("call ended without a grpc-status".into())),
        };
        self.end(head.stream, received, result, on_completion)
    }

    /// Ends a call. Resets its stream if the request has not been sent completely.
    fn end(
        &mut self,
        stream: u32,
        received: Instant,
        result: Result<(), Error>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Ended> {
        if let Some(call) = self.streams.take(stream) {
            if self.outgoing.drop_partial(stream) {
                frame::cancel(self.outgoing.buffer(), stream);
            }
            self.complete(call, received, result, on_completion);
        }
        Ok(())
    }

    fn complete(
        &mut self,
        call: Call,
        received: Instant,
        result: Result<(), Error>,
        on_completion: &mut impl FnMut(Completion<'_>),
    ) {
        on_completion(Completion {
            token: call.token,
            received,
            response: result.and_then(|()| response::message(&call.body)),
        });
        self.streams.recycle(call.body);
    }
}
