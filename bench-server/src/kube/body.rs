//! Lists as they are sent: head, items from a snapshot, tail, made frame by frame as the client reads.
//!
//! JSON is made from protobuf while it is sent and not kept: a memo of 150,000 pods' JSON is half as large
//! again as everything the cache holds.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame as HttpFrame, SizeHint};
use kube_api::{ListMeta, list, to_json};

use super::media::Encoding;
use super::object::Object;
use super::resource::Resource;
use super::watch::body::WatchBody;
use crate::store::index::Cursor;
use crate::wire::frame::{Frame, FrameBuilder, TARGET_BYTES};

/// Room behind [`TARGET_BYTES`] for the object that fills a JSON frame.
const OVERSHOOT: usize = 32 * 1024;

/// A list that is being sent.
#[derive(Debug)]
pub struct ListBody {
    resource: &'static Resource,
    encoding: Encoding,
    head: Vec<u8>,
    items: Cursor<Object>,
    left: u64,
    started: bool,
    ended: bool,
}

impl ListBody {
    /// The first `count` of `items`, whose encoded lengths add up to `items_len`.
    pub fn new(
        resource: &'static Resource,
        encoding: Encoding,
        meta: &ListMeta,
        items: Cursor<Object>,
        count: u64,
        items_len: u64,
    ) -> Self {
        let head = match encoding {
            Encoding::Json => list::json_head(resource.api_version, resource.list_kind, meta),
            Encoding::Protobuf => list::protobuf_head(
                resource.api_version,
                resource.list_kind,
                meta,
                items_len as usize,
            ),
        };
        Self {
            resource,
            encoding,
            head,
            items,
            left: count,
            started: false,
            ended: false,
        }
    }

    /// The next frame; `None` behind the tail.
    fn next_frame(&mut self) -> Option<Frame> {
        if self.ended {
            return None;
        }
        Some(match self.encoding {
            Encoding::Json => self.json_frame(),
            Encoding::Protobuf => self.protobuf_frame(),
        })
    }

    fn next_item(&mut self) -> Option<&Object> {
        self.left = self.left.checked_sub(1)?;
        self.items.next_ref()
    }

    fn protobuf_frame(&mut self) -> Frame {
        let mut frame = FrameBuilder::new(TARGET_BYTES);
        frame.put(&std::mem::take(&mut self.head));
        while !frame.is_full() {
            match self.next_item() {
                Some(object) => frame.put_shared(object.item()),
                None => {
                    frame.put(list::PROTOBUF_TAIL);
                    self.ended = true;
                    break;
                }
            }
        }
        frame.finish()
    }

    fn json_frame(&mut self) -> Frame {
        let message = self.resource.message;
        let mut out = Vec::with_capacity(TARGET_BYTES + OVERSHOOT);
        out.append(&mut self.head);
        while out.len() < TARGET_BYTES {
            let comma = std::mem::replace(&mut self.started, true);
            let Some(object) = self.next_item() else {
                out.extend_from_slice(list::JSON_TAIL);
                self.ended = true;
                break;
            };
            let before = out.len();
            if comma {
                out.push(b',');
            }
            if let Err(error) = to_json(message, object.encoded(), "", &mut out) {
                // The head is gone, so all that can be done for the other objects is to leave this one out.
                tracing::warn!(
                    "{} is left out of a list: {error}",
                    object.key().escape_ascii()
                );
                out.truncate(before);
                self.started = comma;
            }
        }
        Frame::from(Bytes::from(out))
    }
}

/// What the tier answers with.
#[derive(Debug)]
pub enum KubeBody {
    /// A whole body.
    Full(Option<Bytes>),
    /// A list.
    List(Box<ListBody>),
    /// A watch.
    Watch(Box<WatchBody>),
}

impl KubeBody {
    /// A whole body.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::Full(Some(bytes.into()))
    }
}

impl Body for KubeBody {
    type Data = Frame;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<HttpFrame<Frame>, Infallible>>> {
        let frame = match &mut *self {
            Self::Full(bytes) => bytes.take().map(Frame::from),
            Self::List(list) => list.next_frame(),
            Self::Watch(watch) => return Pin::new(watch.as_mut()).poll_frame(context),
        };
        Poll::Ready(frame.map(|frame| Ok(HttpFrame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::List(list) => list.ended,
            Self::Watch(watch) => watch.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            // Streamed, as upstream does it: no Content-Length.
            Self::List(_) | Self::Watch(_) => SizeHint::default(),
        }
    }
}
