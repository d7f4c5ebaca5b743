//! Λ and its inverse for each profile: the number of operations due by a time, and the time at
//! which an operation is due.

use std::f64::consts::PI;
use std::time::Duration;

use super::Profile;

/// Steps of the bisection: enough to find a nanosecond in a year.
const BISECTION_STEPS: u32 = 60;

/// Resolution of a constant rate: one operation per second is this many units.
const PARTS: f64 = 1e6;

/// Returns the number of operations due by `t` seconds.
pub(super) fn due_by(profile: &Profile, t: f64) -> f64 {
    match profile {
        Profile::Poisson(rate) | Profile::Constant(rate) => rate * t,
        Profile::Ramp { from, to, within } => {
            let within = within.as_secs_f64();
            let slope = (to - from) / within;
            let inside = t.min(within);
            (from + slope * inside / 2.0) * inside + to * (t - inside)
        }
        Profile::Steps { rates, each, .. } => {
            let each = each.as_secs_f64();
            let mut sum = 0.0;
            let mut left = t;
            for (number, rate) in rates.iter().enumerate() {
                let lasts = match number + 1 == rates.len() {
                    true => left,
                    false => left.min(each),
                };
                sum += rate * lasts;
                left -= lasts;
            }
            sum
        }
        Profile::Burst { size, every } => {
            // A burst counts from its start on.
            f64::from(*size) * (t / every.as_secs_f64()).ceil()
        }
        Profile::Sine {
            mean,
            amplitude,
            period,
        } => {
            let period = period.as_secs_f64();
            let swing = amplitude * period / (2.0 * PI);
            mean * t + swing * (1.0 - libm::cos(2.0 * PI * t / period))
        }
    }
}

/// Returns when operation `x` of a profile is due, in seconds from the start; `None` if it never
/// is.
pub(super) fn start(profile: &Profile, x: f64) -> Option<f64> {
    match profile {
        Profile::Poisson(rate) | Profile::Constant(rate) => Some(x / rate),
        Profile::Ramp { from, to, within } => {
            let within = within.as_secs_f64();
            let inside = (from + to) / 2.0 * within;
            if x > inside {
                return (*to > 0.0).then(|| within + (x - inside) / to);
            }
            // The quadratic's root in the form without cancellation, which also holds for from =
            // to. At the end of a ramp to 0, rounding may make the square root's argument negative.
            let slope = (to - from) / within;
            let root = (from * from + 2.0 * slope * x).max(0.0).sqrt();
            let divisor = from + root;
            Some(if divisor > 0.0 {
                2.0 * x / divisor
            } else {
                0.0
            })
        }
        Profile::Steps { rates, each, .. } => {
            let each = each.as_secs_f64();
            let mut left = x;
            let last = rates.len().checked_sub(1)?;
            for (number, rate) in rates[..last].iter().enumerate() {
                // What remains of an arrival at the end of a step belongs to the next step.
                if left <= rate * each && *rate > 0.0 {
                    return Some(number as f64 * each + left / rate);
                }
                left -= rate * each;
            }
            (rates[last] > 0.0).then(|| last as f64 * each + left / rates[last])
        }
        Profile::Burst { size, every } => {
            Some((x / f64::from(*size)).floor() * every.as_secs_f64())
        }
        Profile::Sine {
            mean,
            amplitude,
            period,
        } => {
            // Λ is between the line of the mean and that line plus the largest deviation.
            let swing = amplitude * period.as_secs_f64() / PI;
            let (mut low, mut high) = (((x - swing) / mean).max(0.0), x / mean);
            for _ in 0..BISECTION_STEPS {
                let middle = low.midpoint(high);
                match due_by(profile, middle) < x {
                    true => low = middle,
                    false => high = middle,
                }
            }
            Some(high)
        }
    }
}

/// Returns when operation `number` of an evenly spaced profile is due, in integer arithmetic, so
/// that errors do not accumulate.
pub(super) fn even_start(profile: &Profile, number: u64) -> Duration {
    const NANOS: u128 = 1_000_000_000;
    let nanos = match profile {
        Profile::Constant(rate) => {
            let per_second = ((rate * PARTS).round() as u128).max(1);
            u128::from(number) * NANOS * PARTS as u128 / per_second
        }
        Profile::Burst { size, every } => {
            u128::from(number / u64::from(*size).max(1)) * every.as_nanos()
        }
        random => {
            let seconds = start(random, number as f64).unwrap_or(f64::MAX);
            return Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        }
    };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
