//! The fields of a message, in the order in which JSON shows them.

use super::ToJsonError;
use super::tidy::tidied;
use super::trace::Trace;
use super::value::{is_left_out, zero};
use super::writer::Writer;
use crate::protobuf::Fields;
use crate::schema::{Field, Kind, Message, Rule};

impl<T: Trace> Writer<'_, T> {
    /// A whole object; `head` comes first inside its braces.
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

    /// The fields of one message, without braces, in the schema's order.
    pub(super) fn fields(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        comma: &mut bool,
    ) -> Result<(), ToJsonError> {
        let (end, had) = (self.out.end(), *comma);
        let written = match self.orderly && message.is_orderly() {
            true => self.in_passing(message, bytes, comma)?,
            false => self.by_place(message, bytes, comma)?,
        };
        if written {
            return Ok(());
        }
        // From now on messages are looked through before they are written, or what is nested in many of them
        // would be written again for each.
        self.orderly = false;
        self.trace.lost();
        self.out.truncate(end);
        *comma = had;
        let tidy = tidied(message, bytes)?;
        let written = self.by_place(message, &tidy, comma)?;
        debug_assert!(written, "a tidied message is in order");
        Ok(())
    }

    /// The fields of a message as they come. False when they do not come in the schema's order, each of them
    /// once; what was written then is to be taken back.
    fn in_passing(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        comma: &mut bool,
    ) -> Result<bool, ToJsonError> {
        // Fields before this position were written, or are not there.
        let mut next = 0;
        let mut fields = Fields::new(bytes);
        while let Some(found) = fields.next() {
            let found = found.map_err(|source| ToJsonError::malformed(message, source))?;
            let Some(position) = message.position(found.number) else {
                self.unshown(&fields, None);
                continue;
            };
            let row = &message.fields()[usize::from(position)];
            if position < next {
                return Ok(false);
            }
            if is_left_out(row, found.wire) {
                self.unshown(&fields, Some(row));
                continue;
            }
            self.absent(message, from(next) & !from(position), comma)?;
            next = position + 1;
            let written = self.field(row, found.wire, &mut fields, comma);
            if !written.map_err(|error| ToJsonError::misfit(message, row, error))? {
                return Ok(false);
            }
        }
        self.absent(message, from(next), comma)?;
        Ok(true)
    }

    /// The fields of a message that come in another order than JSON shows them: their places first. False when
    /// one is in two places, or a map's entries are not in order.
    fn by_place(
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
                self.unshown(&fields, None);
                continue;
            };
            let row = &message.fields()[usize::from(position)];
            if before == Some(position) && row.repeats() {
                last = before;
                continue;
            }
            if present & 1 << position != 0 {
                return Ok(false);
            }
            if is_left_out(row, found.wire) {
                self.unshown(&fields, Some(row));
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
            self.absent(message, from(next) & !from(position), comma)?;
            next = position + 1;
            let row = &message.fields()[usize::from(position)];
            let mut fields = Fields::from(bytes, places[usize::from(position)]);
            if let Some(found) = fields.next() {
                let found = found.map_err(|source| ToJsonError::malformed(message, source))?;
                let written = self.field(row, found.wire, &mut fields, comma);
                if !written.map_err(|error| ToJsonError::misfit(message, row, error))? {
                    return Ok(false);
                }
            }
        }
        self.absent(message, from(next), comma)?;
        Ok(true)
    }

    /// Fields that are not there, of those at `positions` (a bit each), as far as JSON shows them all the same.
    #[inline]
    fn absent(
        &mut self,
        message: &'static Message,
        positions: u64,
        comma: &mut bool,
    ) -> Result<(), ToJsonError> {
        let mut shown = message.always() & positions;
        while shown != 0 {
            let row = &message.fields()[shown.trailing_zeros() as usize];
            shown &= shown - 1;
            if let (Rule::Inline, Kind::Object(inner)) = (row.rule, row.kind) {
                self.fields(inner, &[], comma)?;
                continue;
            }
            self.out.key(std::mem::replace(comma, true), &row.key);
            match (row.rule, row.kind) {
                (Rule::ListOrNull | Rule::OptionalOrNull, _) => self.out.literal(b"null"),
                (_, Kind::MapStr | Kind::MapBytes | Kind::MapQuantity) => self.out.literal(b"{}"),
                (_, kind) => self
                    .value(kind, zero(kind))
                    .map_err(|error| ToJsonError::misfit(message, row, error))?,
            }
        }
        Ok(())
    }

    /// A field that JSON does not show, behind which `fields` are now.
    #[inline]
    fn unshown(&mut self, fields: &Fields<'_>, row: Option<&'static Field>) {
        let (mark, end) = (self.trace.mark(), self.out.end());
        self.trace.field(mark, fields.address(), row, end..end);
    }
}

/// The positions from this one on, a bit each.
fn from(position: u8) -> u64 {
    u64::MAX.checked_shl(u32::from(position)).unwrap_or(0)
}
