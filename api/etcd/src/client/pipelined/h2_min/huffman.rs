//! Decodes HPACK's Huffman code (RFC 7541, appendix B) bit by bit. That is fast enough, because
//! only strings that are new to a connection are Huffman-coded.
//!
//! The code is canonical (codes of equal length are consecutive, in symbol order), so the lengths
//! of the codes define it.

use std::sync::LazyLock;

/// Length of the longest code, bits.
const MAX_CODE_BITS: usize = 30;

/// The end-of-string symbol. It is never sent; its leading bits pad the last byte.
const END: usize = 256;

/// The length of each symbol's code, bits.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// For each code length, the first code and its index in `symbols`.
struct Code {
    first: [u32; MAX_CODE_BITS + 1],
    start: [usize; MAX_CODE_BITS + 2],
    symbols: Vec<u16>,
}

static CODE: LazyLock<Code> = LazyLock::new(|| {
    let mut code = Code {
        first: [0; MAX_CODE_BITS + 1],
        start: [0; MAX_CODE_BITS + 2],
        symbols: Vec::with_capacity(LENGTHS.len()),
    };
    let mut next = 0;
    for length in 1..=MAX_CODE_BITS {
        next <<= 1;
        code.first[length] = next;
        code.start[length] = code.symbols.len();
        for (symbol, &bits) in LENGTHS.iter().enumerate() {
            if usize::from(bits) == length {
                code.symbols.push(symbol as u16);
                next += 1;
            }
        }
    }
    code.start[MAX_CODE_BITS + 1] = code.symbols.len();
    code
});

/// Decodes a string; returns `None` if it does not consist of whole symbols and valid padding.
pub(super) fn decode(coded: &[u8]) -> Option<Vec<u8>> {
    let table = &*CODE;
    let mut out = Vec::with_capacity(coded.len() * 8 / 5);
    let (mut code, mut length) = (0u32, 0usize);
    for byte in coded {
        for shift in (0..8).rev() {
            code = code << 1 | u32::from(byte >> shift & 1);
            length += 1;
            if length > MAX_CODE_BITS {
                return None;
            }
            let known = table.start[length + 1] - table.start[length];
            let offset = code.wrapping_sub(table.first[length]) as usize;
            if offset < known {
                match usize::from(table.symbols[table.start[length] + offset]) {
                    END => return None,
                    symbol => out.push(symbol as u8),
                }
                (code, length) = (0, 0);
            }
        }
    }
    // Padding is at most seven bits, all ones.
    (length < 8 && code == (1 << length) - 1).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rfc_examples_are_decoded() {
        for (coded, text) in [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (
                &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f],
                "custom-key",
            ),
            (&[], ""),
        ] {
            assert_eq!(decode(coded).as_deref(), Some(text.as_bytes()));
        }
    }

    #[test]
    fn invalid_padding_is_rejected() {
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff]), None, "end of string");
        assert_eq!(decode(&[0xff]), None, "eight bits of padding");
        assert_eq!(
            decode(&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7e]),
            None
        );
    }
}
