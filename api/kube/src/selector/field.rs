//! Field selectors: `path=value`, `path==value`, `path!=value`, joined by commas.

/// A conjunction of comparisons; an empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    path: String,
    equal: bool,
    value: String,
}

/// The error for an invalid selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A part without an operator.
    #[error("invalid selector: '{text}'; can't understand '{part}'")]
    Unreadable {
        /// The whole selector.
        text: String,
        /// The part.
        part: String,
    },
    /// A backslash in a value that does not escape `\`, `,` or `=`.
    #[error("invalid field selector: invalid escape sequence in {0:?}")]
    Escape(String),
    /// A path that this kind does not support.
    #[error("field label not supported: {0}")]
    Unsupported(String),
}

impl FieldSelector {
    /// Parses a selector; the empty text selects everything. All paths must be `supported`. In
    /// values, `\\`, `\,` and `\=` stand for the second character.
    ///
    /// # Errors
    /// [`FieldSelectorError`].
    pub fn parse(text: &str, supported: impl Fn(&str) -> bool) -> Result<Self, FieldSelectorError> {
        let mut terms = Vec::new();
        for part in split_unescaped(text)
            .into_iter()
            .filter(|part| !part.is_empty())
        {
            let unreadable = || FieldSelectorError::Unreadable {
                text: text.to_owned(),
                part: part.to_owned(),
            };
            let at = part.find('=').ok_or_else(unreadable)?;
            let (path, equal) = match part[..at].strip_suffix('!') {
                Some(path) => (path, false),
                None => (&part[..at], true),
            };
            let rest = &part[at + 1..];
            let rest = if equal {
                rest.strip_prefix('=').unwrap_or(rest)
            } else {
                rest
            };
            let value =
                unescape(rest).ok_or_else(|| FieldSelectorError::Escape(rest.to_owned()))?;
            if !supported(path) {
                return Err(FieldSelectorError::Unsupported(path.to_owned()));
            }
            terms.push(Term {
                path: path.to_owned(),
                equal,
                value,
            });
        }
        Ok(Self { terms })
    }

    /// Returns whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the value that the selector requires for `path`, for a lookup in an index.
    pub fn required_value(&self, path: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.equal && term.path == path)
            .map(|term| term.value.as_str())
    }

    /// Returns whether the selector matches an object, given a function that returns the value of a
    /// field (empty if absent).
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> &'a [u8]) -> bool {
        self.terms
            .iter()
            .all(|term| (value_of(&term.path) == term.value.as_bytes()) == term.equal)
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b',' if !escaped => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            b'\\' => {
                escaped = !escaped;
                continue;
            }
            _ => {}
        }
        escaped = false;
    }
    parts.push(&text[start..]);
    parts
}

/// Returns the value without escapes; `None` for an invalid escape or an unescaped `=`.
fn unescape(value: &str) -> Option<String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.push(
                characters
                    .next()
                    .filter(|next| matches!(next, '\\' | ',' | '='))?,
            ),
            '=' => return None,
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FieldSelector, FieldSelectorError> {
        FieldSelector::parse(text, |path| {
            ["metadata.name", "spec.nodeName"].contains(&path)
        })
    }

    fn selects(text: &str) -> bool {
        parse(text).expect("a selector").matches(|path| match path {
            "metadata.name" => b"a,b",
            _ => b"",
        })
    }

    #[test]
    fn operators_and_escapes() {
        for (text, selected) in [
            ("", true),
            ("metadata.name=a\\,b", true),
            ("metadata.name==a\\,b,spec.nodeName=", true),
            ("metadata.name!=a\\,b", false),
            ("metadata.name!=x", true),
            ("spec.nodeName!=", false),
            (",metadata.name=a\\,b,", true),
        ] {
            assert_eq!(selects(text), selected, "{text}");
        }
        assert_eq!(
            parse("spec.nodeName=n1")
                .expect("a selector")
                .required_value("spec.nodeName"),
            Some("n1")
        );
        assert_eq!(
            parse("spec.nodeName!=n1")
                .expect("a selector")
                .required_value("spec.nodeName"),
            None
        );
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        assert!(matches!(
            parse("metadata.name"),
            Err(FieldSelectorError::Unreadable { .. })
        ));
        assert!(matches!(
            parse("metadata.name=a\\b"),
            Err(FieldSelectorError::Escape(_))
        ));
        assert!(matches!(
            parse("metadata.name=a=b"),
            Err(FieldSelectorError::Escape(_))
        ));
        let error = parse("status.phase=Running").expect_err("not in the list");
        assert_eq!(error.to_string(), "field label not supported: status.phase");
    }
}
