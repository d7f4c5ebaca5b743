//! What Go's encoder escapes in JSON with HTML escaping on, which is what Kubernetes' serializer uses.

/// Marks the bytes of a block of text that may have to be escaped between quotes, or that are not ASCII. Without
/// a branch, so that the compiler takes all bytes at once.
#[inline(always)]
pub(super) fn note(block: &[u8; 16], special: &mut [u8; 16]) {
    for (byte, special) in block.iter().zip(special) {
        // Pairs that differ in one bit; signed, so that what is not ASCII is below the space as well.
        let pairs = (byte | 2 == b'>') | (byte | 4 == b'&');
        *special |= u8::from(pairs | (*byte == b'\\') | ((*byte as i8) < 0x20));
    }
}

/// Whether there is nothing in JSON that Go escapes inside of it. In one pass without a branch, for texts so
/// long that the bytes that are left over by vectors do not count.
#[inline(never)]
pub(super) fn is_plain_json(json: &[u8]) -> bool {
    let special = |byte: &u8| (byte | 2 == b'>') | (*byte == b'&') | (*byte == 0xe2);
    let any = json.iter().map(|byte| u8::from(special(byte)));
    any.fold(0, |any, special| any | special) == 0
}

/// Appends a string as Go's encoder writes it; bytes that are not UTF-8 become U+FFFD.
pub fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    // One pass without branches, which the compiler turns into vector instructions.
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

/// Appends JSON as it stands, except for what is escaped inside of it.
pub(super) fn put_json(out: &mut Vec<u8>, json: &[u8]) {
    put_escaped(out, json, |byte| matches!(byte, b'<' | b'>' | b'&'));
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
