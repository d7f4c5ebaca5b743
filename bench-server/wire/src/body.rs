//! Response bodies: one type for all responses of a listener, so that one service can serve them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures::Stream;
use http::HeaderMap;
use http_body::{Body, Frame as HttpFrame, SizeHint};
use memory::in_flight;
use tonic::Status;

use super::buffer_slice::SharedSlice;
use super::first_byte_metric::FirstByteTimer;
use super::frame::{Frame, SharedBytes};
use super::trailers::trailers;

/// Produces a list while it is sent. It is polled only when the connection can take more, so a slow
/// reader delays the work. It is dropped when the client cancels.
pub trait FrameSource<S = SharedSlice>: Send {
    /// Returns the next frame, or `None` when the message or stream is complete.
    ///
    /// # Errors
    /// The status that ends the call after the frames already sent.
    fn next_frame(&mut self) -> Result<Option<Frame<S>>, Status>;
}

/// The body of a listener's responses.
pub struct ResponseBody<S = SharedSlice>(Kind<S>);

enum Kind<S> {
    /// No data and no trailers: for an error whose status is in the headers, or for an empty HTTP
    /// response.
    Empty,
    /// A whole HTTP body.
    Full(Option<Bytes>),
    /// One gRPC message, then its trailers.
    Unary(Option<Frame<S>>),
    /// gRPC messages as they are produced, then trailers. The timer measures the first write.
    Pulled(Box<dyn FrameSource<S>>, Option<FirstByteTimer>),
    /// gRPC messages as they become ready, then trailers.
    Streamed(Pin<Box<dyn Stream<Item = Result<Frame<S>, Status>> + Send>>),
    /// Plain bytes as they are produced, with their total length.
    Plain(Box<dyn FrameSource<S>>, u64),
    /// Only trailers are left.
    Trailers(HeaderMap),
    /// The body of one of tonic's services.
    Tonic(tonic::body::Body),
}

impl<S: SharedBytes> Kind<S> {
    /// Returns the next frame of gRPC messages, or `None` after the last.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<S>>, Status>> {
        match self {
            Self::Pulled(source, timer) => {
                let mut next = source.next_frame();
                if let Ok(Some(frame)) = &mut next
                    && let Some(timer) = timer.take()
                {
                    frame.time_first_write(timer);
                }
                Poll::Ready(next)
            }
            Self::Streamed(frames) => frames.as_mut().poll_next(cx).map(Option::transpose),
            _ => Poll::Ready(Ok(None)),
        }
    }
}

impl<S> std::fmt::Debug for ResponseBody<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseBody")
    }
}

impl<S: SharedBytes> ResponseBody<S> {
    /// Returns a body without data and trailers.
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// Returns a whole HTTP body.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Full(Some(bytes.into())))
    }

    /// Returns a body of one gRPC message (prefix included) and an OK status.
    pub fn unary(message: Frame<S>) -> Self {
        Self(Kind::Unary(Some(message)))
    }

    /// Returns a body of gRPC messages from `source`, then OK or the error of `source`.
    pub fn pulled(source: impl FrameSource<S> + 'static) -> Self {
        Self(Kind::Pulled(Box::new(source), None))
    }

    /// Returns a body of gRPC messages that `frames` yields as they become ready, then OK or the
    /// error of `frames`.
    pub fn streamed(frames: impl Stream<Item = Result<Frame<S>, Status>> + Send + 'static) -> Self {
        Self(Kind::Streamed(Box::pin(frames)))
    }

    /// Returns a plain HTTP body of `len` bytes from `source`; an error resets the stream.
    pub fn plain(source: impl FrameSource<S> + 'static, len: u64) -> Self {
        Self(Kind::Plain(Box::new(source), len))
    }

    /// Makes the first write of a list's body stop the timer that `timer` returns. Other bodies are
    /// not timed.
    pub fn time_first_write(&mut self, timer: impl FnOnce() -> FirstByteTimer) {
        if let Kind::Pulled(_, slot) = &mut self.0 {
            *slot = Some(timer());
        }
    }

    /// Returns the body of one of tonic's services.
    pub fn tonic(body: tonic::body::Body) -> Self {
        Self(Kind::Tonic(body))
    }
}

impl<S: SharedBytes> Body for ResponseBody<S> {
    type Data = Frame<S>;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<HttpFrame<Frame<S>>, Status>>> {
        let kind = &mut self.0;
        if let Kind::Pulled(..) | Kind::Streamed(_) | Kind::Plain(..) | Kind::Tonic(_) = kind {
            ready!(in_flight::poll_ready(cx));
        }
        let next = match kind {
            Kind::Empty => None,
            Kind::Full(bytes) => bytes.take().map(|b| Ok(HttpFrame::data(Frame::from(b)))),
            Kind::Unary(frame) => {
                let frame = frame.take();
                *kind = Kind::Trailers(trailers(Ok(())));
                match frame {
                    Some(frame) if frame.remaining() < in_flight::COUNTED_FROM_BYTES => {
                        in_flight::mark_uncounted();
                        return Poll::Ready(Some(Ok(HttpFrame::data(frame))));
                    }
                    Some(frame) => Some(Ok(HttpFrame::data(frame))),
                    None => return self.poll_frame(cx),
                }
            }
            Kind::Pulled(..) | Kind::Streamed(_) => match ready!(kind.poll_message(cx)) {
                Ok(Some(frame)) => Some(Ok(HttpFrame::data(frame))),
                ended => {
                    *kind = Kind::Trailers(trailers(ended.as_ref().map(|_| ())));
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
