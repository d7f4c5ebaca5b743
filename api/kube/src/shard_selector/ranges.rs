//! Extracts the ranges from a parsed expression.

use super::syntax::{self, Expression};
use super::{BoundError, END, ShardKey, ShardRange, ShardSelector, ShardSelectorError};

/// The only supported function.
const FUNCTION: &str = "shardRange";
/// Number of hexadecimal digits of a hash.
const DIGITS: usize = 16;

/// Parses a selector.
pub(super) fn parse(text: &str) -> Result<ShardSelector, ShardSelectorError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ShardSelectorError::Empty);
    }
    let expression = syntax::parse(text);
    let expression = expression.map_err(|why| ShardSelectorError::Syntax(why.into()))?;
    let mut found = Vec::new();
    collect(expression, &mut found)?;
    let key = found[0].0;
    if let Some((other, _)) = found.iter().find(|(other, _)| *other != key) {
        return Err(ShardSelectorError::Fields(key, *other));
    }
    let ranges = found.into_iter().map(|(_, range)| range).collect();
    Ok(ShardSelector::from_ranges(key, ranges))
}

/// Appends the ranges of an expression, at least one.
fn collect(
    expression: Expression,
    into: &mut Vec<(ShardKey, ShardRange)>,
) -> Result<(), ShardSelectorError> {
    match expression {
        Expression::Or(operands) => operands
            .into_iter()
            .try_for_each(|operand| collect(operand, into)),
        // Only the function's name matters: in CEL the receiver of a method is not one of its
        // arguments.
        Expression::Call(function, arguments) if function == FUNCTION => {
            into.push(range(arguments)?);
            Ok(())
        }
        Expression::Call(function, _) => Err(ShardSelectorError::Function(function)),
        other => Err(ShardSelectorError::Kind(other.kind())),
    }
}

fn range(arguments: Vec<Expression>) -> Result<(ShardKey, ShardRange), ShardSelectorError> {
    let [field, start, end] = <[Expression; 3]>::try_from(arguments)
        .map_err(|arguments| ShardSelectorError::Arguments(arguments.len()))?;
    let path = field.path().map_err(ShardSelectorError::NoPath)?;
    let key = ShardKey::ALL.into_iter().find(|key| key.path() == path);
    let key = key.ok_or(ShardSelectorError::Path(path))?;
    let (start, start_text) = bound("hexStart", start)?;
    let (end, end_text) = bound("hexEnd", end)?;
    let range = u64::try_from(start).ok();
    let range = range.and_then(|start| ShardRange::new(start, end));
    let range = range.ok_or(ShardSelectorError::Order {
        start: start_text,
        end: end_text,
    })?;
    Ok((key, range))
}

/// Returns the value of a bound, at most 2^64, and its text.
fn bound(
    bound: &'static str,
    expression: Expression,
) -> Result<(u128, String), ShardSelectorError> {
    value(expression).map_err(|why| ShardSelectorError::Bound { bound, why })
}

fn value(expression: Expression) -> Result<(u128, String), BoundError> {
    let text = match expression {
        Expression::Text(text) => text,
        Expression::Literal(of) => return Err(BoundError::NoText(of)),
        other => return Err(BoundError::NoLiteral(other.kind())),
    };
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(BoundError::Prefix(text));
    };
    if digits.is_empty() {
        return Err(BoundError::NoDigits);
    }
    if digits.len() > DIGITS + 1 {
        return Err(BoundError::TooLong {
            digits: digits.to_owned(),
        });
    }
    let is_digit = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
    let mut value = 0;
    for digit in digits.chars() {
        match digit.to_digit(16).filter(|_| is_digit(digit)) {
            Some(worth) => value = value << 4 | u128::from(worth),
            None => return Err(BoundError::Digit { digit, text }),
        }
    }
    match digits.len() {
        DIGITS => Ok((value, text)),
        longer if longer > DIGITS => match value == END {
            true => Ok((value, text)),
            false => Err(BoundError::TooLarge(text)),
        },
        _ => {
            let padded = format!("{value:#018x}");
            Err(BoundError::TooShort(text, padded))
        }
    }
}
