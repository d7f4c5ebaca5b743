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
        found: Vec::new(),
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

struct Writer<'m, 'o> {
    /// Fields found in the messages that are being sorted, one run per level of nesting.
    found: Vec<(u8, Wire<'m>)>,
    /// Whether no message has broken the order that its type promised.
    orderly: bool,
    out: Text<'o>,
}

impl<'m> Writer<'m, '_> {
    /// The fields of one message, without braces, in the schema's order.
    fn fields(
        &mut self,
        message: &'static Message,
        bytes: &'m [u8],
        comma: &mut bool,
    ) -> Result<(), ToJsonError> {
        if !self.orderly || !message.is_orderly() {
            return self.sorted(message, bytes, comma);
        }
        let (end, had) = (self.out.end(), *comma);
        if self.in_passing(message, bytes, comma)? {
            return Ok(());
        }
        // Never tried again for this object, or nested messages would be written again and again.
        self.orderly = false;
        self.out.truncate(end);
        *comma = had;
        self.sorted(message, bytes, comma)
    }

    /// The fields of a message as they come. False when they do not come in the schema's order, each of them
    /// once; what was written then is to be taken back.
    fn in_passing(
        &mut self,
        message: &'static Message,
        bytes: &'m [u8],
        comma: &mut bool,
    ) -> Result<bool, ToJsonError> {
        let malformed = |source| ToJsonError::Malformed {
            message: message.name(),
            source,
        };
        // Fields before this position were written, or are not there.
        let mut next = 0;
        let mut fields = Fields::new(bytes);
        let mut ahead = fields.next().transpose().map_err(malformed)?;
        while let Some(found) = ahead {
            ahead = fields.next().transpose().map_err(malformed)?;
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
            self.absent(message, next, position, comma)?;
            next = position + 1;
            if let (Rule::Inline, Kind::Object(inner), Wire::Bytes(bytes)) =
                (row.rule, row.kind, found.wire)
            {
                self.fields(inner, bytes, comma)?;
                continue;
            }
            self.out.key(std::mem::replace(comma, true), &row.key);
            let mut value = Some(found.wire);
            let mut following = || -> Result<Option<Wire<'m>>, ToJsonError> {
                match ahead {
                    Some(more) if more.number == found.number => {
                        ahead = fields.next().transpose().map_err(malformed)?;
                        Ok(Some(more.wire))
                    }
                    _ => Ok(None),
                }
            };
            let written = match (row.kind, row.rule) {
                (kind, Rule::List | Rule::ListOrNull) => {
                    let mut separator = b'[';
                    while let Some(wire) = value {
                        self.out.byte(separator);
                        separator = b',';
                        self.value(kind, wire)
                            .map_err(|e| misfit(message, row, e))?;
                        value = following()?;
                    }
                    self.out.byte(b']');
                    Ok(())
                }
                (Kind::MapStr | Kind::MapBytes | Kind::MapQuantity, _) => {
                    let mut last: Option<&[u8]> = None;
                    while let Some(wire) = value {
                        let (key, of_key) = entry(wire).map_err(|e| misfit(message, row, e))?;
                        if last.is_some_and(|last| last >= key) {
                            return Ok(false);
                        }
                        self.out.byte(if last.is_some() { b',' } else { b'{' });
                        last = Some(key);
                        self.map_entry(row.kind, key, of_key)
                            .map_err(|e| misfit(message, row, e))?;
                        value = following()?;
                    }
                    self.out.byte(b'}');
                    Ok(())
                }
                (Kind::Str, _) if let Wire::Bytes(text) = found.wire => {
                    self.out.string(text);
                    Ok(())
                }
                (kind, _) => self.value(kind, found.wire),
            };
            written.map_err(|error| misfit(message, row, error))?;
        }
        self.absent(message, next, message.fields().len() as u8, comma)?;
        Ok(true)
    }

    /// Fields at positions from `next` to `end` that are not there, as far as JSON shows them all the same.
    #[inline]
    fn absent(
        &mut self,
        message: &'static Message,
        next: u8,
        end: u8,
        comma: &mut bool,
    ) -> Result<(), ToJsonError> {
        let from_next = u64::MAX.checked_shl(u32::from(next)).unwrap_or(0);
        let mut shown = message.always() & from_next;
        while shown != 0 && shown.trailing_zeros() < u32::from(end) {
            let row = &message.fields()[shown.trailing_zeros() as usize];
            shown &= shown - 1;
            let found = self.found.len();
            self.field(row, found, found, comma)
                .map_err(|error| misfit(message, row, error))?;
        }
        Ok(())
    }

    /// The fields of a message that come in any order.
    fn sorted(
        &mut self,
        message: &'static Message,
        bytes: &'m [u8],
        comma: &mut bool,
    ) -> Result<(), ToJsonError> {
        let base = self.found.len();
        let (mut present, mut sorted, mut last) = (0u64, true, 0);
        for field in Fields::new(bytes) {
            let field = field.map_err(|source| ToJsonError::Malformed {
                message: message.name(),
                source,
            })?;
            let Some(position) = message.position(field.number) else {
                continue;
            };
            let (bit, row) = (1 << position, &message.fields()[usize::from(position)]);
            // Most empty values are left out; one behind a value of the same field counts, as the last one.
            if row.rule == Rule::OmitZero && present & bit == 0 && is_zero(row.kind, field.wire) {
                continue;
            }
            present |= bit;
            sorted &= last <= position;
            last = position;
            self.found.push((position, field.wire));
        }
        if !sorted {
            self.found[base..].sort_by_key(|(position, _)| *position);
        }
        let mut at = base;
        let end = self.found.len();
        let mut shown = present | message.always();
        while shown != 0 {
            let position = shown.trailing_zeros() as u8;
            shown &= shown - 1;
            let first = at;
            while at < end && self.found[at].0 == position {
                at += 1;
            }
            let field = &message.fields()[usize::from(position)];
            self.field(field, first, at, comma)
                .map_err(|error| misfit(message, field, error))?;
        }
        self.found.truncate(base);
        Ok(())
    }

    /// One field, whose occurrences are `found[first..end]`. `Err(None)` is a wire type that does not fit.
    fn field(
        &mut self,
        field: &'static Field,
        first: usize,
        end: usize,
        comma: &mut bool,
    ) -> Result<(), Option<ToJsonError>> {
        // Of a field that is there twice and is no list, the last one counts.
        let last = (first < end).then(|| self.found[end - 1].1);
        match field.rule {
            Rule::Inline => {
                let Kind::Object(message) = field.kind else {
                    return Err(None);
                };
                let bytes = last.map_or(Some(&[][..]), Wire::bytes).ok_or(None)?;
                return Ok(self.fields(message, bytes, comma)?);
            }
            Rule::List if first == end => return Ok(()),
            Rule::Optional if last.is_none() => return Ok(()),
            Rule::OmitZero if last.is_none_or(|wire| is_zero(field.kind, wire)) => return Ok(()),
            _ => {}
        }
        self.out.key(std::mem::replace(comma, true), &field.key);
        match (field.kind, field.rule) {
            (_, Rule::ListOrNull | Rule::OptionalOrNull) if first == end => {
                self.out.literal(b"null")
            }
            (kind, Rule::List | Rule::ListOrNull) => {
                self.out.byte(b'[');
                for i in first..end {
                    if i > first {
                        self.out.byte(b',');
                    }
                    self.value(kind, self.found[i].1)?;
                }
                self.out.byte(b']');
            }
            (Kind::MapStr | Kind::MapBytes | Kind::MapQuantity, _) => {
                self.map(field.kind, first, end)?
            }
            (kind, _) => match last {
                Some(wire) => self.value(kind, wire)?,
                None => self.value(kind, zero(kind))?,
            },
        }
        Ok(())
    }

    fn value(&mut self, kind: Kind, wire: Wire<'m>) -> Result<(), Option<ToJsonError>> {
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

    /// A map, its keys in byte order, of a key that is there twice the last value.
    fn map(&mut self, kind: Kind, first: usize, end: usize) -> Result<(), Option<ToJsonError>> {
        let before = self.out.end();
        let mut last: Option<&[u8]> = None;
        self.out.byte(b'{');
        for i in first..end {
            let (key, value) = entry(self.found[i].1)?;
            // Kubernetes writes maps in order; others are collected and sorted.
            if last.is_some_and(|last| last >= key) {
                self.out.truncate(before);
                return self.sorted_map(kind, first, end);
            }
            if last.replace(key).is_some() {
                self.out.byte(b',');
            }
            self.map_entry(kind, key, value)?;
        }
        self.out.byte(b'}');
        Ok(())
    }

    fn sorted_map(
        &mut self,
        kind: Kind,
        first: usize,
        end: usize,
    ) -> Result<(), Option<ToJsonError>> {
        let mut entries = Vec::with_capacity(end - first);
        for (_, wire) in &self.found[first..end] {
            entries.push(entry(*wire)?);
        }
        entries.sort_by_key(|(key, _)| *key);
        entries.reverse();
        entries.dedup_by_key(|(key, _)| *key);
        self.out.byte(b'{');
        for (i, (key, value)) in entries.into_iter().rev().enumerate() {
            if i > 0 {
                self.out.byte(b',');
            }
            self.map_entry(kind, key, value)?;
        }
        self.out.byte(b'}');
        Ok(())
    }

    fn map_entry(
        &mut self,
        kind: Kind,
        key: &[u8],
        value: Wire<'m>,
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
