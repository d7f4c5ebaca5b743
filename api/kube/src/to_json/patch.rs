//! A difference between two objects.

use super::field_map::EntryIndex;

/// A value that replaces the base's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patch {
    /// The field in the base.
    pub(super) entry: EntryIndex,
    /// Offset of the field in the other object.
    pub(super) field: u32,
}
