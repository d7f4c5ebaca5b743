//! Objects of one type one after the other, of which neighbours are mostly alike.
//!
//! A list is in the order of keys, so pods of one workload are neighbours, and what their template says is the
//! same in all of them byte for byte. One of them is kept with its text; of the others only what differs is
//! written, and the text between is copied.

use super::compare::Known;
use super::trace::{Tracer, Untraced};
use super::writer::Writer;
use super::{ToJsonError, to_json};
use crate::protobuf::{Fields, Wire};
use crate::schema::{Kind, Message};

/// Objects longer than this are not kept; what makes them long is a few long strings, which are written as
/// fast as they are compared.
const LONGEST_BYTES: usize = 64 * 1024;

/// Kept objects in a row that were like none behind them, until some objects are passed over.
const IN_VAIN: u32 = 3;

/// Objects that are passed over then: twice as many each time, up to this.
const PASSED_OVER: u32 = 64;

/// Writes a series of objects as JSON, each as [`to_json`] does.
///
/// It holds one of the objects, its text, a note of each of its fields and the way through what differs: about 45 KB for a pod, at
/// most some 600 KB. Where no two neighbours are alike it costs about a hundredth more than [`to_json`].
#[derive(Debug)]
pub struct JsonSeries {
    message: &'static Message,
    head: String,
    /// What the next object is compared with, when `is_known`.
    known: Known,
    is_known: bool,
    /// Objects that are still to be passed over.
    pass: u32,
    in_vain: u32,
    /// Whether an object was like the one that is kept.
    helped: bool,
}

impl JsonSeries {
    /// Of objects of this type, which all begin with `head`: see [`to_json`].
    pub fn new(message: &'static Message, head: impl Into<String>) -> Self {
        Self {
            message,
            head: head.into(),
            known: Known::default(),
            is_known: false,
            // Many a series has one object only.
            pass: 1,
            in_vain: 0,
            helped: false,
        }
    }

    /// Appends the next object.
    ///
    /// # Errors
    /// As [`to_json`]; the objects behind it are written all the same.
    pub fn put(&mut self, object: &[u8], out: &mut Vec<u8>) -> Result<(), ToJsonError> {
        if self.pass > 0 || object.len() > LONGEST_BYTES {
            self.pass = self.pass.saturating_sub(1);
            return to_json(self.message, object, &self.head, out);
        }
        if self.is_known {
            if self.known.differences(object, self.helped) {
                let before = out.len();
                if self.known.put_patched(object, out) {
                    self.helped = true;
                    return Ok(());
                }
                // It is damaged, which is told as ever.
                out.truncate(before);
                return to_json(self.message, object, &self.head, out);
            }
            self.is_known = false;
            if self.helped {
                self.in_vain = 0;
            } else if self.was_in_vain() {
                return to_json(self.message, object, &self.head, out);
            }
        }
        self.keep(object, out)
    }

    /// Counts an object that was kept in vain; whether some are passed over now.
    fn was_in_vain(&mut self) -> bool {
        self.in_vain += 1;
        let Some(more) = self.in_vain.checked_sub(IN_VAIN) else {
            return false;
        };
        let doubled = 1_u32.checked_shl(more).unwrap_or(PASSED_OVER);
        self.pass = doubled.min(PASSED_OVER) - 1;
        true
    }

    /// Writes an object and keeps it.
    fn keep(&mut self, object: &[u8], out: &mut Vec<u8>) -> Result<(), ToJsonError> {
        let (start, known) = (out.len(), &mut self.known);
        let tracer = Tracer::new(&mut known.fragments, object, start);
        let written = Writer::new(out, tracer).object(self.message, object, &self.head);
        self.helped = false;
        match (&written, known.fragments.finish()) {
            (Ok(()), Some(first)) => {
                known.first = first;
                known.wire.clear();
                known.wire.extend_from_slice(object);
                known.json.clear();
                known.json.extend_from_slice(&out[start..]);
                self.is_known = true;
            }
            _ => drop(self.was_in_vain()),
        }
        written
    }
}

impl Known {
    /// Appends the known text, with the values of `object` in place of the patched ones. False when one of those is
    /// malformed; what was appended by then is to be discarded.
    fn put_patched(&self, object: &[u8], out: &mut Vec<u8>) -> bool {
        let mut writer = Writer::new(out, Untraced);
        let mut copied = 0;
        for patch in &self.patches {
            let fragment = self.fragments.get(patch.fragment);
            let found = Fields::from(object, patch.field as usize).next();
            let (Some(fragment), Some(Ok(found))) = (fragment, found) else {
                return false;
            };
            let Some(row) = fragment.row else {
                return false;
            };
            let json = fragment.json.start as usize..fragment.json.end as usize;
            writer.out.raw(&self.json[copied..json.start]);
            copied = json.end;
            if writer.item(row.kind, found.wire).is_err() {
                return false;
            }
        }
        writer.out.raw(&self.json[copied..]);
        true
    }
}

impl Writer<'_, Untraced> {
    /// A value, or the entry of a map.
    fn item(&mut self, kind: Kind, wire: Wire<'_>) -> Result<(), Option<ToJsonError>> {
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
