//! Writes successive objects of one type, and copies the text that neighbours have in common.
//!
//! A list is in key order, so pods of one workload are neighbours, and the parts that come from
//! their template are equal byte for byte. One object is kept with its text as the base. Of each
//! other object only the differences from the base are written; the text between them is copied.

use super::diff::DiffBase;
use super::field_map::{FieldMapBuilder, NoFieldMap};
use super::writer::Writer;
use super::{ToJsonError, to_json};
use crate::protobuf::{Fields, WireValue};
use crate::schema::{Kind, Message};

/// Maximum size of a base object, bytes. Larger objects consist of a few long strings, which are
/// written as fast as they are compared.
const MAX_OBJECT_BYTES: usize = 64 * 1024;

/// Number of consecutive bases that no later object could use, after which some objects are written
/// without comparing.
const MAX_UNUSED_BASES: u32 = 3;

/// Maximum number of objects that are then written without comparing. The number doubles each time.
const MAX_SKIPPED: u32 = 64;

/// Writes a series of objects as JSON, each with the result of [`to_json`].
///
/// Holds one of the objects, its text, a map of its fields and the predicted differences: about 45
/// KB for a pod, at most some 600 KB. If no two neighbours are similar, it costs about 1 % more
/// than [`to_json`].
#[derive(Debug)]
pub struct JsonDeltaWriter {
    message: &'static Message,
    head: String,
    /// The object that the next one is compared with, if `has_base`.
    base: DiffBase,
    has_base: bool,
    /// Objects that are still to be written without comparing.
    skip: u32,
    unused_bases: u32,
    /// Whether an object was written as a difference from the base.
    was_used: bool,
}

impl JsonDeltaWriter {
    /// Returns a writer of objects of this type, which all begin with `head` as in [`to_json`].
    pub fn new(message: &'static Message, head: impl Into<String>) -> Self {
        Self {
            message,
            head: head.into(),
            base: DiffBase::default(),
            has_base: false,
            // Many series have only one object.
            skip: 1,
            unused_bases: 0,
            was_used: false,
        }
    }

    /// Appends the next object.
    ///
    /// # Errors
    /// As [`to_json`]; later objects can be written after an error.
    pub fn put(&mut self, object: &[u8], out: &mut Vec<u8>) -> Result<(), ToJsonError> {
        if self.skip > 0 || object.len() > MAX_OBJECT_BYTES {
            self.skip = self.skip.saturating_sub(1);
            return to_json(self.message, object, &self.head, out);
        }
        if self.has_base {
            if self.base.differences(object, self.was_used) {
                let before = out.len();
                if self.base.put_patched(object, out) {
                    self.was_used = true;
                    return Ok(());
                }
                // The object is malformed; this returns the error.
                out.truncate(before);
                return to_json(self.message, object, &self.head, out);
            }
            self.has_base = false;
            if self.was_used {
                self.unused_bases = 0;
            } else if self.count_unused_base() {
                return to_json(self.message, object, &self.head, out);
            }
        }
        self.set_base(object, out)
    }

    /// Counts a base that no object could use; returns whether to stop comparing for some objects.
    fn count_unused_base(&mut self) -> bool {
        self.unused_bases += 1;
        let Some(more) = self.unused_bases.checked_sub(MAX_UNUSED_BASES) else {
            return false;
        };
        let doubled = 1_u32.checked_shl(more).unwrap_or(MAX_SKIPPED);
        self.skip = doubled.min(MAX_SKIPPED) - 1;
        true
    }

    /// Writes an object and makes it the base.
    fn set_base(&mut self, object: &[u8], out: &mut Vec<u8>) -> Result<(), ToJsonError> {
        let (start, base) = (out.len(), &mut self.base);
        let observer = FieldMapBuilder::new(&mut base.field_map, object, start);
        let written = Writer::new(out, observer).object(self.message, object, &self.head);
        self.was_used = false;
        match (&written, base.field_map.finish()) {
            (Ok(()), Some(first)) => {
                base.first = first;
                base.wire.clear();
                base.wire.extend_from_slice(object);
                base.json.clear();
                base.json.extend_from_slice(&out[start..]);
                self.has_base = true;
            }
            _ => drop(self.count_unused_base()),
        }
        written
    }
}

impl DiffBase {
    /// Appends the text of the base, with the values of `object` in place of the patched ones.
    /// Returns false if one of those values is malformed; the caller must then discard the appended
    /// text.
    fn put_patched(&self, object: &[u8], out: &mut Vec<u8>) -> bool {
        let mut writer = Writer::new(out, NoFieldMap);
        let mut copied = 0;
        for patch in &self.patches {
            let entry = self.field_map.get(patch.entry);
            let found = Fields::from(object, patch.field as usize).next();
            let (Some(entry), Some(Ok(found))) = (entry, found) else {
                return false;
            };
            let Some(spec) = entry.spec else {
                return false;
            };
            let json = entry.json.start as usize..entry.json.end as usize;
            writer.out.raw(&self.json[copied..json.start]);
            copied = json.end;
            if writer.item(spec.kind, found.wire).is_err() {
                return false;
            }
        }
        writer.out.raw(&self.json[copied..]);
        true
    }
}

impl Writer<'_, NoFieldMap> {
    /// Writes a value, or an entry of a map.
    fn item(&mut self, kind: Kind, wire: WireValue<'_>) -> Result<(), Option<ToJsonError>> {
        match kind {
            Kind::MapStr | Kind::MapBytes | Kind::MapQuantity => {
                let (key, value) = super::value::entry(wire)?;
                self.map_entry(kind, key, value)
            }
            _ => self.value(kind, wire),
        }
    }
}

#[cfg(test)]
mod tests;
