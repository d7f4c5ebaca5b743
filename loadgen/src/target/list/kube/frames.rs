//! The frames of a watch in protobuf: four bytes of length and a `WatchEvent` without envelope, whose object is in one.

use etcd_api::client::walk::{Carry, Unit};
use kube_api::envelope;
use kube_api::protobuf::{Fields, find_bytes};

use super::not_a_list;
use crate::verify::Wrong;

/// The annotation of the bookmark behind the last object of the state.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";
/// A frame beyond this is none: no object is as large.
pub(super) const LONGEST_FRAME: usize = 64 << 20;
const LENGTH_BYTES: usize = 4;

/// Cuts a stream into frames, wherever its parts end.
#[derive(Debug, Default)]
pub(super) struct Frames {
    carry: Carry,
}

impl Frames {
    /// Takes the next bytes, and shows every frame that ends in them, without its length.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut visit: impl FnMut(&[u8]) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let mut carry = std::mem::take(&mut self.carry);
        carry.feed(bytes, |input, _| {
            let Some(length) = input.first_chunk::<LENGTH_BYTES>() else {
                return Ok(Unit::Need(LENGTH_BYTES));
            };
            let len = LENGTH_BYTES + u32::from_be_bytes(*length) as usize;
            if len > LONGEST_FRAME {
                return Err(not_a_list("an event of impossible length"));
            }
            let Some(frame) = input.get(LENGTH_BYTES..len) else {
                return Ok(Unit::Need(len));
            };
            visit(frame)?;
            Ok(Unit::Taken(len))
        })?;
        self.carry = carry;
        Ok(())
    }
}

/// An event as a frame has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'f> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub(super) kind: &'f [u8],
    /// The object without its envelope.
    pub(super) object: &'f [u8],
}

impl<'f> Event<'f> {
    /// Reads a frame.
    pub(super) fn read(frame: &'f [u8]) -> Result<Self, Wrong> {
        let sealed = field(field(frame, 2)?, 1)?;
        Ok(Self {
            kind: field(frame, 1)?,
            object: envelope::open(sealed).map_err(|e| bad(&e))?,
        })
    }

    /// The revision of a bookmark, and whether it says that the state before it is whole.
    pub(super) fn bookmark(&self) -> Result<(i64, bool), Wrong> {
        let metadata = field(self.object, 1)?;
        let mut ends_state = false;
        for entry in Fields::new(metadata) {
            let entry = entry.map_err(|e| bad(&e))?;
            if let (12, Some(entry)) = (entry.number, entry.wire.bytes()) {
                ends_state |= field(entry, 1)? == INITIAL_EVENTS_END.as_bytes()
                    && field(entry, 2)? == b"true";
            }
        }
        let revision = bookmark_revision(&String::from_utf8_lossy(field(metadata, 6)?))?;
        Ok((revision, ends_state))
    }

    /// What is said about an event that nobody expects: its message, where it is an ERROR.
    pub(super) fn unexpected(&self) -> Wrong {
        let message = field(self.object, 3).unwrap_or_default();
        unexpected(self.kind, &String::from_utf8_lossy(message))
    }
}

pub(super) fn bookmark_revision(text: &str) -> Result<i64, Wrong> {
    text.parse()
        .map_err(|_| not_a_list("the bookmark's resourceVersion is not a number"))
}

pub(super) fn unexpected(kind: &[u8], object: &str) -> Wrong {
    let object: String = object.chars().take(200).collect();
    not_a_list(&format!(
        "an event {} that does not belong here: {object}",
        kind.escape_ascii()
    ))
}

fn bad(error: &dyn std::fmt::Display) -> Wrong {
    not_a_list(&format!("an event: {error}"))
}

fn field(message: &[u8], number: u32) -> Result<&[u8], Wrong> {
    let found = find_bytes(message, number).map_err(|e| bad(&e))?;
    Ok(found.unwrap_or_default())
}
