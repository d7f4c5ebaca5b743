//! Indents compact JSON while it is streamed: by two spaces for each level, as Go does.

use memchr::memchr2;

/// The state of the indentation, at a position in the text.
#[derive(Debug, Default)]
pub(crate) struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Whether the last byte was an opening bracket. A newline follows it only if the next byte is
    /// not the closing bracket.
    opened: bool,
}

impl Indenter {
    /// Appends the next chunk of the text, indented, to `out`. A chunk may end anywhere. White
    /// space outside of strings (such as the newline after a list) is dropped.
    pub(crate) fn push(&mut self, json: &[u8], out: &mut Vec<u8>) {
        out.reserve(2 * json.len());
        let mut rest = json;
        loop {
            if self.in_string {
                rest = self.string(rest, out);
            }
            let Some((&byte, behind)) = rest.split_first() else {
                return;
            };
            rest = behind;
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => continue,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if !std::mem::take(&mut self.opened) {
                        self.line(out);
                    }
                    out.push(byte);
                    continue;
                }
                _ => {}
            }
            if std::mem::take(&mut self.opened) {
                self.line(out);
            }
            out.push(byte);
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.opened = true;
                }
                b',' => self.line(out),
                b':' => out.push(b' '),
                b'"' => self.in_string = true,
                _ => {}
            }
        }
    }

    /// Appends the rest of a string. Returns the bytes of the chunk that follow it.
    fn string<'j>(&mut self, json: &'j [u8], out: &mut Vec<u8>) -> &'j [u8] {
        let mut end = 0;
        while self.in_string && end < json.len() {
            if std::mem::take(&mut self.escaped) {
                end += 1;
                continue;
            }
            let Some(found) = memchr2(b'"', b'\\', &json[end..]) else {
                end = json.len();
                break;
            };
            end += found + 1;
            self.escaped = json[end - 1] == b'\\';
            self.in_string = self.escaped;
        }
        out.extend_from_slice(&json[..end]);
        &json[end..]
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_indented_as_go_does_wherever_it_is_cut() {
        let json = br#"{"a":[],"b":{},"c":[1,{"d":"x,{}:\"\\"}],"e":null}"#;
        let pretty = r#"{
  "a": [],
  "b": {},
  "c": [
    1,
    {
      "d": "x,{}:\"\\"
    }
  ],
  "e": null
}"#;
        for piece in 1..=json.len() {
            let (mut indenter, mut out) = (Indenter::default(), Vec::new());
            for part in json.chunks(piece) {
                indenter.push(part, &mut out);
            }
            indenter.push(b"\n", &mut out);
            assert_eq!(String::from_utf8(out).expect("UTF-8"), pretty, "by {piece}");
        }
    }
}
