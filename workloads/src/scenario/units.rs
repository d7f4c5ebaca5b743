//! Sizes and durations of scenario files: `"16KiB"`, `"5s"`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const UNITS: [(&str, u64); 3] = [("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Returns the value of an integer followed by one of `units`, or `None` if the unit is unknown or
/// the value overflows.
///
/// The first unit that the text ends with counts, so a unit must precede the units that are its
/// suffixes.
#[must_use]
pub fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut units = units.iter();
    let (digits, unit) = units.find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

/// A number of bytes below 4 GiB, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(pub u32);

/// An invalid size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size like `16KiB` or `1MiB`")]
pub struct ByteSizeError(String);

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let bytes = parse_with_unit(text, &UNITS).and_then(|bytes| u32::try_from(bytes).ok());
        bytes
            .map(Self)
            .ok_or_else(|| ByteSizeError(text.to_owned()))
    }
}

impl TryFrom<String> for ByteSize {
    type Error = ByteSizeError;

    fn try_from(text: String) -> Result<Self, ByteSizeError> {
        text.parse()
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = UNITS
            .iter()
            .find(|(_, unit)| self.0 > 0 && u64::from(self.0).is_multiple_of(*unit));
        let (name, unit) = fitting.unwrap_or(&UNITS[2]);
        write!(f, "{}{name}", u64::from(self.0) / unit)
    }
}

/// Durations, written like `5s` and `200ms`.
pub(crate) use humantime_serde as duration_text;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_survive_a_round_trip() {
        for text in ["16KiB", "1MiB", "100B", "0B"] {
            let size: ByteSize = text.parse().expect("a size");
            assert_eq!(size.to_string(), text);
        }
        assert_eq!("16KiB".parse(), Ok(ByteSize(16_384)));
        for text in ["", "16", "KiB", "16KB", "-1B", "5000MiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
