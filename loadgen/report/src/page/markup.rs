//! Converts text to HTML.

/// Escapes the characters that are special in HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Units that must stay on the same line as the number before them.
const UNITS: [&str; 13] = [
    "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "MiB/s", "GiB/s", "×", "%", "cases",
];

/// Returns the text with no-break spaces between numbers and their units.
pub(super) fn tied(text: &str) -> String {
    let mut tied = String::with_capacity(text.len());
    for word in text.split_inclusive(' ') {
        let ends_in_digit = tied
            .trim_end_matches(' ')
            .ends_with(|c: char| c.is_ascii_digit());
        let bare = word.trim_end_matches([' ', ',', '.', ';', ':', ')', ']']);
        if ends_in_digit && tied.ends_with(' ') && UNITS.contains(&bare) {
            tied.pop();
            tied.push('\u{a0}');
        }
        tied.push_str(word);
    }
    tied
}

/// Returns the text as HTML, with the parts in backticks as code.
pub(super) fn with_code(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in tied(text).split('`').enumerate() {
        match at % 2 {
            0 => html.push_str(&escaped(part)),
            _ => html.push_str(&format!("<code>{}</code>", escaped(part))),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::{tied, with_code};

    #[test]
    fn a_number_is_never_parted_from_its_unit() {
        assert_eq!(
            tied("1.64 s (3.25 ×), 4 of 5 s"),
            "1.64\u{a0}s (3.25\u{a0}×), 4 of 5\u{a0}s"
        );
        assert_eq!(tied("bench s"), "bench s");
    }

    #[test]
    fn what_others_wrote_is_escaped_inside_code_and_outside() {
        assert_eq!(
            with_code("a < b: `x & \"y\"`."),
            "a &lt; b: <code>x &amp; &quot;y&quot;</code>."
        );
    }
}
