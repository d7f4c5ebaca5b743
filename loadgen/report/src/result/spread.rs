//! The median, the range and the confidence interval of a few values.

use serde::{Deserialize, Serialize};

/// The median of a few values, and how far they are apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// The smallest value.
    pub min: f64,
    /// The median; for an even number of values, the mean of the middle two.
    pub p50: f64,
    /// The largest value.
    pub max: f64,
    /// The confidence interval, of at least 95 %, of the median that more such values would have.
    /// Its bounds are two of the values (order statistics), as the second lowest and the second
    /// highest of ten. Null for fewer than six values.
    #[serde(default)]
    pub likely: Option<[f64; 2]>,
}

impl Spread {
    /// Returns the spread of these values; `None` without values, or if one is not finite.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let upper = values.len() / 2;
        let lower = (values.len() - 1) / 2;
        Some(Self {
            min,
            p50: f64::midpoint(values[lower], values[upper]),
            max,
            likely: left_out(values.len()).map(|k| [values[k], values[values.len() - 1 - k]]),
        })
    }
}

/// Returns the median of these values, as [`Spread::p50`]; `None` without values, or if one is not
/// finite.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.p50)
}

/// Returns how many of `n` values can be left out at either end so that the median lies between the
/// remaining ones with 95 % confidence. The median is beyond the k-th value when at most k of n
/// coins fall on one side. `None` where `n` values are too few.
fn left_out(n: usize) -> Option<usize> {
    let mut ways = 1.0;
    let mut beyond = 0.0;
    let mut found = None;
    for k in 0..n / 2 {
        beyond += ways / 2.0_f64.powi(n as i32);
        if 2.0 * beyond > 0.05 {
            break;
        }
        found = Some(k);
        ways *= (n - k) as f64 / (k + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_has_no_spread() {
        assert_eq!(Spread::of([1.0, f64::INFINITY]), None);
        let of_three = Spread::of([3.0, 1.0, 2.0]).expect("numbers");
        assert_eq!((of_three.min, of_three.p50, of_three.max), (1.0, 2.0, 3.0));
        assert_eq!(of_three.likely, None, "of three it may lie anywhere");
    }

    /// The expected values are those of tables of the sign test.
    #[test]
    fn a_median_lies_between_values_that_the_sign_test_names() {
        let expected = [
            (5, None),
            (6, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
            (10, Some(1)),
            (12, Some(2)),
            (20, Some(5)),
        ];
        for (n, k) in expected {
            assert_eq!(left_out(n), k, "of {n}");
        }
        let ten = Spread::of((1..=10).map(f64::from)).expect("numbers");
        assert_eq!(ten.likely, Some([2.0, 9.0]));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([3.0, 1.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
