//! The frames of a watch in protobuf: a length of four bytes and a `WatchEvent`. The event has no
//! envelope, but its object has one.

use etcd_api::client::list_validator::{PartialMessage, Progress};
use kube_api::protobuf::{Fields, bytes_field_len, find_bytes};
use kube_api::{ApiResource, envelope};

use crate::verify::{InvalidResponse, malformed};

/// The annotation of the bookmark after the last object of the initial state.
pub(in crate::operation) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";
/// The type of the event that ends a watch.
pub(in crate::operation) const ERROR: &[u8] = b"ERROR";
/// The `apiVersion` and kind of that event's object.
pub(in crate::operation) const STATUS: (&str, &str) = ("v1", "Status");
/// The reason of a Status that reports that what was requested is no longer kept.
pub(in crate::operation) const EXPIRED: &str = "Expired";
/// The size limit of a frame. No object is as large.
pub(in crate::operation) const LONGEST_FRAME: usize = 64 << 20;
const LENGTH_BYTES: usize = 4;

/// Splits a stream into frames, independently of how its bytes are chunked.
#[derive(Debug, Default)]
pub(in crate::operation) struct Frames {
    partial: PartialMessage,
}

impl Frames {
    /// Reads the next bytes, and passes every frame that is complete to `visit`, without its
    /// length.
    pub(in crate::operation) fn feed(
        &mut self,
        bytes: &[u8],
        mut visit: impl FnMut(&[u8]) -> Result<(), InvalidResponse>,
    ) -> Result<(), InvalidResponse> {
        let mut partial = std::mem::take(&mut self.partial);
        partial.feed(bytes, |input, _| {
            let Some(length) = input.first_chunk::<LENGTH_BYTES>() else {
                return Ok(Progress::NeedMore(LENGTH_BYTES));
            };
            let len = LENGTH_BYTES + u32::from_be_bytes(*length) as usize;
            if len > LONGEST_FRAME {
                return Err(malformed("an event of impossible length"));
            }
            let Some(frame) = input.get(LENGTH_BYTES..len) else {
                return Ok(Progress::NeedMore(len));
            };
            visit(frame)?;
            Ok(Progress::Consumed(len))
        })?;
        self.partial = partial;
        Ok(())
    }
}

/// An event as it is encoded in a frame.
#[derive(Debug, Clone, Copy)]
pub(in crate::operation) struct Event<'f> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub(in crate::operation) kind: &'f [u8],
    /// The object without its envelope.
    pub(in crate::operation) object: &'f [u8],
}

impl<'f> Event<'f> {
    /// Reads a frame that must contain an object of this resource, or the Status of an ERROR, and
    /// nothing else.
    pub(in crate::operation) fn read(
        frame: &'f [u8],
        resource: &ApiResource,
    ) -> Result<Self, InvalidResponse> {
        let kind = field(frame, 1)?;
        let raw = field(frame, 2)?;
        let sealed = field(raw, 1)?;
        if bytes_field_len(1, sealed.len()) != raw.len()
            || bytes_field_len(1, kind.len()) + bytes_field_len(2, raw.len()) != frame.len()
        {
            return Err(bad(&"it holds more than its type and its object"));
        }
        let (api_version, object_kind) = match kind {
            ERROR => STATUS,
            _ => (resource.name.api_version(), resource.kind.as_str()),
        };
        let object = envelope::open_exactly(sealed, api_version, object_kind);
        let object = object.map_err(|e| bad(&e))?;
        Ok(Self { kind, object })
    }

    /// Checks an event that follows the initial state in the same bytes: a later change, or a
    /// bookmark.
    pub(in crate::operation) fn check_live(&self, state: i64) -> Result<(), InvalidResponse> {
        let metadata = field(self.object, 1)?;
        let version = String::from_utf8_lossy(field(metadata, 6)?).into_owned();
        check_live(self.kind, &version, state)
    }

    /// Returns the revision of a bookmark, and whether it marks the end of the initial state.
    pub(in crate::operation) fn bookmark(&self) -> Result<(i64, bool), InvalidResponse> {
        let metadata = field(self.object, 1)?;
        if !field(metadata, 1)?.is_empty() {
            return Err(bad(&"a bookmark with a name"));
        }
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

    /// Returns the error for an unexpected event. If the event is an ERROR, the error has its
    /// message.
    pub(in crate::operation) fn unexpected(&self) -> InvalidResponse {
        let text = |number| field(self.object, number).unwrap_or_default();
        let message = String::from_utf8_lossy(text(3));
        if self.kind == ERROR && text(4) == EXPIRED.as_bytes() {
            return InvalidResponse::Expired(message.into_owned());
        }
        unexpected(self.kind, &message)
    }
}

/// Checks an event after an initial state of revision `state`, whose object has revision `version`.
pub(in crate::operation) fn check_live(
    kind: &[u8],
    version: &str,
    state: i64,
) -> Result<(), InvalidResponse> {
    // The server ends the watch. The initial state before it is complete.
    if kind == ERROR {
        return Ok(());
    }
    let revision = bookmark_revision(version)?;
    let is_newer = match kind {
        b"ADDED" | b"MODIFIED" | b"DELETED" => revision > state,
        b"BOOKMARK" => revision >= state,
        _ => false,
    };
    if is_newer {
        return Ok(());
    }
    let kind = kind.escape_ascii();
    Err(malformed(&format!(
        "an event {kind} of revision {revision} behind the state of revision {state}"
    )))
}

pub(in crate::operation) fn bookmark_revision(text: &str) -> Result<i64, InvalidResponse> {
    text.parse()
        .map_err(|_| malformed("an event's resourceVersion is not a number"))
}

pub(in crate::operation) fn unexpected(kind: &[u8], object: &str) -> InvalidResponse {
    let object: String = object.chars().take(200).collect();
    malformed(&format!(
        "an event {} that does not belong here: {object}",
        kind.escape_ascii()
    ))
}

fn bad(error: &dyn std::fmt::Display) -> InvalidResponse {
    malformed(&format!("an event: {error}"))
}

fn field(message: &[u8], number: u32) -> Result<&[u8], InvalidResponse> {
    let found = find_bytes(message, number).map_err(|e| bad(&e))?;
    Ok(found.unwrap_or_default())
}
