//! Response bodies: one type for everything a listener answers, so that one service can serve it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame as HttpFrame, SizeHint};
use memory::in_flight;
use tonic::Status;

use super::first_byte_metric::Stopwatch;
use super::frame::{Frame, Shared};
use super::part::SharedPart;
use super::trailers::trailers;

/// A list that is produced while it is sent. Pulled only when the connection can take more, so a
/// slow reader holds back the work, and dropped when the client cancels.
pub trait FrameSource<S = SharedPart>: Send {
    /// The next frame, `None` when the message or stream is complete.
    ///
    /// # Errors
    /// Ends the call with this status after what was already sent.
    fn next_frame(&mut self) -> Result<Option<Frame<S>>, Status>;
}

/// What a listener answers with.
pub struct ResponseBody<S = SharedPart>(Kind<S>);

enum Kind<S> {
    /// No data and no trailers: an error told in the headers, or an empty HTTP answer.
    Empty,
    /// A whole HTTP body.
    Full(Option<Bytes>),
    /// One gRPC message, then its trailers.
    Unary(Option<Frame<S>>),
    /// gRPC messages as they are produced, then trailers; the first is timed.
    Pulled(Box<dyn FrameSource<S>>, Option<Stopwatch>),
    /// Plain bytes as they are produced, this many in all.
    Plain(Box<dyn FrameSource<S>>, u64),
    /// Trailers are due.
    Trailers(HeaderMap),
    /// From one of tonic's services.
    Tonic(tonic::body::Body),
}

impl<S> std::fmt::Debug for ResponseBody<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseBody")
    }
}

impl<S: Shared> ResponseBody<S> {
    /// No data, no trailers.
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// A whole HTTP body.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Full(Some(bytes.into())))
    }

    /// One gRPC message (prefix included) and an OK status.
    pub fn unary(message: Frame<S>) -> Self {
        Self(Kind::Unary(Some(message)))
    }

    /// gRPC messages from `source`, then OK or the error it ended with.
    pub fn pulled(source: impl FrameSource<S> + 'static) -> Self {
        Self(Kind::Pulled(Box::new(source), None))
    }

    /// `len` bytes from `source` as a plain HTTP body; an error resets the stream.
    pub fn plain(source: impl FrameSource<S> + 'static, len: u64) -> Self {
        Self(Kind::Plain(Box::new(source), len))
    }

    /// Has the first write of a list's body stop the watch that `stopwatch` makes; other bodies are not timed.
    pub fn time_first_write(&mut self, stopwatch: impl FnOnce() -> Stopwatch) {
        if let Kind::Pulled(_, slot) = &mut self.0 {
            *slot = Some(stopwatch());
        }
    }

    /// What one of tonic's services answered.
    pub fn tonic(body: tonic::body::Body) -> Self {
        Self(Kind::Tonic(body))
    }
}

impl<S: Shared> Body for ResponseBody<S> {
    type Data = Frame<S>;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<HttpFrame<Frame<S>>, Status>>> {
        let kind = &mut self.0;
        if let Kind::Pulled(..) | Kind::Plain(..) | Kind::Tonic(_) = kind {
            ready!(in_flight::poll_next(cx));
        }
        let next = match kind {
            Kind::Empty => None,
            Kind::Full(bytes) => bytes.take().map(|b| Ok(HttpFrame::data(Frame::from(b)))),
            Kind::Unary(frame) => {
                let frame = frame.take();
                *kind = Kind::Trailers(trailers(Ok(())));
                match frame {
                    Some(frame) if frame.remaining() < in_flight::COUNTED_FROM_BYTES => {
                        in_flight::begin_small();
                        return Poll::Ready(Some(Ok(HttpFrame::data(frame))));
                    }
                    Some(frame) => Some(Ok(HttpFrame::data(frame))),
                    None => return self.poll_frame(cx),
                }
            }
            Kind::Pulled(source, stopwatch) => match source.next_frame() {
                Ok(Some(mut frame)) => {
                    if let Some(stopwatch) = stopwatch.take() {
                        frame.time_first_write(stopwatch);
                    }
                    Some(Ok(HttpFrame::data(frame)))
                }
                Ok(None) => {
                    *kind = Kind::Trailers(trailers(Ok(())));
                    return self.poll_frame(cx);
                }
                Err(status) => {
                    *kind = Kind::Trailers(trailers(Err(&status)));
                    return self.poll_frame(cx);
                }
            },
            Kind::Plain(source, left) => match source.next_frame() {
                Ok(Some(frame)) => {
                    *left = left.saturating_sub(frame.remaining() as u64);
                    Some(Ok(HttpFrame::data(frame)))
                }
                Ok(None) => None,
                Err(status) => Some(Err(status)),
            },
            Kind::Trailers(_) => {
                ready!(in_flight::poll_may_end(cx));
                return Poll::Ready(match std::mem::replace(kind, Kind::Empty) {
                    Kind::Trailers(map) => Some(Ok(HttpFrame::trailers(map))),
                    _ => None,
                });
            }
            Kind::Tonic(body) => ready!(Pin::new(body).poll_frame(cx))
                .map(|next| next.map(|frame| frame.map_data(Frame::from))),
        };
        Poll::Ready(next.map(|next| {
            next.map(|frame| match frame.into_data() {
                Ok(mut data) => {
                    data.count_in_flight();
                    HttpFrame::data(data)
                }
                Err(frame) => frame,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Full(bytes) => bytes.is_none(),
            Kind::Plain(_, left) => *left == 0,
            Kind::Tonic(body) => body.is_end_stream(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Plain(_, left) => SizeHint::with_exact(*left),
            Kind::Empty | Kind::Full(None) => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }
}
