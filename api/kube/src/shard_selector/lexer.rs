//! Splits CEL expressions into tokens.

use super::error::{ParseError, syntax_error};

/// The kind of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// An identifier.
    Name(String),
    /// A string literal, with its escapes resolved.
    Text(String),
    /// Another literal, by its type in CEL's implementation.
    Literal(&'static str),
    /// An operator, a bracket, or other punctuation.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// A token and its text.
#[derive(Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind,
    pub(super) written: &'t str,
}

/// Operators and punctuation, longer ones first.
const SIGNS: [&str; 24] = [
    "||", "&&", "==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":",
    "!", "-", "+", "*", "/", "%",
];

/// Splits a text into tokens. The last one is [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{c}']);
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
            continue;
        }
        if rest.is_empty() {
            tokens.push(Token {
                kind: TokenKind::End,
                written: "<EOF>",
            });
            return Ok(tokens);
        }
        let (kind, length) = token(rest)?;
        let (written, behind) = rest.split_at(length);
        tokens.push(Token { kind, written });
        rest = behind;
    }
}

/// Reads the first token of a text; returns it and its length in bytes.
fn token(text: &str) -> Result<(TokenKind, usize), ParseError> {
    let unknown = || {
        let character = text.chars().next().unwrap_or_default();
        syntax_error(format_args!("token recognition error at: '{character}'"))
    };
    if let Some(literal) = literal_text(text) {
        return literal;
    }
    let first = text.as_bytes()[0];
    let digit_follows = text.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if first.is_ascii_digit() || first == b'.' && digit_follows {
        return number(text);
    }
    if first.is_ascii_alphabetic() || first == b'_' {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = text.bytes().take_while(is_part).count();
        let token = match &text[..length] {
            "true" | "false" => TokenKind::Literal("bool"),
            "null" => TokenKind::Literal("structpb.NullValue"),
            "in" => TokenKind::Sign("in"),
            name => TokenKind::Name(name.to_owned()),
        };
        return Ok((token, length));
    }
    let sign = SIGNS.iter().find(|sign| text.starts_with(**sign));
    let sign = sign.ok_or_else(unknown)?;
    Ok((TokenKind::Sign(sign), sign.len()))
}

fn number(text: &str) -> Result<(TokenKind, usize), ParseError> {
    let digits = |from: usize| {
        let digits = text.as_bytes()[from..].iter();
        digits.take_while(|byte| byte.is_ascii_digit()).count()
    };
    let (mut at, mut radix, mut name) = (digits(0), 10, "int64");
    if let Some(hex) = text.strip_prefix("0x") {
        let digits = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 0 {
            (at, radix) = (2 + digits, 16);
        }
    }
    if radix == 10 {
        let fraction = match text[at..].strip_prefix('.') {
            Some(_) => digits(at + 1),
            None => 0,
        };
        if fraction > 0 {
            (at, name) = (at + 1 + fraction, "float64");
        }
        if text[at..].starts_with(['e', 'E']) {
            let sign = usize::from(text[at + 1..].starts_with(['+', '-']));
            let exponent = digits(at + 1 + sign);
            if exponent > 0 {
                (at, name) = (at + 1 + sign + exponent, "float64");
            }
        }
    }
    if name == "int64" {
        let written = &text[if radix == 16 { 2 } else { 0 }..at];
        if text[at..].starts_with(['u', 'U']) {
            let fits = u64::from_str_radix(written, radix);
            let fits = fits.map(|_| (TokenKind::Literal("uint64"), at + 1));
            return fits.map_err(|_| ParseError::from("invalid uint literal"));
        }
        if i64::from_str_radix(written, radix).is_err() {
            return Err("invalid int literal".into());
        }
    }
    Ok((TokenKind::Literal(name), at))
}

/// Reads a string or bytes literal; `None` if the text does not begin with one.
fn literal_text(text: &str) -> Option<Result<(TokenKind, usize), ParseError>> {
    let is_prefix = |byte: &u8| matches!(byte, b'r' | b'R' | b'b' | b'B');
    let prefix = text.bytes().take_while(is_prefix).count();
    let marks = &text[..prefix];
    let quoted = &text[prefix..];
    let quote = quoted
        .chars()
        .next()
        .filter(|quote| matches!(quote, '\'' | '"'))?;
    let is = |mark: char| marks.contains([mark, mark.to_ascii_uppercase()]);
    let (raw, bytes) = (is('r'), is('b'));
    if prefix != usize::from(raw) + usize::from(bytes) {
        return None;
    }
    let triple = quote.to_string().repeat(3);
    let (end, long) = match quoted.strip_prefix(&triple) {
        Some(_) => (&triple[..], true),
        None => (&triple[..1], false),
    };
    let unclosed = || {
        Some(Err(syntax_error(format_args!(
            "token recognition error at: '{text}'"
        ))))
    };
    let body = &quoted[end.len()..];
    let mut value = String::new();
    let mut rest = body;
    loop {
        if let Some(behind) = rest.strip_prefix(end) {
            let token = match bytes {
                true => TokenKind::Literal("[]uint8"),
                false => TokenKind::Text(value),
            };
            return Some(Ok((token, text.len() - behind.len())));
        }
        let Some(character) = rest.chars().next() else {
            return unclosed();
        };
        if !long && matches!(character, '\n' | '\r') {
            return unclosed();
        }
        if character == '\\' && !raw {
            let Some((escaped, behind)) = escape(&rest[1..]) else {
                return unclosed();
            };
            value.push(escaped);
            rest = behind;
        } else {
            value.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
}

/// Reads an escape sequence; returns its character and the text after it, or `None` if it is
/// invalid.
fn escape(text: &str) -> Option<(char, &str)> {
    let code = |from: usize, digits: usize, radix: u32| {
        let number = u32::from_str_radix(text.get(from..from + digits)?, radix).ok()?;
        Some((char::from_u32(number)?, &text[from + digits..]))
    };
    let first = text.chars().next()?;
    let one = |character| Some((character, &text[1..]));
    match first {
        'a' => one('\u{7}'),
        'b' => one('\u{8}'),
        'f' => one('\u{c}'),
        'n' => one('\n'),
        'r' => one('\r'),
        't' => one('\t'),
        'v' => one('\u{b}'),
        '\\' | '?' | '"' | '\'' | '`' => one(first),
        'x' | 'X' => code(1, 2, 16),
        'u' => code(1, 4, 16),
        'U' => code(1, 8, 16),
        '0'..='3' => code(0, 3, 8),
        _ => None,
    }
}
