//! Escapes JSON as Go's encoder does with HTML escaping on, as Kubernetes' serializer does.

/// Marks the bytes of a block that may need escaping in a string, or that are not ASCII. Has no
/// branches, so that the compiler vectorizes it.
#[inline(always)]
pub(super) fn mark_special(block: &[u8; 16], special: &mut [u8; 16]) {
    for (byte, special) in block.iter().zip(special) {
        // Pairs of characters that differ in one bit. The comparison is signed, so that bytes that
        // are not ASCII are also below the space.
        let pairs = (byte | 2 == b'>') | (byte | 4 == b'&');
        *special |= u8::from(pairs | (*byte == b'\\') | ((*byte as i8) < 0x20));
    }
}

/// Returns whether JSON contains nothing that Go escapes, in one pass without branches. Meant for
/// long texts, in which the bytes that do not fill a vector cost little. They are checked, too.
#[inline(never)]
pub(super) fn is_plain_json(json: &[u8]) -> bool {
    let special = |byte: &u8| (byte | 2 == b'>') | (*byte == b'&') | (*byte == 0xe2);
    let any = json.iter().map(|byte| u8::from(special(byte)));
    any.fold(0, |any, special| any | special) == 0
}

/// Appends a string as Go's encoder writes it; each byte that is not UTF-8 becomes U+FFFD.
pub fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    // One pass without branches, which the compiler vectorizes.
    let plain = text.iter().fold(true, |plain, &byte| {
        plain & (0x20..0x80).contains(&byte) & !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&')
    });
    let special = |byte| byte < 0x20 || matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&');
    match std::str::from_utf8(text) {
        _ if plain => out.extend_from_slice(text),
        Ok(_) => put_escaped(out, text, special),
        Err(_) => put_escaped(out, replace_invalid(text).as_bytes(), special),
    }
    out.push(b'"');
}

/// Appends JSON unchanged, except for the characters that Go escapes.
pub(super) fn put_json(out: &mut Vec<u8>, json: &[u8]) {
    put_escaped(out, json, |byte| matches!(byte, b'<' | b'>' | b'&'));
}

/// Copies UTF-8 text, and escapes bytes that are `special` and JavaScript's two line separators.
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

/// Replaces each byte that is not part of a valid character by U+FFFD, as Go does.
fn replace_invalid(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(std::iter::repeat_n('\u{fffd}', chunk.invalid().len()));
    }
    out
}
