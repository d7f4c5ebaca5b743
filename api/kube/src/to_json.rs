//! Protobuf objects as the JSON that an apiserver would print for them.
//!
//! Straight from one wire to the other by the [`crate::schema`], without building the object: fields in
//! the order of Go's structs, zero values by each field's rule, strings escaped as Go's encoder does
//! with HTML escaping on (what Kubernetes' serializer uses).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::protobuf::{Fields, Malformed, Wire};
use crate::schema::{Field, Kind, Message, Rule};
use crate::time;

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
        found: Vec::with_capacity(64),
        out,
    };
    writer.out.push(b'{');
    writer.out.extend_from_slice(head.as_bytes());
    let mut comma = !head.is_empty();
    writer.fields(message, bytes, &mut comma)?;
    writer.out.push(b'}');
    Ok(())
}

struct Writer<'m, 'o> {
    /// Fields found in the messages that are being written, one run per level of nesting.
    found: Vec<(u8, Wire<'m>)>,
    out: &'o mut Vec<u8>,
}

impl<'m> Writer<'m, '_> {
    /// The fields of one message, without braces, in the schema's order.
    fn fields(
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
            self.field(field, first, at, comma).map_err(|error| {
                error.unwrap_or(ToJsonError::WireType {
                    message: message.name(),
                    field: field.name(),
                })
            })?;
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
        let skipped = usize::from(!std::mem::replace(comma, true));
        self.out.extend_from_slice(&field.key.as_bytes()[skipped..]);
        match (field.kind, field.rule) {
            (_, Rule::ListOrNull | Rule::OptionalOrNull) if first == end => {
                self.out.extend_from_slice(b"null")
            }
            (kind, Rule::List | Rule::ListOrNull) => {
                self.out.push(b'[');
                for i in first..end {
                    if i > first {
                        self.out.push(b',');
                    }
                    self.value(kind, self.found[i].1)?;
                }
                self.out.push(b']');
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
            (Kind::Str, Wire::Bytes(text)) => put_string(self.out, text),
            (Kind::Bool, Wire::Varint(value)) => {
                self.out
                    .extend_from_slice(if value == 0 { b"false" } else { b"true" });
            }
            (Kind::Int, Wire::Varint(value)) => put_int(self.out, value as i64),
            (Kind::Object(message), Wire::Bytes(bytes)) => {
                self.out.push(b'{');
                self.fields(message, bytes, &mut false)?;
                self.out.push(b'}');
            }
            (Kind::Time, Wire::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(Wire::Varint(seconds)) => {
                    self.out.push(b'"');
                    time::put_rfc3339(self.out, seconds as i64);
                    self.out.push(b'"');
                }
                None => self.out.extend_from_slice(b"null"),
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
                        self.out.push(b'"');
                        time::put_rfc3339_micros(self.out, seconds as i64, nanos / 1_000);
                        self.out.push(b'"');
                    }
                    None => self.out.extend_from_slice(b"null"),
                    Some(_) => return Err(None),
                }
            }
            (Kind::Quantity, Wire::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(Wire::Bytes(text)) => put_string(self.out, text),
                None => self.out.extend_from_slice(b"\"0\""),
                Some(_) => return Err(None),
            },
            (Kind::IntOrString, Wire::Bytes(bytes)) => {
                let is_string = matches!(single_field(bytes, 1)?, Some(Wire::Varint(1)));
                match single_field(bytes, if is_string { 3 } else { 2 })? {
                    Some(Wire::Bytes(text)) if is_string => put_string(self.out, text),
                    Some(Wire::Varint(value)) if !is_string => put_int(self.out, value as i64),
                    None if is_string => self.out.extend_from_slice(b"\"\""),
                    None => self.out.push(b'0'),
                    Some(_) => return Err(None),
                }
            }
            (Kind::FieldsV1, Wire::Bytes(bytes)) => match single_field(bytes, 1)? {
                Some(Wire::Bytes(json)) if !json.is_empty() => put_json_text(self.out, json),
                None | Some(Wire::Bytes(_)) => self.out.extend_from_slice(b"null"),
                Some(_) => return Err(None),
            },
            _ => return Err(None),
        }
        Ok(())
    }

    /// A map, its keys in byte order, of a key that is there twice the last value.
    fn map(&mut self, kind: Kind, first: usize, end: usize) -> Result<(), Option<ToJsonError>> {
        let before = self.out.len();
        let mut last: Option<&[u8]> = None;
        self.out.push(b'{');
        for i in first..end {
            let (key, value) = entry(self.found[i].1)?;
            // Kubernetes writes maps in order; others are collected and sorted.
            if last.is_some_and(|last| last >= key) {
                self.out.truncate(before);
                return self.sorted_map(kind, first, end);
            }
            if last.replace(key).is_some() {
                self.out.push(b',');
            }
            self.map_entry(kind, key, value)?;
        }
        self.out.push(b'}');
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
        self.out.push(b'{');
        for (i, (key, value)) in entries.into_iter().rev().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            self.map_entry(kind, key, value)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn map_entry(
        &mut self,
        kind: Kind,
        key: &[u8],
        value: Wire<'m>,
    ) -> Result<(), Option<ToJsonError>> {
        put_string(self.out, key);
        self.out.push(b':');
        match (kind, value) {
            (Kind::MapQuantity, value) => self.value(Kind::Quantity, value),
            (Kind::MapBytes, Wire::Bytes(bytes)) => {
                self.out.push(b'"');
                self.out
                    .extend_from_slice(STANDARD.encode(bytes).as_bytes());
                self.out.push(b'"');
                Ok(())
            }
            (_, value) => self.value(Kind::Str, value),
        }
    }
}

/// Key and value of a map's entry.
fn entry(wire: Wire<'_>) -> Result<(&[u8], Wire<'_>), Option<ToJsonError>> {
    let entry = wire.bytes().ok_or(None)?;
    let key = single_field(entry, 1)?
        .map_or(Some(&[][..]), Wire::bytes)
        .ok_or(None)?;
    let value = single_field(entry, 2)?.unwrap_or(Wire::Bytes(&[]));
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

fn put_int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// JSON text as it stands, except for the characters that Go's encoder escapes inside of it.
fn put_json_text(out: &mut Vec<u8>, json: &[u8]) {
    let escaped = json.iter().fold(false, |any, &byte| {
        any | matches!(byte, b'<' | b'>' | b'&' | 0xe2)
    });
    if escaped {
        put_escaped(out, json, |byte| matches!(byte, b'<' | b'>' | b'&'));
    } else {
        out.extend_from_slice(json);
    }
}

/// A string as Go's encoder writes it; bytes that are not UTF-8 become U+FFFD.
pub fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    // One pass without branches, which the compiler turns into vector instructions.
    let plain = text.iter().fold(true, |plain, &byte| {
        plain & (0x20..0x80).contains(&byte) & !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&')
    });
    if plain {
        out.extend_from_slice(text);
    } else {
        let special = |byte| byte < 0x20 || matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&');
        match std::str::from_utf8(text) {
            Ok(_) => put_escaped(out, text, special),
            Err(_) => put_escaped(out, replace_invalid(text).as_bytes(), special),
        }
    }
    out.push(b'"');
}

/// Copies UTF-8 text, escaping what `special` names and the two line separators of JavaScript.
fn put_escaped(out: &mut Vec<u8>, text: &[u8], special: impl Fn(u8) -> bool) {
    let mut copied = 0;
    for (i, &byte) in text.iter().enumerate() {
        let separator = byte == 0xe2 && matches!(text[i..], [_, 0x80, 0xa8 | 0xa9, ..]);
        if !special(byte) && !separator {
            continue;
        }
        out.extend_from_slice(&text[copied..i]);
        copied = i + if separator { 3 } else { 1 };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0xe2 => out.extend_from_slice(if text[i + 2] == 0xa8 {
                b"\\u2028"
            } else {
                b"\\u2029"
            }),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
        }
    }
    out.extend_from_slice(&text[copied..]);
}

/// Each byte that starts no valid character becomes one U+FFFD, as Go does it.
fn replace_invalid(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(std::iter::repeat_n('\u{fffd}', chunk.invalid().len()));
    }
    out
}

#[cfg(test)]
mod tests;
