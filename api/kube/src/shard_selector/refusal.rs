//! Why a text is no CEL expression.

use std::fmt;

/// Why a text is no expression.
pub(super) type Refusal = Box<str>;

/// A text that is no expression. CEL's parser goes on with what it had expected; ours stops there.
pub(super) fn syntax_error(what: fmt::Arguments<'_>) -> Refusal {
    format!("Syntax error: {what}").into()
}
