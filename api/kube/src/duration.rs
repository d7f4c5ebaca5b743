//! Durations in Go's format (`1m30s`), and ages in kubectl's (`3d4h`).

use std::time::Duration;

/// A text that is not a duration; the messages are Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a sequence of numbers and units.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that Go does not have.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// Parses `300ms`, `1.5h`, `2h45m` or `0`. Negative durations become zero, which means "none" in
/// all parameters. Nanoseconds saturate.
///
/// # Errors
/// See [`DurationError`].
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, behind) = rest.split_at(number_end);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let unit_end = behind
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            "" => return Err(DurationError::MissingUnit(text.to_owned())),
            unit => {
                return Err(DurationError::UnknownUnit {
                    unit: unit.to_owned(),
                    text: text.to_owned(),
                });
            }
        };
        nanos += number * scale;
        rest = behind;
    }
    Ok(match negative {
        true => Duration::ZERO,
        false => Duration::from_nanos(nanos as u64),
    })
}

/// Returns an age as `kubectl get` prints it: at most two units, with the smaller one only if the
/// number of larger ones is small. Ages of less than −1 s (in the future) are `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s / MINUTE % 60, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s / HOUR % 24, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s / DAY % 365, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_parsed() {
        for (text, millis) in [
            ("5s", 5_000),
            ("300ms", 300),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("0", 0),
            ("-5s", 0),
            ("1000us", 1),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("x", "time: invalid duration \"x\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("1..5s", "time: invalid duration \"1..5s\""),
        ] {
            assert_eq!(parse_duration(text).expect_err(text).to_string(), error);
        }
        assert!(parse_duration("99999999999999999999h").is_ok(), "saturates");
    }

    #[test]
    fn ages_are_printed_as_by_kubectl() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (14_460, "4h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (277_200, "3d5h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (63_072_000 + 86_400, "2y1d"),
            (10 * 31_536_000, "10y"),
        ] {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }
}
