//! Writes the values of fields.

use super::ToJsonError;
use super::field_map::FieldObserver;
use super::writer::Writer;
use crate::protobuf::{Fields, WireValue};
use crate::schema::{Field, Kind, Rule};

impl<T: FieldObserver> Writer<'_, T> {
    /// Writes one field and the further values of its list or map. Returns false if the entries of
    /// a map are not in order. `Err(None)` is a wire type that does not match.
    #[inline]
    pub(super) fn field<'m>(
        &mut self,
        spec: &'static Field,
        first: WireValue<'m>,
        following: &mut Fields<'m>,
        comma: &mut bool,
    ) -> Result<bool, Option<ToJsonError>> {
        if let (Rule::Inline, Kind::Object(inner)) = (spec.rule, spec.kind) {
            let bytes = first.bytes().ok_or(None)?;
            self.record(spec, following, |writer| {
                Ok(writer.fields(inner, bytes, comma)?)
            })?;
            return Ok(true);
        }
        self.out.key(std::mem::replace(comma, true), &spec.key);
        let number = u32::from(spec.number);
        match (spec.kind, spec.rule) {
            (kind, Rule::List | Rule::ListOrNull) => {
                self.out.byte(b'[');
                self.record(spec, following, |writer| writer.value(kind, first))?;
                while let Some(wire) = following
                    .next_with_number(number)
                    .map_err(ToJsonError::from)?
                {
                    self.out.byte(b',');
                    self.record(spec, following, |writer| writer.value(kind, wire))?;
                }
                self.out.byte(b']');
            }
            (Kind::MapStr | Kind::MapBytes | Kind::MapQuantity, _) => {
                let (mut last, value) = entry(first)?;
                self.out.byte(b'{');
                self.record(spec, following, |writer| {
                    writer.map_entry(spec.kind, last, value)
                })?;
                while let Some(wire) = following
                    .next_with_number(number)
                    .map_err(ToJsonError::from)?
                {
                    let (key, value) = entry(wire)?;
                    if last >= key {
                        return Ok(false);
                    }
                    last = key;
                    self.out.byte(b',');
                    self.record(spec, following, |writer| {
                        writer.map_entry(spec.kind, key, value)
                    })?;
                }
                self.out.byte(b'}');
            }
            (Kind::Str, _) if let WireValue::Bytes(text) = first => {
                self.record(spec, following, |writer| {
                    writer.out.string(text);
                    Ok(())
                })?;
            }
            (kind, _) => self.record(spec, following, |writer| writer.value(kind, first))?,
        }
        Ok(true)
    }

    /// Writes a value and reports it to the observer as the field that `fields` has just read.
    #[inline]
    fn record(
        &mut self,
        spec: &'static Field,
        fields: &Fields<'_>,
        write: impl FnOnce(&mut Self) -> Result<(), Option<ToJsonError>>,
    ) -> Result<(), Option<ToJsonError>> {
        let (mark, from) = (self.observer.mark(), self.out.end());
        write(self)?;
        let json = from..self.out.end();
        self.observer
            .field(mark, fields.address(), Some(spec), json);
        Ok(())
    }

    /// Writes one value of a field of this kind.
    pub(super) fn value(
        &mut self,
        kind: Kind,
        wire: WireValue<'_>,
    ) -> Result<(), Option<ToJsonError>> {
        match (kind, wire) {
            (Kind::Str, WireValue::Bytes(text)) => self.out.string(text),
            (Kind::Bool, WireValue::Varint(0)) => self.out.literal(b"false"),
            (Kind::Bool, WireValue::Varint(_)) => self.out.literal(b"true"),
            (Kind::Int | Kind::Int32, WireValue::Varint(value)) => self.out.int(value as i64),
            (Kind::Object(message), WireValue::Bytes(bytes)) => {
                self.out.byte(b'{');
                self.fields(message, bytes, &mut false)?;
                self.out.byte(b'}');
            }
            (Kind::Time, WireValue::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(WireValue::Varint(seconds)) => self.out.time(seconds as i64),
                None => self.out.literal(b"null"),
                Some(_) => return Err(None),
            },
            (Kind::MicroTime, WireValue::Bytes(bytes)) => {
                let nanos = match single_field(bytes, 2)? {
                    Some(WireValue::Varint(nanos)) => nanos as i64,
                    None => 0,
                    Some(_) => return Err(None),
                };
                match single_field(bytes, 1)? {
                    Some(WireValue::Varint(seconds)) => {
                        self.out.micro_time(seconds as i64, nanos / 1_000)
                    }
                    None => self.out.literal(b"null"),
                    Some(_) => return Err(None),
                }
            }
            (Kind::Quantity, WireValue::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(WireValue::Bytes(text)) => self.out.string(text),
                None => self.out.literal(b"\"0\""),
                Some(_) => return Err(None),
            },
            (Kind::IntOrString, WireValue::Bytes(bytes)) => {
                let is_string = matches!(single_field(bytes, 1)?, Some(WireValue::Varint(1)));
                match single_field(bytes, if is_string { 3 } else { 2 })? {
                    Some(WireValue::Bytes(text)) if is_string => self.out.string(text),
                    Some(WireValue::Varint(value)) if !is_string => self.out.int(value as i64),
                    None if is_string => self.out.literal(b"\"\""),
                    None => self.out.byte(b'0'),
                    Some(_) => return Err(None),
                }
            }
            (Kind::FieldsV1, WireValue::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(WireValue::Bytes(json)) if !json.is_empty() => self.out.json(json),
                None | Some(WireValue::Bytes(_)) => self.out.literal(b"null"),
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
        value: WireValue<'_>,
    ) -> Result<(), Option<ToJsonError>> {
        self.out.string(key);
        self.out.byte(b':');
        match (kind, value) {
            (Kind::MapQuantity, value) => self.value(Kind::Quantity, value),
            (Kind::MapBytes, WireValue::Bytes(bytes)) => {
                self.out.base64(bytes);
                Ok(())
            }
            (_, value) => self.value(Kind::Str, value),
        }
    }
}

/// Reads the key and value of a map entry; of repeated ones, the last counts.
#[inline]
pub(super) fn entry(wire: WireValue<'_>) -> Result<(&[u8], WireValue<'_>), Option<ToJsonError>> {
    let (mut key, mut value) = (&[][..], WireValue::Bytes(&[]));
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

/// Returns the last occurrence of a field of a small message.
#[inline]
fn single_field(message: &[u8], number: u32) -> Result<Option<WireValue<'_>>, ToJsonError> {
    let mut found = None;
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            found = Some(field.wire);
        }
    }
    Ok(found)
}

/// Returns the key of a map entry.
#[inline]
pub(super) fn key_of(field: WireValue<'_>) -> Option<&[u8]> {
    entry(field).ok().map(|(key, _)| key)
}

/// Returns whether JSON omits a field with this value.
#[inline]
pub(super) fn is_omitted(spec: &Field, wire: WireValue<'_>) -> bool {
    spec.rule == Rule::OmitZero && is_zero(spec.kind, wire)
}

/// Returns whether [`Rule::OmitZero`] omits the value.
#[inline]
fn is_zero(kind: Kind, wire: WireValue<'_>) -> bool {
    match (kind, wire) {
        (Kind::Str | Kind::Time | Kind::MicroTime, WireValue::Bytes(bytes)) => bytes.is_empty(),
        (Kind::Bool | Kind::Int | Kind::Int32, WireValue::Varint(value)) => value == 0,
        _ => false,
    }
}

/// Returns the zero value of a field that Kubernetes always writes but other encoders may omit.
#[inline]
pub(super) fn zero(kind: Kind) -> WireValue<'static> {
    match kind {
        Kind::Bool | Kind::Int | Kind::Int32 => WireValue::Varint(0),
        _ => WireValue::Bytes(&[]),
    }
}
