//! Arrivals: when each operation of an open loop ought to begin, computed before any response.
//!
//! Λ(t) is the number of operations that are due by time t, and operation x begins at Λ⁻¹(x): at
//! x = 0, 1, 2, … where they come evenly, at x = E₁, E₁+E₂, … with Eᵢ ~ Exp(1) where they come at
//! random. So one formula for each profile makes both, and no rounding error adds up from one gap to
//! the next. Random arrivals are a Poisson process: what they meet is what a server is like on
//! average (PASTA), where an even rate can lock onto a period of the server, such as etcd's batch
//! commit every 100 ms.

use std::fmt;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::random::{Stream, generator, uniform};

mod inverse;

/// How the rate of a load goes over time, in operations a second.
///
/// In a scenario file: `{ poisson = 1000 }`, `{ constant = 1000 }`,
/// `{ ramp = { from = 100, to = 5000, within = "60s" } }`,
/// `{ steps = { rates = [1000, 2000], each = "10s", shuffled = true } }`,
/// `{ burst = { size = 100, every = "1s" } }`,
/// `{ sine = { mean = 1000, amplitude = 500, period = "60s" } }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Profile {
    /// One rate, at random times.
    Poisson(f64),
    /// One rate, evenly spaced.
    Constant(f64),
    /// From one rate to another, then on at that one; at random times.
    Ramp {
        /// Rate at the start.
        from: f64,
        /// Rate at the end, and after it.
        to: f64,
        /// How long it takes to get there.
        #[serde(with = "humantime_serde")]
        within: Duration,
    },
    /// One rate after the other, the last for ever; at random times.
    Steps {
        /// The rates.
        rates: Vec<f64>,
        /// How long each lasts.
        #[serde(with = "humantime_serde")]
        each: Duration,
        /// Whether their order is drawn from the seed: a rising ladder confuses the rate with
        /// everything else that grows with time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shuffled: bool,
    },
    /// Many at once, then none until the next burst.
    Burst {
        /// Operations of a burst.
        size: u32,
        /// From one burst to the next.
        #[serde(with = "humantime_serde")]
        every: Duration,
    },
    /// A rate that swings; at random times.
    Sine {
        /// The rate in the middle, where it starts.
        mean: f64,
        /// How far it goes above and below; at most `mean`.
        amplitude: f64,
        /// From one maximum to the next.
        #[serde(with = "humantime_serde")]
        period: Duration,
    },
}

/// A profile that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// A rate out of range.
    #[error("arrivals: {field} = {value} must be a number {bound}")]
    Rate {
        /// Its name in the scenario file.
        field: &'static str,
        /// What was written.
        value: f64,
        /// What it must be.
        bound: &'static str,
    },
    /// A time of zero.
    #[error("arrivals: {0} must be longer than 0s")]
    Time(&'static str),
    /// Nothing ever begins.
    #[error("arrivals: {0}, so nothing would ever be sent")]
    Nothing(&'static str),
}

impl Profile {
    /// Refuses what cannot be sent.
    ///
    /// # Errors
    /// [`ProfileError`], with the field and the value.
    pub fn check(&self) -> Result<(), ProfileError> {
        let above_zero = |field, value: f64| match value.is_finite() && value > 0.0 {
            true => Ok(()),
            false => Err(rate_error(field, value, "above 0")),
        };
        let not_negative = |field, value: f64| match value.is_finite() && value >= 0.0 {
            true => Ok(()),
            false => Err(rate_error(field, value, "of 0 or more")),
        };
        let lasts = |field, time: Duration| match time.is_zero() {
            true => Err(ProfileError::Time(field)),
            false => Ok(()),
        };
        match self {
            Self::Poisson(rate) => above_zero("poisson", *rate),
            Self::Constant(rate) => above_zero("constant", *rate),
            Self::Ramp { from, to, within } => {
                not_negative("from", *from)?;
                not_negative("to", *to)?;
                lasts("within", *within)?;
                match *from + *to > 0.0 {
                    true => Ok(()),
                    false => Err(ProfileError::Nothing("the ramp goes from 0 to 0")),
                }
            }
            Self::Steps { rates, each, .. } => {
                for rate in rates {
                    not_negative("rates", *rate)?;
                }
                lasts("each", *each)?;
                match rates.iter().any(|rate| *rate > 0.0) {
                    true => Ok(()),
                    false => Err(ProfileError::Nothing("no step has a rate above 0")),
                }
            }
            Self::Burst { size, every } => {
                lasts("every", *every)?;
                match *size > 0 {
                    true => Ok(()),
                    false => Err(ProfileError::Nothing("the burst's size is 0")),
                }
            }
            Self::Sine {
                mean,
                amplitude,
                period,
            } => {
                above_zero("mean", *mean)?;
                not_negative("amplitude", *amplitude)?;
                lasts("period", *period)?;
                match amplitude <= mean {
                    true => Ok(()),
                    false => Err(rate_error("amplitude", *amplitude, "of at most `mean`")),
                }
            }
        }
    }

    /// Operations that are due by `time` on average: Λ(time). What was achieved is held against it.
    /// Of shuffled steps, in the order in which they are written.
    #[must_use]
    pub fn due_by(&self, time: Duration) -> f64 {
        inverse::due_by(self, time.as_secs_f64())
    }

    /// The mean rate over the first `time`, in operations a second.
    #[must_use]
    pub fn mean_rate(&self, time: Duration) -> f64 {
        self.due_by(time) / time.as_secs_f64()
    }

    /// The same profile with shuffled steps in the order that `seed` gives them.
    #[must_use]
    pub fn ordered(&self, seed: u64) -> Self {
        let mut profile = self.clone();
        if let Self::Steps {
            rates, shuffled, ..
        } = &mut profile
            && std::mem::take(shuffled)
        {
            shuffle(rates, seed);
        }
        profile
    }

    /// The same profile with every rate multiplied by `factor`, which must be above 0. Bursts come
    /// more often instead of growing.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        match &mut scaled {
            Self::Poisson(rate) | Self::Constant(rate) => *rate *= factor,
            Self::Ramp { from, to, .. } => {
                *from *= factor;
                *to *= factor;
            }
            Self::Steps { rates, .. } => rates.iter_mut().for_each(|rate| *rate *= factor),
            Self::Burst { every, .. } => *every = every.div_f64(factor),
            Self::Sine {
                mean, amplitude, ..
            } => {
                *mean *= factor;
                *amplitude *= factor;
            }
        }
        scaled
    }

    fn is_random(&self) -> bool {
        !matches!(self, Self::Constant(_) | Self::Burst { .. })
    }
}

/// Its name in a case, as `ramp-100-to-5000-in-1m`; rates are per second.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |time: Duration| {
            humantime::format_duration(time)
                .to_string()
                .replace(' ', "")
        };
        match self {
            Self::Poisson(rate) => write!(f, "{rate}-per-second"),
            Self::Constant(rate) => write!(f, "evenly-{rate}-per-second"),
            Self::Ramp { from, to, within } => {
                write!(f, "ramp-{from}-to-{to}-in-{}", text(*within))
            }
            Self::Steps {
                rates,
                each,
                shuffled,
            } => {
                f.write_str("steps")?;
                for rate in rates {
                    write!(f, "-{rate}")?;
                }
                write!(f, "-of-{}", text(*each))?;
                f.write_str(if *shuffled { "-shuffled" } else { "" })
            }
            Self::Burst { size, every } => write!(f, "bursts-of-{size}-every-{}", text(*every)),
            Self::Sine {
                mean,
                amplitude,
                period,
            } => write!(f, "sine-{mean}-by-{amplitude}-in-{}", text(*period)),
        }
    }
}

fn rate_error(field: &'static str, value: f64, bound: &'static str) -> ProfileError {
    ProfileError::Rate {
        field,
        value,
        bound,
    }
}

/// The intended starts of one lane of a load, from the load's beginning, in order. Lanes of one seed
/// make up the profile together: random ones are independent and each as frequent as its share, even
/// ones take turns. Holds no schedule: a few words, whatever the length.
#[derive(Debug, Clone)]
pub struct Arrivals {
    profile: Profile,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    /// The next operation's number among all lanes', and how many lanes there are.
    Even { next: u64, lanes: u64 },
    /// What has come so far on the axis of Λ, in operations of all lanes.
    Random {
        random: Xoshiro256PlusPlus,
        reached: f64,
        lanes: f64,
    },
}

impl Arrivals {
    /// The arrivals of lane number `lane` of `lanes`. `part` tells phases of one load apart: each has
    /// arrivals of its own.
    #[must_use]
    pub fn new(profile: &Profile, seed: u64, part: u64, lane: u64, lanes: u64) -> Self {
        let number = part.wrapping_mul(lanes).wrapping_add(lane);
        let source = match profile.is_random() {
            true => Source::Random {
                random: generator(seed, Stream::Arrivals, number),
                reached: 0.0,
                lanes: lanes as f64,
            },
            false => Source::Even { next: lane, lanes },
        };
        let profile = profile.ordered(seed);
        Self { profile, source }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    /// The next intended start; `None` when the profile has come to a rate of 0 for ever.
    fn next(&mut self) -> Option<Duration> {
        let seconds = match &mut self.source {
            Source::Even { next, lanes } => {
                let number = *next;
                *next += *lanes;
                return Some(inverse::even_start(&self.profile, number));
            }
            Source::Random {
                random,
                reached,
                lanes,
            } => {
                // 53 random bits as a number in (0, 1]: its logarithm is finite. libm's is the same
                // on every machine.
                *reached -= libm::log(uniform(random)) * *lanes;
                inverse::start(&self.profile, *reached)?
            }
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Fisher and Yates' shuffle, from the seed.
fn shuffle(rates: &mut [f64], seed: u64) {
    let mut random = generator(seed, Stream::Steps, 0);
    for last in (1..rates.len()).rev() {
        let other = crate::random::below(&mut random, last as u64 + 1) as usize;
        rates.swap(last, other);
    }
}

#[cfg(test)]
mod tests;
