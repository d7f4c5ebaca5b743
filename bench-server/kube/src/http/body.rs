//! The body of every response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame as HttpFrame, SizeHint};
use wire::frame::Frame;

use super::content_encoding::EncodedList;
use crate::list::body::ListBody;
use crate::list::encode_ahead::AheadBody;
use crate::watch::body::WatchBody;

/// The body of a response.
#[derive(Debug)]
pub enum ResponseBody {
    /// A body that is complete in memory.
    Full(Option<Bytes>),
    /// A list whose frames are encoded on demand.
    List(Box<ListBody>),
    /// A long list whose frames are encoded ahead on another thread.
    Ahead(Box<AheadBody>),
    /// A list that is indented or compressed.
    Encoded(Box<EncodedList>),
    /// A watch.
    Watch(Box<WatchBody>),
}

impl ResponseBody {
    /// Returns a body that consists of these bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::Full(Some(bytes.into()))
    }

    /// Returns the body of a list that is neither indented nor compressed.
    pub fn list(list: ListBody) -> Self {
        match list.should_encode_ahead() {
            true => Self::Ahead(AheadBody::new(list).into()),
            false => Self::List(list.into()),
        }
    }
}

impl Body for ResponseBody {
    type Data = Frame;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<HttpFrame<Frame>, Infallible>>> {
        let frame = match &mut *self {
            Self::Full(bytes) => bytes.take().map(Frame::from),
            Self::List(list) => {
                ready!(list.poll_room(context));
                list.next_frame()
            }
            Self::Ahead(list) => ready!(list.poll_next(context)),
            Self::Encoded(list) => {
                ready!(list.poll_room(context));
                list.next_frame()
            }
            Self::Watch(watch) => return Pin::new(watch.as_mut()).poll_frame(context),
        };
        Poll::Ready(frame.map(|frame| Ok(HttpFrame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::List(list) => list.is_over(),
            Self::Ahead(list) => list.is_over(),
            Self::Encoded(_) => false,
            Self::Watch(watch) => watch.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            // Streamed without Content-Length, as by k8s.io/apiserver.
            Self::List(_) | Self::Ahead(_) | Self::Encoded(_) | Self::Watch(_) => {
                SizeHint::default()
            }
        }
    }
}
