//! Formats every number that a person reads: three significant digits, followed by the unit.

use std::fmt;

/// A measured value, shown with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// A duration in milliseconds, shown in a unit from microseconds to seconds.
    Milliseconds(f64),
    /// A size in bytes, shown in binary units.
    Bytes(f64),
    /// A size and its resolution in bytes. The last digit is worth at least the resolution.
    BytesWithin(f64, u64),
    /// A throughput, shown in binary units per second.
    BytesPerSecond(f64),
    /// A rate per second.
    PerSecond(f64),
    /// A count, shown in full.
    Count(u64),
    /// A number without a unit, which need not be an integer.
    Number(f64),
    /// One size as a part of another.
    PerByte(f64),
    /// The same, with the least ratio that can be distinguished from 0.
    PerByteFrom(f64, f64),
    /// A relative change, as in `+12 %`.
    Change(f64),
}

/// The text for an absent number.
pub const ABSENT: &str = "–";

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Milliseconds(ms) => Unit::of_time(ms).fmt_with(ms, f),
            Self::Bytes(bytes) => Unit::of_size(bytes).fmt_with(bytes, f),
            Self::BytesWithin(bytes, resolution) => within(bytes, resolution, f),
            Self::BytesPerSecond(rate) => {
                Unit::of_size(rate).fmt_with(rate, f)?;
                f.write_str("/s")
            }
            Self::PerSecond(rate) => write!(f, "{}/s", three_digits(rate)),
            Self::Count(count) => f.write_str(&grouped(count)),
            Self::Number(number) if number >= 0.0 && number.fract() == 0.0 => {
                f.write_str(&grouped(number as u64))
            }
            Self::Number(number) => f.write_str(&three_digits(number)),
            Self::PerByte(ratio) if ratio > 0.0 && ratio < 0.001 => f.write_str("< 0.001 ×"),
            Self::PerByte(ratio) => write!(f, "{ratio:.3} ×"),
            Self::PerByteFrom(ratio, least) if ratio < least => {
                write!(f, "< {:.3} ×", (least * 1e3).ceil() / 1e3)
            }
            Self::PerByteFrom(ratio, _) => Self::PerByte(ratio).fmt(f),
            Self::Change(ratio) => write!(f, "{:+.1} %", ratio * 100.0),
        }
    }
}

impl Quantity {
    /// Returns the value as text, or [`ABSENT`].
    #[must_use]
    pub fn or_absent(quantity: Option<Self>) -> String {
        quantity.map_or_else(|| ABSENT.to_owned(), |quantity| quantity.to_string())
    }

    /// Returns a size that is counted in whole bytes.
    #[must_use]
    pub fn bytes(bytes: u64) -> Self {
        Self::Bytes(bytes as f64)
    }

    /// Returns a size with its resolution in bytes, if that is known.
    #[must_use]
    pub fn bytes_within(bytes: u64, resolution: Option<u64>) -> Self {
        match resolution {
            Some(resolution) => Self::BytesWithin(bytes as f64, resolution),
            None => Self::bytes(bytes),
        }
    }

    /// Returns a duration that is given in seconds.
    #[must_use]
    pub fn seconds(seconds: f64) -> Self {
        Self::Milliseconds(seconds * 1e3)
    }
}

/// Writes a size with only the digits that its resolution supports: `< 1 MiB`, `3 MiB`, `2.68 GiB`.
fn within(bytes: f64, resolution: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let step = step_of(resolution);
    if bytes < step {
        let unit = Unit::of_size(step);
        return write!(f, "< {:.0} {}", step / unit.size, unit.name);
    }
    let unit = Unit::of_size(bytes);
    // The value of the last of three digits.
    let digit = match bytes / unit.size {
        value if value >= 99.95 => 1.0,
        value if value >= 9.995 => 0.1,
        _ => 0.01,
    };
    if digit * unit.size >= step {
        return unit.fmt_with(bytes, f);
    }
    let rounded = (bytes / step).round() * step;
    let unit = Unit::of_size(rounded);
    let decimals = usize::from(unit.size > step);
    write!(f, "{:.decimals$} {}", rounded / unit.size, unit.name)
}

/// Returns the smallest round number of a unit that is at least the resolution. The last digit of a
/// size is worth at least this much.
#[must_use]
pub fn step_of(resolution: u64) -> f64 {
    let resolution = resolution as f64;
    let mut unit = 1.0;
    loop {
        for digits in [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
            if digits * unit >= resolution {
                return digits * unit;
            }
        }
        unit *= 1024.0;
    }
}

/// A unit that all labels of an axis share, so that they are plain numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// The name as written after a number.
    pub name: &'static str,
    /// The size of the unit in terms of the base unit (milliseconds, bytes).
    pub size: f64,
}

impl Unit {
    /// Returns the unit in which a time in milliseconds has one to three digits before the point.
    #[must_use]
    pub fn of_time(ms: f64) -> Self {
        match ms.abs() {
            ms if ms >= 999.5 => Self {
                name: "s",
                size: 1e3,
            },
            ms if ms >= 0.9995 || ms == 0.0 => Self {
                name: "ms",
                size: 1.0,
            },
            _ => Self {
                name: "µs",
                size: 1e-3,
            },
        }
    }

    /// Returns the binary unit in which a size in bytes is at least 1.
    #[must_use]
    pub fn of_size(bytes: f64) -> Self {
        const STEP: f64 = 1024.0;
        let mut unit = Self {
            name: "B",
            size: 1.0,
        };
        for name in ["KiB", "MiB", "GiB", "TiB"] {
            // 999.5 of a unit would be written as 1000.
            if bytes.abs() < 999.5 * unit.size {
                break;
            }
            unit = Self {
                name,
                size: unit.size * STEP,
            };
        }
        unit
    }

    fn fmt_with(self, value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", three_digits(value / self.size), self.name)
    }
}

/// Returns three significant digits, without an exponent and without trailing noise: `0.213`,
/// `4.07`, `41.2`, `778`, `12,300`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        0.0 => "0".to_owned(),
        m if m >= 999.5 => grouped(value.round() as u64),
        m if m >= 99.95 => format!("{value:.0}"),
        m if m >= 9.995 => format!("{value:.1}"),
        m if m >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits_in_the_unit_that_fits() {
        let text = |ms| Quantity::Milliseconds(ms).to_string();
        assert_eq!(
            [0.0361, 0.9996, 1.0, 41.25, 412.4, 999.6, 8_500.0].map(text),
            [
                "36.1 µs", "1.00 ms", "1.00 ms", "41.2 ms", "412 ms", "1.00 s", "8.50 s"
            ]
        );
        assert_eq!(text(0.0), "0 ms");
    }

    #[test]
    fn sizes_are_binary() {
        let text = |bytes| Quantity::bytes(bytes).to_string();
        assert_eq!(
            [0, 512, 4 << 20, 1023 << 20, 3 << 30].map(text),
            ["0 B", "512 B", "4.00 MiB", "0.999 GiB", "3.00 GiB"]
        );
        assert_eq!(
            Quantity::BytesPerSecond(1_572_864.0).to_string(),
            "1.50 MiB/s"
        );
    }

    #[test]
    fn a_size_has_no_more_digits_than_its_counter() {
        const MIB: u64 = 1 << 20;
        let text = |bytes, resolution| Quantity::BytesWithin(bytes as f64, resolution).to_string();
        let quarter = |bytes| text(bytes, MIB / 4);
        assert_eq!(
            [0, 876 << 10, MIB, 1_340 << 10, 16_400 << 10, 162 * MIB].map(quarter),
            ["< 1 MiB", "< 1 MiB", "1 MiB", "1 MiB", "16 MiB", "162 MiB"]
        );
        assert_eq!(quarter(2_744 * MIB), "2.68 GiB", "three digits say less");
        assert_eq!(text(13 * MIB, 2 * MIB), "14 MiB");
        assert_eq!(text(300 * MIB, 32 * MIB), "300 MiB");
        assert_eq!(text(1_100 * MIB, 32 * MIB), "1.1 GiB");
        assert_eq!(text(5_000, 1), "4.88 KiB", "of an exact counter");
        assert_eq!(Quantity::bytes_within(512, None).to_string(), "512 B");
    }

    #[test]
    fn counts_are_grouped_and_small_ratios_do_not_become_zero() {
        assert_eq!(
            [7, 1_000, 150_000, 1_234_567].map(|n| Quantity::Count(n).to_string()),
            ["7", "1,000", "150,000", "1,234,567"]
        );
        assert_eq!(Quantity::PerByte(0.0002).to_string(), "< 0.001 ×");
        assert_eq!(Quantity::PerByte(1.04).to_string(), "1.040 ×");
        let from =
            |least| [0.0, 0.002, 0.5].map(|ratio| Quantity::PerByteFrom(ratio, least).to_string());
        assert_eq!(from(0.0151), ["< 0.016 ×", "< 0.016 ×", "0.500 ×"]);
        assert_eq!(from(0.0), ["0.000 ×", "0.002 ×", "0.500 ×"]);
        assert_eq!(Quantity::Change(-0.125).to_string(), "-12.5 %");
    }

    #[test]
    fn an_absent_number_is_a_dash() {
        assert_eq!(Quantity::or_absent(None), "–");
    }
}
