//! What is in a field.

use super::ToJsonError;
use super::trace::Trace;
use super::writer::Writer;
use crate::protobuf::{Fields, Wire};
use crate::schema::{Field, Kind, Rule};

impl<T: Trace> Writer<'_, T> {
    /// One field, and those that follow it in its list or map. False when a map's entries are not in order.
    /// `Err(None)` is a wire type that does not fit.
    #[inline]
    pub(super) fn field<'m>(
        &mut self,
        row: &'static Field,
        first: Wire<'m>,
        following: &mut Fields<'m>,
        comma: &mut bool,
    ) -> Result<bool, Option<ToJsonError>> {
        if let (Rule::Inline, Kind::Object(inner)) = (row.rule, row.kind) {
            let bytes = first.bytes().ok_or(None)?;
            self.noted(row, following, |writer| {
                Ok(writer.fields(inner, bytes, comma)?)
            })?;
            return Ok(true);
        }
        self.out.key(std::mem::replace(comma, true), &row.key);
        let number = u32::from(row.number);
        match (row.kind, row.rule) {
            (kind, Rule::List | Rule::ListOrNull) => {
                self.out.byte(b'[');
                self.noted(row, following, |writer| writer.value(kind, first))?;
                while let Some(wire) = following.next_of(number).map_err(ToJsonError::from)? {
                    self.out.byte(b',');
                    self.noted(row, following, |writer| writer.value(kind, wire))?;
                }
                self.out.byte(b']');
            }
            (Kind::MapStr | Kind::MapBytes | Kind::MapQuantity, _) => {
                let (mut last, value) = entry(first)?;
                self.out.byte(b'{');
                self.noted(row, following, |writer| {
                    writer.map_entry(row.kind, last, value)
                })?;
                while let Some(wire) = following.next_of(number).map_err(ToJsonError::from)? {
                    let (key, value) = entry(wire)?;
                    if last >= key {
                        return Ok(false);
                    }
                    last = key;
                    self.out.byte(b',');
                    self.noted(row, following, |writer| {
                        writer.map_entry(row.kind, key, value)
                    })?;
                }
                self.out.byte(b'}');
            }
            (Kind::Str, _) if let Wire::Bytes(text) = first => {
                self.noted(row, following, |writer| {
                    writer.out.string(text);
                    Ok(())
                })?;
            }
            (kind, _) => self.noted(row, following, |writer| writer.value(kind, first))?,
        }
        Ok(true)
    }

    /// Writes a value, and notes that it is what `fields` read last.
    #[inline]
    fn noted(
        &mut self,
        row: &'static Field,
        fields: &Fields<'_>,
        write: impl FnOnce(&mut Self) -> Result<(), Option<ToJsonError>>,
    ) -> Result<(), Option<ToJsonError>> {
        let (mark, from) = (self.trace.mark(), self.out.end());
        write(self)?;
        let json = from..self.out.end();
        self.trace.field(mark, fields.address(), Some(row), json);
        Ok(())
    }

    /// A value in a field of this kind, by itself.
    pub(super) fn value(&mut self, kind: Kind, wire: Wire<'_>) -> Result<(), Option<ToJsonError>> {
        match (kind, wire) {
            (Kind::Str, Wire::Bytes(text)) => self.out.string(text),
            (Kind::Bool, Wire::Varint(0)) => self.out.literal(b"false"),
            (Kind::Bool, Wire::Varint(_)) => self.out.literal(b"true"),
            (Kind::Int | Kind::Int32, Wire::Varint(value)) => self.out.int(value as i64),
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

    pub(super) fn map_entry(
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

/// Key and value of a map's entry; of what is there twice the last one.
#[inline]
pub(super) fn entry(wire: Wire<'_>) -> Result<(&[u8], Wire<'_>), Option<ToJsonError>> {
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

/// The last occurrence of a field of a small message.
#[inline]
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

/// The key of a map's entry.
#[inline]
pub(super) fn key_of(field: Wire<'_>) -> Option<&[u8]> {
    entry(field).ok().map(|(key, _)| key)
}

/// Whether JSON does not show a field with this value.
#[inline]
pub(super) fn is_left_out(row: &Field, wire: Wire<'_>) -> bool {
    row.rule == Rule::OmitZero && is_zero(row.kind, wire)
}

/// Whether JSON leaves the value out under [`Rule::OmitZero`].
#[inline]
fn is_zero(kind: Kind, wire: Wire<'_>) -> bool {
    match (kind, wire) {
        (Kind::Str | Kind::Time | Kind::MicroTime, Wire::Bytes(bytes)) => bytes.is_empty(),
        (Kind::Bool | Kind::Int | Kind::Int32, Wire::Varint(value)) => value == 0,
        _ => false,
    }
}

/// The zero value of what protobuf always writes, for messages that another library wrote.
#[inline]
pub(super) fn zero(kind: Kind) -> Wire<'static> {
    match kind {
        Kind::Bool | Kind::Int | Kind::Int32 => Wire::Varint(0),
        _ => Wire::Bytes(&[]),
    }
}
