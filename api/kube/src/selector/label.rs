//! Label selectors: `a=b,a==b,a!=b,a in (x,y),a notin (x),a,!a`, and integer comparisons with `>`
//! and `<`.

/// A conjunction of requirements; an empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted; empty for operators without values.
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    /// Also matches objects without the label.
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// The error for an invalid selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    /// An unexpected token.
    #[error("unable to parse requirement: found '{found}', expected: {expected}")]
    Unexpected {
        /// The token; empty at the end of the text.
        found: String,
        /// The tokens that are allowed at this position.
        expected: &'static str,
    },
    /// An invalid label key.
    #[error("unable to parse requirement: key: Invalid value: {0:?}")]
    Key(String),
    /// An invalid label value.
    #[error("unable to parse requirement: values: Invalid value: {0:?}")]
    Value(String),
}

impl LabelSelector {
    /// Parses a selector; the empty text selects everything.
    ///
    /// # Errors
    /// [`LabelSelectorError`].
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        if tokens.peek().is_empty() {
            return Ok(Self::default());
        }
        loop {
            requirements.push(requirement(&mut tokens)?);
            match tokens.next() {
                "" => return Ok(Self { requirements }),
                "," => {}
                other => return Err(unexpected(other, "',' or the end")),
            }
        }
    }

    /// Returns whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the labels that a selected object must have, for a lookup in an index. Each has its
    /// possible values; no values mean that any value is possible.
    pub fn required_labels(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.requirements
            .iter()
            .filter(|requirement| matches!(requirement.operator, Operator::In | Operator::Exists))
            .map(|requirement| (requirement.key.as_str(), &requirement.values[..]))
    }

    /// Returns whether the selector matches an object, given a function that returns the value of a
    /// label.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a [u8]>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(value_of(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&[u8]>) -> bool {
        let listed = |value: &[u8]| {
            let order = |candidate: &String| candidate.as_bytes().cmp(value);
            self.values.binary_search_by(order).is_ok()
        };
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
        let compare = |holds: fn(&i64, &i64) -> bool| {
            let bound = self
                .values
                .first()
                .and_then(|bound| number(bound.as_bytes()));
            value
                .and_then(number)
                .zip(bound)
                .is_some_and(|(value, bound)| holds(&value, &bound))
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compare(i64::gt),
            Operator::LessThan => compare(i64::lt),
        }
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, LabelSelectorError> {
    let absent = tokens.take("!");
    let key = tokens.next();
    if !is_word(key) {
        return Err(unexpected(key, "identifier"));
    }
    if !is_qualified_name(key) {
        return Err(LabelSelectorError::Key(key.to_owned()));
    }
    let (operator, values) = if absent {
        (Operator::DoesNotExist, Vec::new())
    } else {
        match tokens.peek() {
            "" | "," => (Operator::Exists, Vec::new()),
            "=" | "==" => (Operator::In, single(tokens)?),
            "!=" => (Operator::NotIn, single(tokens)?),
            ">" => (Operator::GreaterThan, integer(tokens)?),
            "<" => (Operator::LessThan, integer(tokens)?),
            "in" => (Operator::In, set(tokens)?),
            "notin" => (Operator::NotIn, set(tokens)?),
            other => return Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
        }
    };
    if let Some(bad) = values.iter().find(|value| !is_label_value(value)) {
        return Err(LabelSelectorError::Value(bad.clone()));
    }
    Ok(Requirement {
        key: key.to_owned(),
        operator,
        values,
    })
}

/// Reads the value after an operator; a missing value is the empty text.
fn single(tokens: &mut Tokens<'_>) -> Result<Vec<String>, LabelSelectorError> {
    tokens.next();
    match tokens.peek() {
        "" | "," => Ok(vec![String::new()]),
        word if is_word(word) => Ok(vec![tokens.next().to_owned()]),
        other => Err(unexpected(other, "identifier")),
    }
}

fn integer(tokens: &mut Tokens<'_>) -> Result<Vec<String>, LabelSelectorError> {
    let values = single(tokens)?;
    match values[0].parse::<i64>() {
        Ok(_) => Ok(values),
        Err(_) => Err(LabelSelectorError::Value(values[0].clone())),
    }
}

/// Reads the values of `in (a,b,…)`; a missing value between commas is the empty text.
fn set(tokens: &mut Tokens<'_>) -> Result<Vec<String>, LabelSelectorError> {
    tokens.next();
    if !tokens.take("(") {
        return Err(unexpected(tokens.next(), "'('"));
    }
    let mut values = Vec::new();
    loop {
        values.push(if is_word(tokens.peek()) {
            tokens.next().to_owned()
        } else {
            String::new()
        });
        match tokens.next() {
            "," => {}
            ")" => break,
            other => return Err(unexpected(other, "',' or ')'")),
        }
    }
    values.sort();
    values.dedup();
    Ok(values)
}

fn unexpected(found: &str, expected: &'static str) -> LabelSelectorError {
    LabelSelectorError::Unexpected {
        found: found.to_owned(),
        expected,
    }
}

/// The tokens of a selector, without white space; the empty token is the end.
struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    fn split(&self) -> (&'t str, &'t str) {
        let rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let symbols = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
        let length = match symbols.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => symbol.len(),
            None => rest
                .find([' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<'])
                .unwrap_or(rest.len()),
        };
        rest.split_at(length)
    }

    fn peek(&self) -> &'t str {
        self.split().0
    }

    fn next(&mut self) -> &'t str {
        let (token, rest) = self.split();
        self.rest = rest;
        token
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.peek() == symbol;
        if found {
            self.next();
        }
        found
    }
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.contains(['=', '!', '(', ')', ',', '>', '<'])
}

/// Returns whether a key is `name` or `prefix/name`: up to 63 characters of name, and a DNS prefix
/// of up to 253.
fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let label = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes().all(|byte| inner(byte) || byte == b'-')
            && part.bytes().next().is_some_and(inner)
            && part.bytes().next_back().is_some_and(inner)
    };
    !name.is_empty()
        && is_label_value(name)
        && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(label))
}

/// Returns whether a value is empty, or consists of up to 63 letters, digits, `-`, `_` and `.` that
/// begin and end with a letter or digit.
fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selects(selector: &str, labels: &[(&str, &'static str)]) -> bool {
        let selector = LabelSelector::parse(selector).expect("a selector");
        selector.matches(|key| {
            labels
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value.as_bytes())
        })
    }

    #[test]
    fn operators_select_by_their_definition() {
        let labels = [
            ("app", "web"),
            ("tier", "front"),
            ("n", "12"),
            ("empty", ""),
            ("example.com/x", "y"),
        ];
        for (selector, selected) in [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web , tier in ( back, front )", true),
            ("app!=web", false),
            ("missing!=web", true),
            ("app", true),
            ("!app", false),
            ("!missing", true),
            ("app in (a,b)", false),
            ("app notin (a,b)", true),
            ("missing notin (a)", true),
            ("missing in (a)", false),
            ("n>11,n<13", true),
            ("n>12", false),
            ("app>1", false),
            ("empty=", true),
            ("empty in (,a)", true),
            ("app=", false),
            ("example.com/x=y", true),
            ("in in (a)", false),
        ] {
            assert_eq!(selects(selector, &labels), selected, "{selector}");
        }
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        for bad in [
            ",",
            "a=b,",
            "a b",
            "a in b",
            "a in (b",
            "a in",
            "=b",
            "a=b=c",
            "!a=b",
            "a>b",
            "a>",
            "-a",
            "a=-b",
            "/a",
            "a/",
            "A.b/c/d",
            "a in (b c)",
            "(a)",
        ] {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
        assert!(LabelSelector::parse(&"a".repeat(64)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_selector_or_an_error(text in "[a-z=!(),<> /.]{0,30}") {
            let _answered = LabelSelector::parse(&text);
        }
    }
}
