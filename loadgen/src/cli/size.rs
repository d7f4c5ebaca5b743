//! Sizes on the command line: `16GiB`, `512MiB`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use workloads::scenario::parse_with_unit;

const UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// A number of bytes, typed with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size(pub u64);

/// A size that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size like `512MiB` or `16GiB`")]
pub struct SizeError(String);

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let bytes = parse_with_unit(text, &UNITS);
        bytes.map(Self).ok_or_else(|| SizeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_and_fits() {
        assert_eq!("16GiB".parse(), Ok(Size(16 << 30)));
        assert_eq!("512 MiB".parse(), Ok(Size(512 << 20)));
        assert_eq!("100B".parse(), Ok(Size(100)));
        for text in ["", "16", "GiB", "16GB", "-1B", "1.5GiB", "99999999TiB"] {
            let error = text.parse::<Size>().expect_err(text);
            assert!(error.to_string().contains("16GiB"), "{error}");
        }
    }
}
