//! What fields are written by.

use super::text::Text;
use super::trace::Trace;

/// Writes objects, and notes for a [`Trace`] where their fields lie.
pub(super) struct Writer<'o, T> {
    /// Whether no message has broken the order that its type promised.
    pub(super) orderly: bool,
    pub(super) out: Text<'o>,
    pub(super) trace: T,
}

impl<'o, T: Trace> Writer<'o, T> {
    /// Appends to `out`.
    pub(super) fn new(out: &'o mut Vec<u8>, trace: T) -> Self {
        Self {
            orderly: true,
            out: Text::new(out),
            trace,
        }
    }
}
