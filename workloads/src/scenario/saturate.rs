//! The search for the highest rate that keeps an objective.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A quantile of the latency and its upper limit: `p99=10ms`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Objective {
    /// The quantile, in (0, 1).
    pub quantile: f64,
    /// The upper limit of the latency.
    pub at_most: Duration,
}

/// An invalid objective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an objective like `p99=10ms`: a quantile from p1 to p99.99, and a time")]
pub struct ObjectiveError(String);

impl Objective {
    /// Returns the number of samples that a trial needs for its quantile, so that 10 lie beyond it.
    #[must_use]
    pub fn samples(self) -> f64 {
        (10.0 / (1.0 - self.quantile)).round()
    }
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let refused = || ObjectiveError(text.to_owned());
        let (quantile, at_most) = text.split_once('=').ok_or_else(refused)?;
        let percent = quantile.trim().strip_prefix('p').ok_or_else(refused)?;
        let percent: f64 = percent.parse().map_err(|_| refused())?;
        let at_most = humantime::parse_duration(at_most.trim()).map_err(|_| refused())?;
        if !(1.0..=99.99).contains(&percent) || at_most.is_zero() {
            return Err(refused());
        }
        Ok(Self {
            quantile: percent / 100.0,
            at_most,
        })
    }
}

impl TryFrom<String> for Objective {
    type Error = ObjectiveError;

    fn try_from(text: String) -> Result<Self, ObjectiveError> {
        text.parse()
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.to_string()
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounds to ten-thousandths, because 0.999 × 100 is not 99.9.
        let percent = (self.quantile * 1e6).round() / 1e4;
        let at_most = humantime::format_duration(self.at_most).to_string();
        write!(f, "p{percent}={}", at_most.replace(' ', ""))
    }
}

/// A search for the highest rate. A trial of full length lasts as long as the case's `duration`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturate {
    /// The objective.
    pub objective: Objective,
    /// The first rate, per second.
    #[serde(default = "first")]
    pub from: f64,
    /// The highest rate, per second.
    #[serde(default = "last")]
    pub to: f64,
    /// Largest relative difference between the highest rate that keeps the objective and the lowest
    /// one that does not.
    #[serde(default = "width")]
    pub width: f64,
    /// Number of searches, one after the other on the same servers.
    #[serde(default = "searches")]
    pub searches: NonZeroU32,
}

fn first() -> f64 {
    1_000.0
}

fn last() -> f64 {
    1_000_000.0
}

fn width() -> f64 {
    0.05
}

fn searches() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Saturate {
    /// Returns a search for `objective` with default values.
    #[must_use]
    pub fn for_objective(objective: Objective) -> Self {
        Self {
            objective,
            from: first(),
            to: last(),
            width: width(),
            searches: searches(),
        }
    }

    /// Checks that trials of `duration` are long enough.
    pub(super) fn check(&self, duration: Duration) -> Result<(), String> {
        let Self {
            objective,
            from,
            to,
            width,
            ..
        } = *self;
        if !(from.is_finite() && from > 0.0 && to.is_finite() && to >= from) {
            return Err(format!(
                "saturate: rates from {from} to {to} a second: both must be above 0, the second not below the first"
            ));
        }
        if !(0.001..=1.0).contains(&width) {
            return Err(format!("saturate: width = {width} must be from 0.001 to 1"));
        }
        let samples = from * duration.as_secs_f64();
        if samples < objective.samples() {
            return Err(format!(
                "saturate: {objective} takes {:.0} requests a trial, and {from} a second for {} are {samples:.0}: begin at a higher rate, or make trials longer",
                objective.samples(),
                humantime::format_duration(duration)
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_survive_a_round_trip() {
        for text in ["p99=10ms", "p99.9=1s", "p50=100us", "p99.99=1m30s"] {
            let objective: Objective = text.parse().expect("an objective");
            assert_eq!(objective.to_string(), text);
        }
        let objective: Objective = "p99=10ms".parse().expect("an objective");
        assert!((objective.samples() - 1_000.0).abs() < 1e-6);
        for text in [
            "", "p99", "99=10ms", "p0=1ms", "p100=1ms", "pNaN=1ms", "p99=0s", "p99=10",
        ] {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_impossible_search_is_rejected_with_the_numbers() {
        let objective = "p99.9=1ms".parse().expect("an objective");
        let saturate = Saturate::for_objective(objective);
        let refused = saturate.check(Duration::from_secs(5)).expect_err("too few");
        assert!(
            refused.contains("10000 requests a trial") && refused.contains("for 5s are 5000"),
            "{refused}"
        );
        assert_eq!(saturate.check(Duration::from_secs(10)), Ok(()));
        let backwards = Saturate {
            to: 10.0,
            ..saturate
        };
        assert!(backwards.check(Duration::from_secs(10)).is_err());
        let wide = Saturate {
            width: 0.0,
            ..saturate
        };
        assert!(wide.check(Duration::from_secs(10)).is_err());
    }
}
