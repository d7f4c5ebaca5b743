//! The state of the transcoding of an object.

use super::field_map::FieldObserver;
use super::text::JsonBuffer;

/// Writes objects, and reports their fields to a [`FieldObserver`].
pub(super) struct Writer<'o, T> {
    /// Whether all messages so far had their fields in the order that their type promises.
    pub(super) json_order: bool,
    pub(super) out: JsonBuffer<'o>,
    pub(super) observer: T,
}

impl<'o, T: FieldObserver> Writer<'o, T> {
    /// Returns a writer that appends to `out`.
    pub(super) fn new(out: &'o mut Vec<u8>, observer: T) -> Self {
        Self {
            json_order: true,
            out: JsonBuffer::new(out),
            observer,
        }
    }
}
