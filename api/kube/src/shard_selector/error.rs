//! Errors of parsing CEL expressions.

use std::fmt;

/// The reason why a text is not an expression.
pub(super) type ParseError = Box<str>;

/// Returns a syntax error. CEL's parser also lists the tokens that it expected; this one does not.
pub(super) fn syntax_error(what: fmt::Arguments<'_>) -> ParseError {
    format!("Syntax error: {what}").into()
}
