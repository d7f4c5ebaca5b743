//! What is different at one place.

use super::trace::Link;

/// A value that is to be written in the place of another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patch {
    /// Which one.
    pub(super) fragment: Link,
    /// Offset of the field in the object that has the new value.
    pub(super) field: u32,
}
