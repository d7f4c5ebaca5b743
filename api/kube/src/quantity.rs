//! `resource.Quantity`, such as `500m` or `32Gi`: converts quantities to the canonical text that an
//! apiserver stores.
//!
//! An apiserver decodes `0.5` and stores `500m`. The rules, including odd ones, are those of
//! apimachinery's `pkg/api/resource`. No quantities are added here, so a quantity remains a string
//! of digits of any length.

/// Exponent of the last decimal place that is kept; digits after it are rounded away from zero.
const NANO: i64 = -9;
/// Exponent of the last decimal place of resource requests, limits and capacities.
const MILLI: i64 = -3;

/// The largest binary quantity; larger ones are reduced to it.
const MAX_BINARY: u64 = i64::MAX as u64;

/// Suffixes of 10³ⁿ, starting at 10⁻⁹.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// Suffixes of 2¹⁰ⁿ.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The format of a quantity, which is preserved if possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// Returns the text that an apiserver stores for a quantity; `None` for an invalid one. Costs a
/// pass over the digits for each power of two in the suffix.
pub fn canonical(text: &str) -> Option<String> {
    rounded(text, NANO)
}

/// Returns the stored text of a quantity in a list of resources, with at most three decimal places.
pub fn canonical_resource(text: &str) -> Option<String> {
    rounded(text, MILLI)
}

fn rounded(text: &str, lowest: i64) -> Option<String> {
    let text = text.trim();
    let parts = Parts::read(text)?;
    let (format, exponent) = scale(parts.suffix)?;
    if parts.is_kept_unchanged(format, exponent, lowest) {
        return Some(text.to_owned());
    }
    let mut amount = Amount::new(parts.whole, parts.fraction);
    match format {
        Format::Binary => (0..exponent).for_each(|_| amount.double()),
        Format::Decimal | Format::Exponent => amount.exponent += i64::from(exponent),
    }
    amount.round_up_to(lowest);
    if amount.digits.is_empty() {
        return Some("0".to_owned());
    }
    let sign = if parts.negative { "-" } else { "" };
    let shown = match format {
        Format::Binary => amount.binary(),
        Format::Decimal => amount.decimal(),
        Format::Exponent => amount.scientific(),
    };
    Some(format!("{sign}{shown}"))
}

/// The parts of a quantity's text.
struct Parts<'t> {
    negative: bool,
    /// Digits before the point, without leading zeros.
    whole: &'t str,
    /// Digits after the point.
    fraction: &'t str,
    suffix: &'t str,
}

impl<'t> Parts<'t> {
    fn read(text: &'t str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        Some(Self {
            negative,
            whole: whole.trim_start_matches('0'),
            fraction,
            suffix,
        })
    }

    /// Returns whether the text is stored unchanged. That is the case for small numbers without a
    /// factor that could move into the suffix, even if they are not canonical, such as `1.` and
    /// `100.035k`.
    fn is_kept_unchanged(&self, format: Format, exponent: i32, lowest: i64) -> bool {
        let whole = self.whole.len().max(1);
        let exponent = i64::from(exponent);
        let scale = match format {
            Format::Binary => 0,
            _ => exponent - self.fraction.len() as i64,
        };
        let small = match format {
            Format::Binary => self.fraction.is_empty() && whole as i64 + exponent * 3 / 10 < 15,
            _ => whole + self.fraction.len() <= 18 && scale >= lowest,
        };
        small
            && match format {
                Format::Binary => {
                    let last = self.whole.parse::<u64>().unwrap_or(0) % 8;
                    last != 0
                }
                _ => {
                    let shifted = format!("{}{}", self.whole, self.fraction);
                    // If there are no digits before the point, a zero is inserted.
                    scale % 3 == 0 && !self.whole.is_empty() && !shifted.ends_with("000")
                }
            }
    }
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|byte: char| !byte.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the format and exponent of a suffix; the base is 2 for binary ones and 10 for others.
fn scale(suffix: &str) -> Option<(Format, i32)> {
    let place = |suffixes: &[&str]| suffixes.iter().position(|known| *known == suffix);
    if let Some(at) = place(&DECIMAL) {
        return Some((Format::Decimal, at as i32 * 3 + NANO as i32));
    }
    if let Some(at) = place(&BINARY) {
        return Some((Format::Binary, at as i32 * 10));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent = exponent.parse().ok()?;
    Some((Format::Exponent, exponent))
}

/// A non-negative number.
struct Amount {
    /// Decimal digits as numbers, most significant first, without leading zeros; empty for 0.
    digits: Vec<u8>,
    /// Power of 10 of the last digit.
    exponent: i64,
}

impl Amount {
    fn new(whole: &str, fraction: &str) -> Self {
        let digits = whole.bytes().chain(fraction.bytes());
        Self {
            digits: digits
                .map(|digit| digit - b'0')
                .skip_while(|digit| *digit == 0)
                .collect(),
            exponent: -(fraction.len() as i64),
        }
    }

    fn double(&mut self) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            let doubled = *digit * 2 + carry;
            (*digit, carry) = (doubled % 10, doubled / 10);
        }
        if carry > 0 {
            self.digits.insert(0, carry);
        }
    }

    /// Rounds away from zero to a multiple of 10 to the power `lowest`.
    fn round_up_to(&mut self, lowest: i64) {
        if self.exponent >= lowest || self.digits.is_empty() {
            return;
        }
        let kept = self.digits.len() as i64 - (lowest - self.exponent);
        let kept = usize::try_from(kept).unwrap_or(0);
        let rounds = self.digits.drain(kept..).any(|digit| digit != 0);
        self.exponent = lowest;
        if !rounds {
            return;
        }
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// Returns the shortest digits whose exponent is a multiple of 3, and that exponent.
    fn thousands(mut self) -> (String, i64) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
        let more = self.exponent.rem_euclid(3);
        let zeros = std::iter::repeat_n(0, more as usize);
        let digits = self.digits.into_iter().chain(zeros);
        let text = digits.map(|digit| char::from(b'0' + digit)).collect();
        (text, self.exponent - more)
    }

    fn decimal(self) -> String {
        let (mut digits, exponent) = self.thousands();
        // Numbers too large for the last suffix get more digits.
        let at = ((exponent - NANO) / 3) as usize;
        let above = at.saturating_sub(DECIMAL.len() - 1);
        digits.extend(std::iter::repeat_n("000", above));
        digits + DECIMAL[at - above]
    }

    fn scientific(self) -> String {
        match self.thousands() {
            (digits, 0) => digits,
            (digits, exponent) => format!("{digits}e{exponent}"),
        }
    }

    /// Returns the text with a binary suffix. Small and fractional numbers are written in decimal.
    fn binary(self) -> String {
        let ends_at = self.digits.len() as i64 + self.exponent;
        let broken = self.exponent < 0 && {
            let behind = self.digits.iter().rev().take(-self.exponent as usize);
            behind.into_iter().any(|digit| *digit != 0)
        };
        let whole = match ends_at {
            ..=0 => Some(0),
            1..=19 => {
                let zeros = std::iter::repeat_n(&0, self.exponent.max(0) as usize);
                let digits = self.digits.iter().chain(zeros).take(ends_at as usize);
                let value = digits.fold(0_u64, |value, digit| value * 10 + u64::from(*digit));
                (value < MAX_BINARY).then_some(value)
            }
            _ => None,
        };
        let Some(mut value) = whole else {
            return MAX_BINARY.to_string();
        };
        if broken || value < 1024 {
            return self.decimal();
        }
        let mut times = 0;
        while value >= 1024 && value.is_multiple_of(1024) && times + 1 < BINARY.len() {
            value /= 1024;
            times += 1;
        }
        format!("{value}{}", BINARY[times])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quantities of apimachinery's own tests, and their stored forms.
    #[test]
    fn quantities_are_stored_as_by_an_apiserver() {
        for (text, stored) in [
            ("0", "0"),
            ("00", "0"),
            ("0Ki", "0"),
            ("-0", "0"),
            ("1", "1"),
            ("0.5", "500m"),
            ("0.50000", "500m"),
            ("0.0005k", "500m"),
            (".001", "1m"),
            (".0001k", "100m"),
            ("-0.5", "-500m"),
            ("1.08", "1080m"),
            ("1080000000n", "1080m"),
            ("5000m", "5"),
            ("1000u", "1m"),
            ("50k", "50k"),
            ("300T", "300T"),
            ("1000M", "1G"),
            ("0.001T", "1G"),
            ("2.5P", "2500T"),
            ("1.01E", "1010P"),
            ("12E", "12E"),
            ("1000000E", "1000000E"),
            ("100.035k", "100.035k"),
            ("6.987654321G", "6.987654321G"),
            ("1e3", "1e3"),
            ("1E14", "100e12"),
            ("0.5e-1", "50e-3"),
            ("1.2e3", "1200"),
            ("1.3E+6", "1300e3"),
            (".001e12", "1e9"),
            ("0.001e0", "1e-3"),
            ("1000e-12", "1e-9"),
            ("3.001n", "4n"),
            ("1.1E-9", "2e-9"),
            ("0.0000000001", "1n"),
            ("0.00000012345", "124n"),
            ("99999999.9999999999", "100M"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("307200Ki", "300Mi"),
            ("1025024Mi", "1001Gi"),
            ("0.5Mi", "512Ki"),
            ("0.5Ki", "512"),
            ("100.035Ki", "102435840m"),
            ("0.05Gi", "53687091200m"),
            ("0.000000000001Ki", "2n"),
            ("9Ei", "9223372036854775807"),
            ("9223372036854775807Ki", "9223372036854775807"),
            ("-9Ei", "-9223372036854775807"),
            (" 1 ", "1"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(stored), "{text}");
            let again = canonical(stored);
            assert_eq!(again.as_deref(), Some(stored), "{text}, stored");
        }
    }

    #[test]
    fn resources_have_three_decimal_places() {
        for (text, stored) in [
            ("0.0001", "1m"),
            ("100u", "1m"),
            ("1.0001", "1001m"),
            ("1000000n", "1m"),
            ("1.500", "1.500"),
            ("100m", "100m"),
            ("1Ki", "1Ki"),
        ] {
            assert_eq!(canonical_resource(text).as_deref(), Some(stored), "{text}");
        }
        assert_eq!(canonical("100u").as_deref(), Some("100u"));
    }

    #[test]
    fn invalid_quantities_are_rejected() {
        for text in [
            "",
            " ",
            "abc",
            "1.1.M",
            "1+1.0M",
            "0.1mi",
            "0.1am",
            "aoeu",
            ".5i",
            "1i",
            "-3.01i",
            "1e",
            "1e2.5",
            "1 Ki",
            "1K",
            "--1",
            "1e99999999999",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    /// Neither many digits nor a large exponent costs more than one pass.
    #[test]
    fn no_quantity_is_expensive() {
        assert_eq!(canonical("1e2147483646").as_deref(), Some("1e2147483646"));
        assert_eq!(canonical("1e-2147483647").as_deref(), Some("1e-9"));
        let long = "1".repeat(100_000);
        assert_eq!(canonical(&long), Some(long.clone()));
        let most = MAX_BINARY.to_string();
        assert_eq!(canonical(&(long + "Ki")), Some(most));
    }
}
