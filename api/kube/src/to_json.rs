//! Protobuf objects as the JSON that an apiserver would print for them.
//!
//! Straight from one wire to the other by the [`crate::schema`], without building the object: fields in
//! the order of Go's structs, zero values by each field's rule, strings escaped as Go's encoder does
//! with HTML escaping on (what Kubernetes' serializer uses).
//!
//! - [`text`]: the text being written
//! - [`escape`]: what is escaped in it

mod escape;
pub(crate) mod text;

use self::text::Text;
use crate::protobuf::{Fields, Malformed, Wire};
use crate::schema::{Field, Kind, Message, Rule};
pub use escape::put_string;

/// An object that could not be shown as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToJsonError {
    /// The bytes are no protobuf.
    #[error("{message}: {source}")]
    Malformed {
        /// The message type that was being read.
        message: &'static str,
        /// Where and why.
        source: Malformed,
    },
    /// A field has a wire type that does not fit its kind.
    #[error("{message}: field `{field}` has another wire type than its kind")]
    WireType {
        /// The message type that was being read.
        message: &'static str,
        /// The field's JSON name.
        field: &'static str,
    },
}

/// Appends the object of type `message` that `bytes` hold. `head` is written first inside its braces
/// (`"kind":"Pod","apiVersion":"v1"` for an object that stands alone, empty for a list's item).
///
/// Fields that the schema does not know are left out, as an older apiserver would. `fieldsV1` is taken
/// to be the compact JSON that an apiserver stored and is not parsed. One allocation for the walk.
///
/// # Errors
/// `bytes` are not such an object; `out` then holds the part before the error.
pub fn to_json(
    message: &'static Message,
    bytes: &[u8],
    head: &str,
    out: &mut Vec<u8>,
) -> Result<(), ToJsonError> {
    let mut writer = Writer {
        orderly: true,
        out: Text::new(out),
    };
    writer.out.byte(b'{');
    writer.out.raw(head.as_bytes());
    let mut comma = !head.is_empty();
    writer.fields(message, bytes, &mut comma)?;
    writer.out.byte(b'}');
    Ok(())
}

struct Writer<'o> {
    /// Whether no message has broken the order that its type promised.
    orderly: bool,
    out: Text<'o>,
}

impl Writer<'_> {
    /// The fields of one message, without braces, in the schema's order.
    fn fields(
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
            let found = found.map_err(|source| malformed(message, source))?;
            let Some(position) = message.position(found.number) else {
                continue;
            };
            let row = &message.fields()[usize::from(position)];
            if position < next {
                return Ok(false);
            }
            if row.rule == Rule::OmitZero && is_zero(row.kind, found.wire) {
                continue;
            }
            self.absent(message, from(next) & !from(position), comma)?;
            next = position + 1;
            let written = self.field(row, found.wire, &mut fields, comma);
            if !written.map_err(|error| misfit(message, row, error))? {
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
        for found in Fields::new(bytes) {
            let found = found.map_err(|source| malformed(message, source))?;
            let before = last.take();
            let Some(position) = message.position(found.number) else {
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
            if row.rule == Rule::OmitZero && is_zero(row.kind, found.wire) {
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
                let found = found.map_err(|source| malformed(message, source))?;
                let written = self.field(row, found.wire, &mut fields, comma);
                if !written.map_err(|error| misfit(message, row, error))? {
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
                    .map_err(|error| misfit(message, row, error))?,
            }
        }
        Ok(())
    }

    /// One field, and those that follow it in its list or map. False when a map's entries are not in order.
    /// `Err(None)` is a wire type that does not fit.
    #[inline]
    fn field<'m>(
        &mut self,
        row: &'static Field,
        first: Wire<'m>,
        following: &mut Fields<'m>,
        comma: &mut bool,
    ) -> Result<bool, Option<ToJsonError>> {
        if let (Rule::Inline, Kind::Object(inner)) = (row.rule, row.kind) {
            self.fields(inner, first.bytes().ok_or(None)?, comma)?;
            return Ok(true);
        }
        self.out.key(std::mem::replace(comma, true), &row.key);
        let number = u32::from(row.number);
        match (row.kind, row.rule) {
            (kind, Rule::List | Rule::ListOrNull) => {
                self.out.byte(b'[');
                self.value(kind, first)?;
                while let Some(wire) = following.next_of(number).map_err(ToJsonError::from)? {
                    self.out.byte(b',');
                    self.value(kind, wire)?;
                }
                self.out.byte(b']');
            }
            (Kind::MapStr | Kind::MapBytes | Kind::MapQuantity, _) => {
                let (mut last, value) = entry(first)?;
                self.out.byte(b'{');
                self.map_entry(row.kind, last, value)?;
                while let Some(wire) = following.next_of(number).map_err(ToJsonError::from)? {
                    let (key, value) = entry(wire)?;
                    if last >= key {
                        return Ok(false);
                    }
                    last = key;
                    self.out.byte(b',');
                    self.map_entry(row.kind, key, value)?;
                }
                self.out.byte(b'}');
            }
            (Kind::Str, _) if let Wire::Bytes(text) = first => self.out.string(text),
            (kind, _) => self.value(kind, first)?,
        }
        Ok(true)
    }

    fn value(&mut self, kind: Kind, wire: Wire<'_>) -> Result<(), Option<ToJsonError>> {
        match (kind, wire) {
            (Kind::Str, Wire::Bytes(text)) => self.out.string(text),
            (Kind::Bool, Wire::Varint(0)) => self.out.literal(b"false"),
            (Kind::Bool, Wire::Varint(_)) => self.out.literal(b"true"),
            (Kind::Int, Wire::Varint(value)) => self.out.int(value as i64),
            (Kind::Object(message), Wire::Bytes(bytes)) => {
                self.out.byte(b'{');
                self.fields(message, bytes, &mut false)?;
                self.out.byte(b'}');
            }
            (Kind::Time, Wire::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(Wire::Varint(seconds)) => self.out.time(seconds as i64),
                None => self.out.literal(b"null"),
                Some(_) => return Err(None),
            },
            (Kind::MicroTime, Wire::Bytes(bytes)) => {
                let nanos = match single_field(bytes, 2)? {
                    Some(Wire::Varint(nanos)) => nanos as i64,
                    None => 0,
                    Some(_) => return Err(None),
                };
                match single_field(bytes, 1)? {
                    Some(Wire::Varint(seconds)) => {
                        self.out.micro_time(seconds as i64, nanos / 1_000)
                    }
                    None => self.out.literal(b"null"),
                    Some(_) => return Err(None),
                }
            }
            (Kind::Quantity, Wire::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(Wire::Bytes(text)) => self.out.string(text),
                None => self.out.literal(b"\"0\""),
                Some(_) => return Err(None),
            },
            (Kind::IntOrString, Wire::Bytes(bytes)) => {
                let is_string = matches!(single_field(bytes, 1)?, Some(Wire::Varint(1)));
                match single_field(bytes, if is_string { 3 } else { 2 })? {
                    Some(Wire::Bytes(text)) if is_string => self.out.string(text),
                    Some(Wire::Varint(value)) if !is_string => self.out.int(value as i64),
                    None if is_string => self.out.literal(b"\"\""),
                    None => self.out.byte(b'0'),
                    Some(_) => return Err(None),
                }
            }
            (Kind::FieldsV1, Wire::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(Wire::Bytes(json)) if !json.is_empty() => self.out.json(json),
                None | Some(Wire::Bytes(_)) => self.out.literal(b"null"),
                Some(_) => return Err(None),
            },
            _ => return Err(None),
        }
        Ok(())
    }

    fn map_entry(
        &mut self,
        kind: Kind,
        key: &[u8],
        value: Wire<'_>,
    ) -> Result<(), Option<ToJsonError>> {
        self.out.string(key);
        self.out.byte(b':');
        match (kind, value) {
            (Kind::MapQuantity, value) => self.value(Kind::Quantity, value),
            (Kind::MapBytes, Wire::Bytes(bytes)) => {
                self.out.base64(bytes);
                Ok(())
            }
            (_, value) => self.value(Kind::Str, value),
        }
    }
}

/// The positions from this one on, a bit each.
fn from(position: u8) -> u64 {
    u64::MAX.checked_shl(u32::from(position)).unwrap_or(0)
}

/// The same message as Kubernetes would have written it: fields by their numbers, of what is there twice the
/// last, maps by their keys. What the schema does not know is gone.
#[cold]
fn tidied(message: &'static Message, bytes: &[u8]) -> Result<Vec<u8>, ToJsonError> {
    let mut found = Vec::new();
    for field in Fields::new(bytes) {
        let field = field.map_err(|source| malformed(message, source))?;
        if let Some(position) = message.position(field.number) {
            let row = &message.fields()[usize::from(position)];
            let key = match row.kind {
                Kind::MapStr | Kind::MapBytes | Kind::MapQuantity => {
                    entry(field.wire)
                        .map_err(|error| misfit(message, row, error))?
                        .0
                }
                _ => &[],
            };
            found.push((field.number, key, field, row));
        }
    }
    found.sort_by_key(|(number, key, ..)| (*number, *key));
    let mut out = Vec::with_capacity(bytes.len());
    for (i, (number, key, field, row)) in found.iter().enumerate() {
        let is_list = matches!(row.rule, Rule::List | Rule::ListOrNull);
        let next = found.get(i + 1).map(|(number, key, ..)| (number, key));
        if is_list || next != Some((number, key)) {
            out.extend_from_slice(&bytes[field.start..field.end]);
        }
    }
    Ok(out)
}

#[cold]
fn malformed(message: &'static Message, source: Malformed) -> ToJsonError {
    ToJsonError::Malformed {
        message: message.name(),
        source,
    }
}

/// The error of a field's value; none is a wire type that does not fit.
#[cold]
fn misfit(
    message: &'static Message,
    field: &'static Field,
    error: Option<ToJsonError>,
) -> ToJsonError {
    error.unwrap_or(ToJsonError::WireType {
        message: message.name(),
        field: field.name(),
    })
}

/// Key and value of a map's entry; of what is there twice the last one.
fn entry(wire: Wire<'_>) -> Result<(&[u8], Wire<'_>), Option<ToJsonError>> {
    let (mut key, mut value) = (&[][..], Wire::Bytes(&[]));
    for field in Fields::new(wire.bytes().ok_or(None)?) {
        let field = field.map_err(ToJsonError::from)?;
        match field.number {
            1 => key = field.wire.bytes().ok_or(None)?,
            2 => value = field.wire,
            _ => {}
        }
    }
    Ok((key, value))
}

impl From<Malformed> for ToJsonError {
    fn from(source: Malformed) -> Self {
        Self::Malformed {
            message: "value",
            source,
        }
    }
}

/// The last occurrence of a field of a small message.
fn single_field(message: &[u8], number: u32) -> Result<Option<Wire<'_>>, ToJsonError> {
    let mut found = None;
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            found = Some(field.wire);
        }
    }
    Ok(found)
}

/// Whether JSON leaves the value out under [`Rule::OmitZero`].
fn is_zero(kind: Kind, wire: Wire<'_>) -> bool {
    match (kind, wire) {
        (Kind::Str | Kind::Time | Kind::MicroTime, Wire::Bytes(bytes)) => bytes.is_empty(),
        (Kind::Bool | Kind::Int, Wire::Varint(value)) => value == 0,
        _ => false,
    }
}

/// The zero value of what protobuf always writes, for messages that another library wrote.
fn zero(kind: Kind) -> Wire<'static> {
    match kind {
        Kind::Bool | Kind::Int => Wire::Varint(0),
        _ => Wire::Bytes(&[]),
    }
}

#[cfg(test)]
mod tests;
