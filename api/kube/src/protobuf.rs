//! Protobuf as Kubernetes writes it: reads fields in place, and computes lengths before writing.
//!
//! Kubernetes' generated code always writes non-pointer scalars, zero and empty ones included,
//! where proto3 libraries omit them. Bytes that must equal an apiserver's are therefore written
//! with these functions and not by a protobuf library.

/// The error for bytes that are not a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf at byte {at}: {what}")]
pub struct Malformed {
    /// Offset in the message where reading failed.
    pub at: usize,
    /// The reason.
    pub what: &'static str,
}

/// The value of one field on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireValue<'a> {
    /// Wire type 0: integers (negative ones sign-extended to 64 bits) and booleans.
    Varint(u64),
    /// Wire type 2: strings, bytes, messages, map entries.
    Bytes(&'a [u8]),
    /// Wire types 1 and 5, which no field of these schemas has.
    Fixed(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// Returns the bytes of a length-delimited field, `None` for any other wire type.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Field number.
    pub number: u32,
    /// Its value.
    pub wire: WireValue<'a>,
    /// Offset of its tag in the message.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
}

/// An iterator over the fields of a message in wire order; it ends after an error.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Returns an iterator from the first byte of `message`.
    pub fn new(message: &'a [u8]) -> Self {
        Self { message, at: 0 }
    }

    /// Returns an iterator from the field at offset `at`.
    pub(crate) fn from(message: &'a [u8], at: usize) -> Self {
        Self { message, at }
    }

    /// Returns the address of the current position: the end of the field that was read last.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.message.as_ptr().addr() + self.at
    }

    /// Reads the next field if it has this number; otherwise reads nothing.
    #[inline(always)]
    pub(crate) fn next_with_number(
        &mut self,
        number: u32,
    ) -> Result<Option<WireValue<'a>>, Malformed> {
        let before = self.at;
        match self.next().transpose()? {
            Some(field) if field.number == number => Ok(Some(field.wire)),
            _ => {
                self.at = before;
                Ok(None)
            }
        }
    }

    #[cold]
    fn fail(&mut self, what: &'static str) -> Malformed {
        let at = std::mem::replace(&mut self.at, self.message.len());
        Malformed { at, what }
    }

    // The readers are inlined: a call per field would cost more than reading the field.
    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Tags and lengths of more than two bytes are rare.
        match self.message.get(self.at..) {
            Some([only @ 0..0x80, ..]) => {
                self.at += 1;
                Ok(u64::from(*only))
            }
            Some([first, second @ 0..0x80, ..]) => {
                self.at += 2;
                Ok(u64::from(first & 0x7f) | u64::from(*second) << 7)
            }
            _ => self.long_varint(),
        }
    }

    #[cold]
    fn long_varint(&mut self) -> Result<u64, Malformed> {
        match get_varint(&self.message[self.at..]) {
            Some((value, length)) => {
                self.at += length;
                Ok(value)
            }
            None => Err(self.fail("varint is truncated or longer than 64 bits")),
        }
    }

    #[inline(always)]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let rest = &self.message[self.at..];
        match usize::try_from(length)
            .ok()
            .and_then(|length| rest.get(..length))
        {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(self.fail("length reaches past the end")),
        }
    }

    #[inline(always)]
    fn field(&mut self) -> Result<Field<'a>, Malformed> {
        let start = self.at;
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 => number,
            _ => return Err(self.fail("field number is 0 or too large")),
        };
        let wire = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed(self.take(8)?),
            2 => {
                let length = self.varint()?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Fixed(self.take(4)?),
            _ => return Err(self.fail("wire type is not one that Kubernetes uses")),
        };
        Ok(Field {
            number,
            wire,
            start,
            end: self.at,
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        (self.at < self.message.len()).then(|| self.field())
    }
}

/// Returns the first occurrence of a length-delimited field; `None` if absent. Costs a pass up to
/// the field.
///
/// # Errors
/// [`Malformed`] for bytes before the field, or a field of another wire type.
pub fn find_bytes(message: &[u8], number: u32) -> Result<Option<&[u8]>, Malformed> {
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            return match field.wire {
                WireValue::Bytes(bytes) => Ok(Some(bytes)),
                _ => Err(Malformed {
                    at: field.start,
                    what: "wire type is not length-delimited",
                }),
            };
        }
    }
    Ok(None)
}

/// Reads a varint at the start of `bytes`; returns its value and length, or `None` if it is
/// truncated or exceeds 64 bits.
#[inline]
pub fn get_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        if i == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Returns the number of bytes that [`put_varint`] writes: 1 to 10.
#[inline]
fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends an integer (sign-extended) or boolean field, even if it is zero.
pub fn put_int(out: &mut Vec<u8>, number: u32, value: i64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value as u64);
}

/// Appends a string, bytes or message field, even if it is empty.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_bytes_header(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the tag and length of a length-delimited field, to which the caller appends the bytes.
pub fn put_bytes_header(out: &mut Vec<u8>, number: u32, length: usize) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, length as u64);
}

/// Returns the size of a length-delimited field: tag, length and `length` bytes.
pub fn bytes_field_len(number: u32, length: usize) -> usize {
    varint_len(u64::from(number) << 3) + varint_len(length as u64) + length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_malformed_message_ends_the_iteration() {
        let bad: [&[u8]; 7] = [
            &[0x80],             // tag cut off
            &[0x00, 0x01],       // field number 0
            &[0x0a],             // length missing
            &[0x0a, 0x05, b'a'], // length past the end
            &[0x0b],             // a group
            &[
                0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
            ], // over 64 bits
            &[0x0d, 1, 2],       // fixed32 cut off
        ];
        for message in bad {
            let mut fields = Fields::new(message);
            assert!(matches!(fields.next(), Some(Err(_))), "{message:02x?}");
            assert_eq!(fields.next(), None, "nothing follows an error");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number in 1u32..1000, value: i64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put_int(&mut out, number, value);
            let middle = out.len();
            put_bytes(&mut out, number, &bytes);
            prop_assert_eq!(out.len() - middle, bytes_field_len(number, bytes.len()));
            let fields = Fields::new(&out).collect::<Result<Vec<_>, _>>().expect("well formed");
            prop_assert_eq!(fields[0].wire, WireValue::Varint(value as u64));
            prop_assert_eq!(fields[1].wire.bytes(), Some(&bytes[..]));
            prop_assert_eq!((fields[0].end, fields[1].start, fields[1].end), (middle, middle, out.len()));
        }

        #[test]
        fn iteration_over_any_bytes_ends(message: Vec<u8>) {
            let fields = Fields::new(&message).count();
            prop_assert!(fields <= message.len());
        }

        #[test]
        fn varint_lengths_agree(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            prop_assert_eq!(get_varint(&out), Some((value, out.len())));
        }
    }
}
