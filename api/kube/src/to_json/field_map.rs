//! The positions of an object's fields, on the protobuf wire and in its JSON.

use std::ops::Range;

use crate::schema::Field;

/// Observes the fields of an object while it is written. Nested fields are reported before the
/// message that contains them.
///
/// There are no gaps between fields on the wire, so the end of one is the start of the next.
pub(super) trait FieldObserver {
    /// Returns a mark to pass to [`Self::field`]. Called before the value of a field is written.
    #[inline]
    fn mark(&self) -> usize {
        0
    }

    /// Called after a field, or one value of a list or map, was written. `end` is the address of
    /// the field's end on the wire. `json` is the range of its value in the text, empty if JSON
    /// omits it. `spec` is `None` for a field that the schema does not have.
    #[inline]
    fn field(
        &mut self,
        _mark: usize,
        _end: usize,
        _row: Option<&'static Field>,
        _json: Range<usize>,
    ) {
    }

    /// Called when a message was copied to reorder its fields: later addresses are not inside the
    /// object.
    fn invalidate(&mut self) {}
}

/// An observer that does nothing, for when only the text is needed.
pub(super) struct NoFieldMap;

impl FieldObserver for NoFieldMap {}

/// One field, or one value of a list or map.
#[derive(Debug)]
pub(super) struct FieldEntry {
    /// `None` if the schema does not have the field.
    pub(super) spec: Option<&'static Field>,
    /// Offset of its end on the wire.
    pub(super) end: u32,
    /// Range of its value in the text; empty if JSON omits it.
    pub(super) json: Range<u32>,
    /// The first entry nested in this one, in wire order, and the next entry of the same message.
    pub(super) first: EntryIndex,
    pub(super) next: EntryIndex,
    /// Number of nested entries, plus one for this entry.
    pub(super) count: u32,
    /// Whether an object had another value in this field, or in a field nested in it.
    pub(super) is_varying: bool,
}

/// The index of an entry; [`END`] for none.
pub(super) type EntryIndex = u32;

/// The `next` of the last entry of a message.
const END: EntryIndex = EntryIndex::MAX;

/// The fields of one object.
#[derive(Debug, Default)]
pub(super) struct FieldMap {
    /// All entries in text order, each after the entries nested in it.
    all: Vec<FieldEntry>,
    /// Entries of incomplete messages; those of one message are adjacent.
    open: Vec<EntryIndex>,
    /// Whether positions are undefined: see [`FieldObserver::invalidate`].
    is_invalid: bool,
}

impl FieldMap {
    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.open.clear();
        self.is_invalid = false;
    }

    pub(super) fn get(&self, at: EntryIndex) -> Option<&FieldEntry> {
        self.all.get(at as usize)
    }

    /// Records that an object had another value in this field.
    pub(super) fn mark_varying(&mut self, at: EntryIndex) {
        self.all[at as usize].is_varying = true;
    }

    /// Returns the first top-level entry; `None` if positions are undefined.
    pub(super) fn finish(&mut self) -> Option<EntryIndex> {
        let (first, _) = self.close(0);
        (!self.is_invalid).then_some(first)
    }

    /// Links the entries of a message, which are the open ones from `mark` on. Returns the first of
    /// them in wire order, and the number of entries including nested ones.
    fn close(&mut self, mark: usize) -> (EntryIndex, u32) {
        let Self { all, open, .. } = self;
        let siblings = &mut open[mark..];
        let Some(&oldest) = siblings.first() else {
            return (END, 0);
        };
        let count = all.len() as u32 - (oldest + 1 - all[oldest as usize].count);
        // The entries are in the order of JSON.
        let place = |index: &EntryIndex| all[*index as usize].end;
        if !siblings.is_sorted_by_key(place) {
            siblings.sort_unstable_by_key(place);
        }
        for pair in siblings.windows(2) {
            all[pair[0] as usize].next = pair[1];
        }
        let first = siblings[0];
        open.truncate(mark);
        (first, count)
    }
}

/// Builds the field map of an object, which must be smaller than 4 GiB.
#[derive(Debug)]
pub(super) struct FieldMapBuilder<'f> {
    field_map: &'f mut FieldMap,
    /// Address of the object.
    wire: usize,
    /// Offset of its text in the output.
    json: usize,
}

impl<'f> FieldMapBuilder<'f> {
    /// Returns a builder for `object`, whose text begins at the offset `json`.
    pub(super) fn new(field_map: &'f mut FieldMap, object: &[u8], json: usize) -> Self {
        field_map.clear();
        Self {
            field_map,
            wire: object.as_ptr().addr(),
            json,
        }
    }
}

impl FieldObserver for FieldMapBuilder<'_> {
    #[inline]
    fn mark(&self) -> usize {
        self.field_map.open.len()
    }

    #[inline]
    fn field(&mut self, mark: usize, end: usize, spec: Option<&'static Field>, json: Range<usize>) {
        let (first, inside) = self.field_map.close(mark);
        let index = self.field_map.all.len() as EntryIndex;
        self.field_map.open.push(index);
        self.field_map.all.push(FieldEntry {
            spec,
            // Undefined for a reordered message, whose map is invalid.
            end: end.wrapping_sub(self.wire) as u32,
            json: (json.start - self.json) as u32..(json.end - self.json) as u32,
            first,
            next: END,
            count: inside + 1,
            is_varying: false,
        });
    }

    fn invalidate(&mut self) {
        self.field_map.is_invalid = true;
    }
}
