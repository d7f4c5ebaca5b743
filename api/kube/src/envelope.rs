//! The envelope of stored and transmitted protobuf objects: `k8s\0`, then a `runtime.Unknown`.

use crate::protobuf::{
    Fields, Malformed, bytes_field_len, find_bytes, put_bytes, put_bytes_header,
};

/// The first four bytes of every protobuf object.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Media type of enveloped objects.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The end of an envelope: `contentEncoding` and `contentType`, both empty.
pub const TAIL: &[u8; 4] = &[0x1a, 0x00, 0x22, 0x00];

/// A value that is not a protobuf object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It does not begin with [`MAGIC`] (custom resources are stored as JSON).
    #[error("value does not begin with the protobuf magic `k8s\\0`")]
    Magic,
    /// The bytes after the magic are not a `runtime.Unknown`.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The envelope has no object.
    #[error("the envelope has no object")]
    Empty,
    /// The object has another `apiVersion` or `kind`.
    #[error("the envelope has an object of another type")]
    Type,
    /// The object is not followed by exactly [`TAIL`].
    #[error("the envelope has data after its object")]
    Tail,
}

/// Returns the object in an envelope, as a slice of `value`.
///
/// # Errors
/// See [`EnvelopeError`].
pub fn open(value: &[u8]) -> Result<&[u8], EnvelopeError> {
    let unknown = value.strip_prefix(MAGIC).ok_or(EnvelopeError::Magic)?;
    find_bytes(unknown, 2)?.ok_or(EnvelopeError::Empty)
}

/// Returns the object in an envelope, if the envelope equals the output of [`seal`].
///
/// # Errors
/// See [`EnvelopeError`].
pub fn open_exactly<'v>(
    value: &'v [u8],
    api_version: &str,
    kind: &str,
) -> Result<&'v [u8], EnvelopeError> {
    let raw = open(value)?;
    let mut head = Vec::with_capacity(64);
    put_head(&mut head, api_version, kind, raw.len());
    let rest = value.strip_prefix(&head[..]).ok_or(EnvelopeError::Type)?;
    if rest.get(raw.len()..) != Some(TAIL) {
        return Err(EnvelopeError::Tail);
    }
    Ok(&rest[..raw.len()])
}

/// Returns the `apiVersion` and `kind` of an envelope; empty if absent.
///
/// # Errors
/// See [`EnvelopeError`].
pub fn type_meta(value: &[u8]) -> Result<(&[u8], &[u8]), EnvelopeError> {
    let unknown = value.strip_prefix(MAGIC).ok_or(EnvelopeError::Magic)?;
    let mut found: (&[u8], &[u8]) = (b"", b"");
    if let Some(meta) = find_bytes(unknown, 1)? {
        for field in Fields::new(meta) {
            let field = field?;
            match (field.number, field.wire.bytes()) {
                (1, Some(text)) => found.0 = text,
                (2, Some(text)) => found.1 = text,
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Appends the start of an envelope, before an object of `raw_len` bytes.
pub fn put_head(out: &mut Vec<u8>, api_version: &str, kind: &str, raw_len: usize) {
    out.extend_from_slice(MAGIC);
    let meta = bytes_field_len(1, api_version.len()) + bytes_field_len(2, kind.len());
    put_bytes_header(out, 1, meta);
    put_bytes(out, 1, api_version.as_bytes());
    put_bytes(out, 2, kind.as_bytes());
    put_bytes_header(out, 2, raw_len);
}

/// Returns the size of an envelope with an object of `raw_len` bytes.
pub fn sealed_len(api_version: &str, kind: &str, raw_len: usize) -> usize {
    let meta = bytes_field_len(1, api_version.len()) + bytes_field_len(2, kind.len());
    MAGIC.len() + bytes_field_len(1, meta) + bytes_field_len(2, raw_len) + TAIL.len()
}

/// Returns an object in its envelope.
pub fn seal(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(sealed_len(api_version, kind, raw.len()));
    put_head(&mut out, api_version, kind, raw.len());
    out.extend_from_slice(raw);
    out.extend_from_slice(TAIL);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_object_is_opened() {
        for length in [0, 1, 127, 128, 20_000] {
            let raw = vec![7; length];
            let value = seal("v1", "Pod", &raw);
            assert_eq!(value.len(), sealed_len("v1", "Pod", length));
            assert_eq!(value.capacity(), value.len(), "one exact allocation");
            assert_eq!(open(&value), Ok(&raw[..]));
            assert_eq!(type_meta(&value), Ok((&b"v1"[..], &b"Pod"[..])));
        }
    }

    #[test]
    fn only_an_equal_envelope_is_opened_exactly() {
        let raw = b"an object";
        let value = seal("v1", "Pod", raw);
        assert_eq!(open_exactly(&value, "v1", "Pod"), Ok(&raw[..]));
        for at in 0..value.len() {
            let mut flipped = value.clone();
            flipped[at] ^= 1;
            let opened = open_exactly(&flipped, "v1", "Pod");
            assert_ne!(opened, Ok(&raw[..]), "byte {at}");
        }
        let longer = [&value[..], &[0x28, 0x01]].concat();
        assert_eq!(open_exactly(&longer, "v1", "Pod"), Err(EnvelopeError::Tail));
        let secret = open_exactly(&value, "v1", "Secret");
        assert_eq!(secret, Err(EnvelopeError::Type));
    }

    #[test]
    fn other_values_are_refused() {
        assert_eq!(open(br#"{"kind":"Pod"}"#), Err(EnvelopeError::Magic));
        assert_eq!(open(b"k8s\0"), Err(EnvelopeError::Empty));
        assert!(matches!(
            open(b"k8s\0\x12\x05abc"),
            Err(EnvelopeError::Malformed(_))
        ));
    }
}
