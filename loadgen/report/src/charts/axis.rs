//! An axis: its unit, whether it is logarithmic, and ticks at round values.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use crate::quantity::{Unit, three_digits};

/// An axis in its own unit, from its lowest to its highest value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) unit: Unit,
    /// Whether the axis is logarithmic, as it is for values that span decades.
    pub(crate) logarithmic: bool,
    /// The lowest value, in the axis' unit.
    pub(crate) low: f64,
    /// The highest value, in the axis' unit.
    pub(crate) high: f64,
    pub(crate) ticks: Vec<f64>,
}

/// The ratio of the largest to the smallest value from which on an axis is logarithmic.
const DECADES_FROM: f64 = 30.0;

impl Axis {
    /// Returns an axis for these values, in their base unit; `None` when there is nothing to show.
    pub(crate) fn of(
        values: impl IntoIterator<Item = f64>,
        unit: impl Fn(f64) -> Unit,
    ) -> Option<Self> {
        let (mut smallest, mut largest) = (f64::INFINITY, 0.0_f64);
        for value in values
            .into_iter()
            .filter(|value| value.is_finite() && *value > 0.0)
        {
            smallest = smallest.min(value);
            largest = largest.max(value);
        }
        if largest == 0.0 {
            return None;
        }
        Some(if largest / smallest >= DECADES_FROM {
            // The unit fits the middle, so that neither end needs many digits.
            let unit = unit((smallest * largest).sqrt());
            Self::logarithmic(unit, smallest / unit.size, largest / unit.size)
        } else {
            let unit = unit(largest);
            Self::linear(unit, largest / unit.size)
        })
    }

    fn linear(unit: Unit, largest: f64) -> Self {
        let step = nice_step(largest / 5.0);
        let steps = (largest / step * 1.02).ceil();
        let ticks = (0..=steps as u32).map(|n| f64::from(n) * step).collect();
        Self {
            unit,
            logarithmic: false,
            low: 0.0,
            high: steps * step,
            ticks,
        }
    }

    /// Returns a logarithmic axis from a round value below the smallest to one above the largest,
    /// both in the axis' unit.
    pub(crate) fn logarithmic(unit: Unit, smallest: f64, largest: f64) -> Self {
        let (low, high) = (one_two_five_below(smallest), one_two_five_above(largest));
        let decades = (high / low).log10();
        let mantissas: &[f64] = if decades <= 4.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let exponents = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let ticks = exponents
            .flat_map(|exponent| {
                mantissas
                    .iter()
                    .map(move |mantissa| mantissa * 10_f64.powi(exponent))
            })
            .filter(|tick| (low * 0.999..=high * 1.001).contains(tick))
            .collect();
        Self {
            unit,
            logarithmic: true,
            low,
            high,
            ticks,
        }
    }

    /// Converts a value in the base unit to the axis' unit and clamps it to the axis. Zero, which a
    /// logarithmic axis does not have, becomes the lowest value.
    pub(crate) fn place(&self, value: f64) -> f64 {
        (value / self.unit.size).clamp(self.low, self.high)
    }

    /// Returns the position on the axis of a value in its unit: 0 at the lowest value, 1 at the
    /// highest.
    pub(crate) fn part(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Returns the same axis, ending at a value in the base unit instead of at the next tick.
    pub(crate) fn ending_at(mut self, value: f64) -> Self {
        self.high = value / self.unit.size;
        self.ticks.retain(|&tick| tick <= self.high);
        self
    }

    /// Returns the label of a tick.
    pub(crate) fn label(value: f64) -> String {
        // Ticks are 1, 2 or 5 times a power of ten, so trailing zeros add nothing.
        let text = three_digits(value);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    }

    /// Returns the axis' title with its unit, and whether it is logarithmic.
    pub(crate) fn title(&self, of: &str) -> String {
        let scale = if self.logarithmic {
            ", logarithmic"
        } else {
            ""
        };
        format!("{of} ({}{scale})", self.unit.name)
    }
}

/// Plotters places ticks on a logarithmic axis only at powers of ten, which would leave most of
/// these axes with one tick or none.
impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.part(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// Returns the smallest of 1, 2, 5 times a power of ten that is at least `least`.
fn nice_step(least: f64) -> f64 {
    one_two_five_above(least)
}

fn one_two_five_above(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|mantissa| mantissa * power)
        .find(|&step| step >= value * 0.999)
        .unwrap_or(10.0 * power)
}

fn one_two_five_below(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [5.0, 2.0]
        .into_iter()
        .map(|mantissa| mantissa * power)
        .find(|&step| step <= value * 1.001)
        .unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_axis(values: &[f64]) -> Axis {
        Axis::of(values.iter().copied(), Unit::of_time).expect("there are values")
    }

    #[test]
    fn values_close_together_start_at_zero() {
        let axis = time_axis(&[2_330.0, 8_500.0]);
        assert_eq!(
            (axis.unit.name, axis.logarithmic, axis.low, axis.high),
            ("s", false, 0.0, 10.0)
        );
        assert_eq!(axis.ticks, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(axis.title("time of a list"), "time of a list (s)");
    }

    #[test]
    fn values_decades_apart_are_shown_by_their_logarithm() {
        let axis = time_axis(&[1.3, 410.0]);
        assert!(axis.logarithmic);
        assert_eq!(
            axis.ticks,
            [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
        );
        assert_eq!(
            axis.place(0.0),
            1.0,
            "zero stands at the foot of a logarithmic axis"
        );
        assert_eq!(axis.title("time"), "time (ms, logarithmic)");
    }

    #[test]
    fn many_decades_are_marked_by_powers_of_ten_only() {
        assert_eq!(time_axis(&[0.01, 9_000.0]).ticks.len(), 7);
    }

    #[test]
    fn nothing_to_show_has_no_axis() {
        assert_eq!(Axis::of([0.0, f64::NAN], Unit::of_time), None);
    }

    #[test]
    fn ticks_are_written_without_noise() {
        assert_eq!(
            [0.0, 0.05, 0.5, 2.0, 20.0, 5_000.0].map(Axis::label),
            ["0", "0.05", "0.5", "2", "20", "5,000"]
        );
    }
}
