//! Compact JSON indented as it passes by, for people who look at it with curl: two spaces a level, as Go does.

/// Where the text is.
#[derive(Debug, Default)]
pub(crate) struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Just behind an opening bracket, whose level is only begun when something follows.
    opened: bool,
}

impl Indenter {
    /// Appends the next piece of the text to `out`; pieces may end anywhere. White space outside of strings
    /// (the newline behind a list) is dropped.
    pub(crate) fn push(&mut self, json: &[u8], out: &mut Vec<u8>) {
        out.reserve(2 * json.len());
        for &byte in json {
            if self.in_string {
                out.push(byte);
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
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
