//! Writes the fields of a message in JSON order.

use super::ToJsonError;
use super::canonicalize::canonicalize;
use super::field_map::FieldObserver;
use super::value::{is_omitted, zero};
use super::writer::Writer;
use crate::protobuf::Fields;
use crate::schema::{Field, Kind, Message, Rule};

impl<T: FieldObserver> Writer<'_, T> {
    /// Writes a whole object; `head` is written first inside its braces.
    pub(super) fn object(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        head: &str,
    ) -> Result<(), ToJsonError> {
        self.out.byte(b'{');
        self.out.raw(head.as_bytes());
        let mut comma = !head.is_empty();
        self.fields(message, bytes, &mut comma)?;
        self.out.byte(b'}');
        Ok(())
    }

    /// Writes the fields of one message, without braces, in the schema's order.
    pub(super) fn fields(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        comma: &mut bool,
    ) -> Result<(), ToJsonError> {
        let (end, had) = (self.out.end(), *comma);
        let written = match self.json_order && message.has_json_order() {
            true => self.write_in_order(message, bytes, comma)?,
            false => self.write_by_position(message, bytes, comma)?,
        };
        if written {
            return Ok(());
        }
        // From now on, messages are scanned before they are written. Otherwise, a value nested in
        // several such messages would be written again for each of them.
        self.json_order = false;
        self.observer.invalidate();
        self.out.truncate(end);
        *comma = had;
        let canonical = canonicalize(message, bytes)?;
        let written = self.write_by_position(message, &canonical, comma)?;
        debug_assert!(written, "a canonical message is in order");
        Ok(())
    }

    /// Writes the fields of a message in wire order. Returns false if that is not the schema's
    /// order or a field repeats; the caller must then discard the written text.
    fn write_in_order(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        comma: &mut bool,
    ) -> Result<bool, ToJsonError> {
        // The fields before this position have been written or are absent.
        let mut next = 0;
        let mut fields = Fields::new(bytes);
        while let Some(found) = fields.next() {
            let found = found.map_err(|source| ToJsonError::malformed(message, source))?;
            let Some(position) = message.position(found.number) else {
                self.skip_field(&fields, None);
                continue;
            };
            let spec = &message.fields()[usize::from(position)];
            if position < next {
                return Ok(false);
            }
            if is_omitted(spec, found.wire) {
                self.skip_field(&fields, Some(spec));
                continue;
            }
            self.write_absent(message, from(next) & !from(position), comma)?;
            next = position + 1;
            let written = self.field(spec, found.wire, &mut fields, comma);
            if !written.map_err(|error| ToJsonError::field_error(message, spec, error))? {
                return Ok(false);
            }
        }
        self.write_absent(message, from(next), comma)?;
        Ok(true)
    }

    /// Writes the fields of a message whose wire order is not JSON order, after finding their
    /// positions. Returns false if a field occurs in two places, or if map entries are not in
    /// order.
    fn write_by_position(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        comma: &mut bool,
    ) -> Result<bool, ToJsonError> {
        let mut places = [0; Message::NUMBERS];
        let (mut present, mut last) = (0u64, None);
        let mut fields = Fields::new(bytes);
        while let Some(found) = fields.next() {
            let found = found.map_err(|source| ToJsonError::malformed(message, source))?;
            let before = last.take();
            let Some(position) = message.position(found.number) else {
                self.skip_field(&fields, None);
                continue;
            };
            let spec = &message.fields()[usize::from(position)];
            if before == Some(position) && spec.repeats() {
                last = before;
                continue;
            }
            if present & 1 << position != 0 {
                return Ok(false);
            }
            if is_omitted(spec, found.wire) {
                self.skip_field(&fields, Some(spec));
                continue;
            }
            present |= 1 << position;
            last = Some(position);
            places[usize::from(position)] = found.start;
        }
        let mut next = 0;
        let mut left = present;
        while left != 0 {
            let position = left.trailing_zeros() as u8;
            left &= left - 1;
            self.write_absent(message, from(next) & !from(position), comma)?;
            next = position + 1;
            let spec = &message.fields()[usize::from(position)];
            let mut fields = Fields::from(bytes, places[usize::from(position)]);
            if let Some(found) = fields.next() {
                let found = found.map_err(|source| ToJsonError::malformed(message, source))?;
                let written = self.field(spec, found.wire, &mut fields, comma);
                if !written.map_err(|error| ToJsonError::field_error(message, spec, error))? {
                    return Ok(false);
                }
            }
        }
        self.write_absent(message, from(next), comma)?;
        Ok(true)
    }

    /// Writes those absent fields among `positions` (a bit each) that JSON includes nevertheless.
    #[inline]
    fn write_absent(
        &mut self,
        message: &'static Message,
        positions: u64,
        comma: &mut bool,
    ) -> Result<(), ToJsonError> {
        let mut shown = message.always() & positions;
        while shown != 0 {
            let spec = &message.fields()[shown.trailing_zeros() as usize];
            shown &= shown - 1;
            if let (Rule::Inline, Kind::Object(inner)) = (spec.rule, spec.kind) {
                self.fields(inner, &[], comma)?;
                continue;
            }
            self.out.key(std::mem::replace(comma, true), &spec.key);
            match (spec.rule, spec.kind) {
                (Rule::ListOrNull | Rule::OptionalOrNull, _) => self.out.literal(b"null"),
                (_, Kind::MapStr | Kind::MapBytes | Kind::MapQuantity) => self.out.literal(b"{}"),
                (_, kind) => self
                    .value(kind, zero(kind))
                    .map_err(|error| ToJsonError::field_error(message, spec, error))?,
            }
        }
        Ok(())
    }

    /// Reports to the observer a field that JSON omits and that `fields` has just read.
    #[inline]
    fn skip_field(&mut self, fields: &Fields<'_>, spec: Option<&'static Field>) {
        let (mark, end) = (self.observer.mark(), self.out.end());
        self.observer.field(mark, fields.address(), spec, end..end);
    }
}

/// Returns all positions from this one on, a bit each.
fn from(position: u8) -> u64 {
    u64::MAX.checked_shl(u32::from(position)).unwrap_or(0)
}
