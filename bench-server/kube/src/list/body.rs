//! The body of a list: head, items and tail, encoded frame by frame as the client reads.
//!
//! JSON is transcoded from protobuf while it is sent, and not kept: the JSON of 150,000 pods would
//! take half as much memory as the whole cache, in addition to it. Only the last object's JSON is
//! kept, because consecutive objects of a list are similar.

use std::borrow::Cow;
use std::task::{Context, Poll};

use bytes::Bytes;
use kube_api::list;
use memory::admission::Admitted;
use memory::in_flight;
use memory::open_lists::OpenList;
use wire::frame::{Frame, FrameBuilder, TARGET_BYTES};

use super::page::{OBJECTS_PER_TURN, ObjectList};
use crate::metrics::Undecodable;
use crate::resource::Resource;
use crate::resource::media_type::{Encoding, ResponseKind};
use crate::resource::object::Object;
use crate::resource::representation::{ItemEncoder, Representation};
use crate::resource::table;
use crate::shard::object_set::ObjectIter;

/// Capacity beyond [`TARGET_BYTES`] for the object or event that fills a frame.
pub(crate) const FRAME_OVERSHOOT_BYTES: usize = 32 * 1024;

/// The size of objects, in bytes, above which a list may be encoded ahead: four frames.
const LONG_BYTES: u64 = 1024 * 1024;

/// The body of a list.
#[derive(Debug)]
pub struct ListBody {
    resource: &'static Resource,
    representation: Representation,
    head: Vec<u8>,
    /// The encoder of objects that are not sent in the cache's own encoding.
    encoder: ItemEncoder,
    /// The bytes after the items.
    tail: Cow<'static, [u8]>,
    /// The items that are sent in the cache's own encoding.
    frames: FrameBuilder,
    items: ObjectIter,
    remaining: u64,
    is_long: bool,
    started: bool,
    ended: bool,
    undecodable: Undecodable,
    _open: Option<OpenList>,
    _admitted: Option<Admitted>,
}

impl ListBody {
    /// Returns the body of a list. For partial metadata in protobuf, reads every object once,
    /// because the head contains the sum of the items' lengths, which is not known otherwise. An
    /// object that cannot be converted is omitted, logged and counted in `undecodable`.
    pub async fn new(
        resource: &'static Resource,
        representation: Representation,
        list: ObjectList,
        undecodable: Undecodable,
    ) -> Self {
        let (api_version, kind) = representation.list_type(resource);
        let mut list = list;
        if representation.kind != ResponseKind::Object || resource.message.is_none() {
            // k8s.io/apiserver sends the shard selector in typed lists only.
            list.meta.shard_selector.clear();
        }
        let meta = &list.meta;
        let custom = representation.kind == ResponseKind::Object && resource.message.is_none();
        let tail = match representation.encoding {
            Encoding::Json if custom => list::custom_json_tail(kind, meta).into(),
            Encoding::Json => list::JSON_TAIL.into(),
            Encoding::Protobuf => list::PROTOBUF_TAIL.into(),
        };
        let head = match (representation.encoding, representation.kind) {
            (Encoding::Json, ResponseKind::Table) => {
                let mut head = list::json_start(api_version, kind, meta);
                table::put_columns(resource, true, &mut head);
                head
            }
            (Encoding::Json, _) if custom => list::custom_json_head(api_version),
            (Encoding::Json, _) => list::json_head(api_version, kind, meta),
            (Encoding::Protobuf, ResponseKind::Object) => {
                list::protobuf_head(api_version, kind, meta, list.items_len as usize)
            }
            (Encoding::Protobuf, _) => {
                let mut iter = list.items.clone();
                let mut items_len = 0;
                for read in 1..=list.count {
                    items_len += iter.next_ref().map_or(0, Representation::partial_item_len);
                    if read.is_multiple_of(OBJECTS_PER_TURN) {
                        tokio::task::yield_now().await;
                    }
                }
                list::protobuf_head(api_version, kind, meta, items_len)
            }
        };
        Self {
            resource,
            representation,
            head,
            encoder: representation.item_encoder(resource),
            tail,
            frames: FrameBuilder::new(list.items_len as usize),
            items: list.items,
            remaining: list.count,
            is_long: list.items_len > LONG_BYTES,
            started: false,
            ended: false,
            undecodable,
            _open: list.open,
            _admitted: list.admitted,
        }
    }

    /// Waits until the connection has room for the next object, if that is large and is encoded
    /// for this list.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        match in_flight::is_over_limit() && self.is_next_large() {
            true => in_flight::poll_room(context),
            false => Poll::Ready(()),
        }
    }

    /// Returns whether the next object is encoded for this list and does not fit in a small frame.
    fn is_next_large(&self) -> bool {
        let next = || self.items.clone().next_ref().is_some_and(Object::is_large);
        self.remaining > 0 && !self.is_shared() && next()
    }

    /// Returns the next frame; `None` after the tail.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        if self.is_over() {
            return None;
        }
        Some(match self.is_shared() {
            true => self.shared_frame(),
            false => self.encoded_frame(),
        })
    }

    /// Returns whether the list is worth encoding on another thread: it is long, and its objects
    /// have to be converted.
    pub(crate) fn should_encode_ahead(&self) -> bool {
        self.is_long && !self.is_shared()
    }

    /// Returns whether objects are sent in the cache's own encoding.
    fn is_shared(&self) -> bool {
        (self.representation.encoding, self.representation.kind)
            == (Encoding::Protobuf, ResponseKind::Object)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.frames.is_empty()
    }

    /// Fills a frame with objects in the cache's own encoding.
    fn shared_frame(&mut self) -> Frame {
        self.frames.put(&std::mem::take(&mut self.head));
        while !self.frames.is_full() && !self.ended {
            match next_item(&mut self.remaining, &mut self.items) {
                Some(object) => {
                    self.frames.put_slice(object.item());
                }
                None => {
                    self.frames.put(&self.tail);
                    self.ended = true;
                }
            }
        }
        self.frames.take_frame()
    }

    /// Fills a frame with objects that are converted for this list.
    fn encoded_frame(&mut self) -> Frame {
        let separator = match self.representation.encoding {
            Encoding::Json => &b","[..],
            Encoding::Protobuf => b"",
        };
        let target = in_flight::frame_bytes(TARGET_BYTES);
        let mut out = Vec::with_capacity(target + FRAME_OVERSHOOT_BYTES.min(target / 2));
        out.append(&mut self.head);
        while out.len() < target {
            if target < TARGET_BYTES && !out.is_empty() && self.is_next_large() {
                break;
            }
            let before = out.len();
            let Some(object) = next_item(&mut self.remaining, &mut self.items) else {
                out.extend_from_slice(&self.tail);
                self.ended = true;
                break;
            };
            if self.started {
                out.extend_from_slice(separator);
            }
            match self.encoder.put(object, &mut out) {
                Ok(()) => self.started = true,
                Err(error) => {
                    // Handled like a stored value that does not decode: the other objects are
                    // served.
                    let key = object.key().escape_ascii();
                    let name = self.resource.name;
                    tracing::warn!(
                        "{name} {key} cannot be encoded and is left out of a list: {error}"
                    );
                    self.undecodable.count();
                    out.truncate(before);
                }
            }
        }
        Frame::from(Bytes::from(out))
    }
}

fn next_item<'w>(remaining: &mut u64, items: &'w mut ObjectIter) -> Option<&'w Object> {
    *remaining = remaining.checked_sub(1)?;
    items.next_ref()
}
