//! `/debug/opaque?bytes=N`: N bytes of cached objects as one plain body, the yardstick of lists: the same bytes
//! in the same frames through the same HTTP server, without anything that a list does.

use std::fmt;

use etcd_api::keys::KeyRange;
use index::{Cursor, Tree};
use wire::frame::{Frame, FrameBuilder};

use super::object::Object;

const EVERYTHING: KeyRange<'_> = KeyRange::From(b"");

/// Every object of a state, again and again, until enough bytes are sent.
pub struct OpaqueBody {
    objects: Tree<Object>,
    walk: Cursor<Object>,
    /// Bytes that are not in `frames` yet.
    left: u64,
    frames: FrameBuilder,
}

impl OpaqueBody {
    /// `bytes` bytes of these objects; `None` when there is nothing to send.
    pub(crate) fn new(objects: Tree<Object>, bytes: u64) -> Option<Self> {
        (objects.weight() > 0).then(|| Self {
            walk: objects.cursor(EVERYTHING),
            objects,
            left: bytes,
            frames: FrameBuilder::new(usize::MAX),
        })
    }

    /// Bytes that are still to come.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.left + self.frames.len() as u64
    }

    /// The next frame; `None` when all is sent.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        while self.left > 0 && !self.frames.is_full() {
            let Some(object) = self.walk.next_ref() else {
                self.walk = self.objects.cursor(EVERYTHING);
                continue;
            };
            let mut item = object.item();
            item.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= item.len() as u64;
            self.frames.put_part(item);
        }
        (!self.frames.is_empty()).then(|| self.frames.take_frame())
    }
}

impl fmt::Debug for OpaqueBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpaqueBody({} bytes)", self.unread_bytes())
    }
}
