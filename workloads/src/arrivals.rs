//! Arrivals: the intended start of each operation of an open loop, computed before any response.
//!
//! Λ(t) is the number of operations that are due by time t, and operation x starts at Λ⁻¹(x): at x
//! = 0, 1, 2, … for even arrivals, at x = E₁, E₁+E₂, … with Eᵢ ~ Exp(1) for random ones. One
//! formula for each profile serves both, and rounding errors do not accumulate. Random arrivals are
//! a Poisson process: they see the time average of a server's states (PASTA), while an even rate
//! can lock onto a period of the server, such as etcd's batch commit every 100 ms.

use std::fmt;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::random::{Stream, generator, uniform};

mod inverse;

/// The rate of a load over time, in operations per second.
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
    /// A linear change from one rate to another, then a constant rate; at random times.
    Ramp {
        /// Rate at the start.
        from: f64,
        /// Rate at the end of the change and from then on.
        to: f64,
        /// Duration of the change.
        #[serde(with = "humantime_serde")]
        within: Duration,
    },
    /// A sequence of rates, the last of them until the load ends; at random times.
    Steps {
        /// The rates.
        rates: Vec<f64>,
        /// Duration of each rate.
        #[serde(with = "humantime_serde")]
        each: Duration,
        /// Whether the rates are shuffled by the seed: in ascending steps the effect of the rate
        /// cannot be told apart from other effects that grow with time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shuffled: bool,
    },
    /// Many operations at once, then none until the next burst.
    Burst {
        /// Operations per burst.
        size: u32,
        /// Time between the starts of bursts.
        #[serde(with = "humantime_serde")]
        every: Duration,
    },
    /// A sinusoidal rate; at random times.
    Sine {
        /// The mean rate, which is also the first.
        mean: f64,
        /// Largest difference from the mean; at most `mean`.
        amplitude: f64,
        /// Time between maxima.
        #[serde(with = "humantime_serde")]
        period: Duration,
    },
}

/// An invalid profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// A rate out of range.
    #[error("arrivals: {field} = {value} must be a number {bound}")]
    Rate {
        /// The field's name in the scenario file.
        field: &'static str,
        /// The value.
        value: f64,
        /// The allowed values.
        bound: &'static str,
    },
    /// A duration of zero.
    #[error("arrivals: {0} must be longer than 0s")]
    Time(&'static str),
    /// A profile without operations.
    #[error("arrivals: {0}, so nothing would ever be sent")]
    Nothing(&'static str),
}

impl Profile {
    /// Returns whether the rate is constant.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        matches!(self, Self::Poisson(_) | Self::Constant(_))
    }

    /// Checks that the profile is valid.
    ///
    /// # Errors
    /// [`ProfileError`] with the field and the value.
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

    /// Returns the mean number of operations due by `time`, Λ(time), with which the achieved number
    /// is compared. Shuffled steps count in the order in which they are written.
    #[must_use]
    pub fn due_by(&self, time: Duration) -> f64 {
        inverse::due_by(self, time.as_secs_f64())
    }

    /// Returns the mean rate over the first `time`, in operations per second.
    #[must_use]
    pub fn mean_rate(&self, time: Duration) -> f64 {
        self.due_by(time) / time.as_secs_f64()
    }

    /// Returns the profile with shuffled steps in the order that `seed` determines.
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

    /// Returns the profile with every rate multiplied by `factor`, which must be above 0. Bursts
    /// become more frequent instead of larger.
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

/// Writes the profile as part of a case's name, like `ramp-100-to-5000-in-1m`; rates are per
/// second.
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

/// The intended starts of one connection of a load, in order, relative to the start of the load.
///
/// The connections of one seed make up the profile together: random arrivals are independent, each
/// connection with its share of the rate; even arrivals alternate between the connections. Starts
/// are computed on demand, so the size does not depend on the duration.
#[derive(Debug, Clone)]
pub struct Arrivals {
    profile: Profile,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    /// The number of the next operation among all connections, and the number of connections.
    Even { next: u64, connections: u64 },
    /// The current value of Λ, in operations of all connections.
    Random {
        random: Xoshiro256PlusPlus,
        reached: f64,
        connections: f64,
    },
}

impl Arrivals {
    /// Returns the arrivals of connection `connection` of `connections`. `part` is the phase of the
    /// load: each phase has its own arrivals.
    #[must_use]
    pub fn new(profile: &Profile, seed: u64, part: u64, connection: u64, connections: u64) -> Self {
        let number = part.wrapping_mul(connections).wrapping_add(connection);
        let source = match profile.is_random() {
            true => Source::Random {
                random: generator(seed, Stream::Arrivals, number),
                reached: 0.0,
                connections: connections as f64,
            },
            false => Source::Even {
                next: connection,
                connections,
            },
        };
        let profile = profile.ordered(seed);
        Self { profile, source }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    /// Returns the next intended start; `None` if the rate is 0 from now on.
    fn next(&mut self) -> Option<Duration> {
        let seconds = match &mut self.source {
            Source::Even { next, connections } => {
                let number = *next;
                *next += *connections;
                return Some(inverse::even_start(&self.profile, number));
            }
            Source::Random {
                random,
                reached,
                connections,
            } => {
                // 53 random bits as a number in (0, 1], whose logarithm is finite. libm gives the
                // same result on every machine.
                *reached -= libm::log(uniform(random)) * *connections;
                inverse::start(&self.profile, *reached)?
            }
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Shuffles the rates (Fisher-Yates) by the seed.
fn shuffle(rates: &mut [f64], seed: u64) {
    let mut random = generator(seed, Stream::Steps, 0);
    for last in (1..rates.len()).rev() {
        let other = crate::random::below(&mut random, last as u64 + 1) as usize;
        rates.swap(last, other);
    }
}

#[cfg(test)]
mod tests;
