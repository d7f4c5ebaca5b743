//! The verdict on one number: better, worse, no difference, or cannot tell and why.

use std::fmt;

use super::interval::{Drift, Interval, all_ratios, least_any_time, least_starts, median};
use super::metric::Better;
use super::significance::{mann_whitney, sign_test};

/// Probability that a verdict `better` or `worse` is wrong where nothing differs, at most.
pub const ALPHA: f64 = 0.05;
/// Above this many starts a side, the number that would be needed is not given.
const MOST_STARTS: f64 = 200.0;

/// What two sets of starts say about the ratio of new to base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median ratio.
    pub ratio: f64,
    /// Where the true one lies; `None` of too few starts.
    pub interval: Option<Interval>,
    /// How likely chance alone does this, by the test that goes with the method; `None` of exact
    /// values.
    pub p_value: Option<f64>,
    /// How the interval was made.
    pub method: Method,
    /// Starts of the base; of pairs, the pairs.
    pub base_starts: usize,
    /// Starts of the new side; of pairs, the pairs.
    pub new_starts: usize,
}

/// How an interval was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Order statistics of the ratios of pairs.
    Paired,
    /// The same, looked at after every pair, with a level that allows for it.
    Sequential,
    /// Looks after fewer and after more pairs that have no value in common.
    Drifting,
    /// Order statistics of all ratios of a new value to a base value.
    Unpaired,
    /// The range of all ratios of values that every start has alike.
    Exact,
}

/// What a comparison says about one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It moved to the better, surely, and by the margin at least.
    Better,
    /// It moved to the worse, surely, and by the margin at least.
    Worse,
    /// It surely moved by less than the margin.
    NoDifference,
    /// None of these can be said.
    CannotTell(Reason),
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// The base has no such number.
    MissingInBase,
    /// The new result has no such number.
    MissingInNew,
    /// Both have it, but not of two starts of one pair.
    NoPair,
    /// Fewer starts than any interval needs.
    TooFewStarts {
        /// Starts of the base, or pairs.
        base: usize,
        /// Starts of the new side, or pairs.
        new: usize,
        /// How many a side are the least.
        least: usize,
        /// Whether they are pairs.
        is_paired: bool,
    },
    /// The interval reaches from no change, or beyond, to more than the margin.
    Wide {
        /// The interval.
        interval: Interval,
        /// How many more starts a side would do; `None` of more than 200.
        more: Option<usize>,
    },
    /// It moved for sure, but whether by the margin is open.
    NearMargin {
        /// Whether to the worse.
        is_worse: bool,
        /// The margin, as a part of the base.
        margin: f64,
        /// How many more starts a side would do; `None` of more than 200.
        more: Option<usize>,
    },
    /// Values that should be the same in every start are not.
    Inexact,
    /// What fewer pairs said and what more say has nothing in common.
    Drift,
    /// Both targets were offered more than they can do: times are of queues that grow.
    Saturated,
    /// A target was there and not started for the runs: all of them saw one start of it.
    OneStart,
}

impl Estimate {
    /// Returns what pairs of starts say, side by side in time. Values are positive.
    #[must_use]
    pub fn paired(pairs: &[(f64, f64)]) -> Option<Self> {
        let ratios: Vec<f64> = pairs.iter().map(|(base, new)| new / base).collect();
        Some(Self {
            ratio: median(&ratios)?,
            interval: Interval::paired(&ratios, ALPHA),
            p_value: sign_test(&ratios),
            method: Method::Paired,
            base_starts: pairs.len(),
            new_starts: pairs.len(),
        })
    }

    /// Returns what pairs of starts say that were looked at after each of them, to know whether to
    /// go on: the interval holds whenever one stops. Pairs are in the order of time.
    #[must_use]
    pub fn paired_any_time(pairs: &[(f64, f64)]) -> Option<Self> {
        let ratios: Vec<f64> = pairs.iter().map(|(base, new)| new / base).collect();
        let (interval, drifts) = match Interval::paired_any_time(&ratios, ALPHA) {
            Ok(interval) => (interval, false),
            Err(Drift) => (None, true),
        };
        Some(Self {
            interval,
            // A p-value of a number of pairs that was not fixed before means nothing.
            p_value: None,
            method: match drifts {
                true => Method::Drifting,
                false => Method::Sequential,
            },
            ..Self::paired(pairs)?
        })
    }

    /// Returns what starts say that have nothing to do with each other. Values are positive.
    #[must_use]
    pub fn unpaired(base: &[f64], new: &[f64]) -> Option<Self> {
        Some(Self {
            ratio: median(&all_ratios(base, new))?,
            interval: Interval::unpaired(base, new, ALPHA),
            p_value: mann_whitney(base, new),
            method: Method::Unpaired,
            base_starts: base.len(),
            new_starts: new.len(),
        })
    }

    /// Returns what exact values say: one on each side is enough. Values are positive.
    #[must_use]
    pub fn exact(base: &[f64], new: &[f64]) -> Option<Self> {
        let ratios = all_ratios(base, new);
        Some(Self {
            ratio: median(&ratios)?,
            interval: Some(Interval {
                lower: *ratios.first()?,
                upper: *ratios.last()?,
                level: 1.0,
            }),
            p_value: None,
            method: Method::Exact,
            base_starts: base.len(),
            new_starts: new.len(),
        })
    }

    /// Returns the estimate and its interval as a ratio of costs: above 1 is worse.
    fn as_cost(&self, better: Better) -> (f64, Option<Interval>) {
        match better {
            Better::Lower => (self.ratio, self.interval),
            Better::Higher => (1.0 / self.ratio, self.interval.map(Interval::reciprocal)),
        }
    }

    /// Returns the verdict: with θ = 1 + `margin`, L and U the ends of the interval of the cost's
    /// ratio and ρ its estimate,
    ///
    /// 1. no difference where 1 / θ < L and U < θ: the two one-sided tests of Schuirmann (1987),
    /// 2. worse where L > 1 and ρ ≥ θ, 3. better where U < 1 and ρ ≤ 1 / θ,
    /// 4. else it cannot tell.
    ///
    /// Of two sides that are equal it says better or worse with probability [`ALPHA`] at most, of
    /// two that differ by the margin no difference with half of it, whatever the distribution.
    #[must_use]
    pub fn verdict(&self, margin: f64, better: Better) -> Verdict {
        let (ratio, interval) = self.as_cost(better);
        let Some(interval) = interval else {
            return Verdict::CannotTell(match self.method {
                Method::Drifting => Reason::Drift,
                _ => self.too_few(),
            });
        };
        let Interval { lower, upper, .. } = interval;
        let most = 1.0 + margin;
        let is_same = lower == 1.0 && upper == 1.0;
        if is_same || (1.0 / most < lower && upper < most) {
            Verdict::NoDifference
        } else if lower > 1.0 && ratio >= most {
            Verdict::Worse
        } else if upper < 1.0 && ratio <= 1.0 / most {
            Verdict::Better
        } else if self.method == Method::Exact {
            Verdict::CannotTell(Reason::Inexact)
        } else if lower > 1.0 || upper < 1.0 {
            Verdict::CannotTell(Reason::NearMargin {
                is_worse: lower > 1.0,
                margin,
                more: self.more(ratio, interval, margin),
            })
        } else {
            Verdict::CannotTell(Reason::Wide {
                // As it is shown: new over base.
                interval: self.interval.unwrap_or(interval),
                more: self.more(ratio, interval, margin),
            })
        }
    }

    /// Returns whether the cost grew by less than `limit`: `Some(false)` where it surely grew, and
    /// by the limit at least, `None` where neither is sure. The question of a gate: that it grew
    /// at all need not be excluded.
    #[must_use]
    pub fn is_within(&self, limit: f64, better: Better) -> Option<bool> {
        let (ratio, interval) = self.as_cost(better);
        let Interval { lower, upper, .. } = interval?;
        if upper < 1.0 + limit || upper <= 1.0 {
            Some(true)
        } else if lower > 1.0 && ratio >= 1.0 + limit {
            Some(false)
        } else {
            None
        }
    }

    fn too_few(&self) -> Reason {
        let is_paired = self.method != Method::Unpaired;
        Reason::TooFewStarts {
            base: self.base_starts,
            new: self.new_starts,
            least: match self.method {
                Method::Sequential => least_any_time(ALPHA),
                _ => least_starts(is_paired, ALPHA),
            },
            is_paired,
        }
    }

    /// Returns how many more starts a side would do. The interval's half width on logarithms
    /// shrinks with the root of their number; it must become the distance to what is in its way.
    fn more(&self, ratio: f64, interval: Interval, margin: f64) -> Option<usize> {
        let half = (interval.upper / interval.lower).ln() / 2.0;
        let (moved, margin) = (ratio.ln().abs(), (1.0 + margin).ln());
        let distance = match moved >= margin {
            true => moved,
            false => margin - moved,
        };
        let (base, new) = (self.base_starts as f64, self.new_starts as f64);
        let starts = 2.0 * base * new / (base + new);
        let needed = (starts * (half / distance).powi(2)).ceil();
        // Also false where the distance is nothing.
        (needed <= MOST_STARTS).then(|| (needed - starts.floor()).max(1.0) as usize)
    }
}

impl Verdict {
    /// Returns the verdict in two words at most.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::NoDifference => "no difference",
            Self::CannotTell(_) => "cannot tell",
        }
    }

    /// Returns a sign for it, which is shown next to its colour.
    #[must_use]
    pub fn sign(self) -> char {
        match self {
            Self::Better => '▼',
            Self::Worse => '▲',
            Self::NoDifference => '=',
            Self::CannotTell(_) => '?',
        }
    }

    /// Returns why there is none.
    #[must_use]
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::CannotTell(reason) => Some(reason),
            _ => None,
        }
    }
}

impl Reason {
    /// Returns how many more starts a side would do, as far as that is known: at least so many
    /// where there are too few for an interval, about so many else.
    #[must_use]
    pub fn more_starts(self) -> Option<usize> {
        match self {
            Self::TooFewStarts {
                base, new, least, ..
            } => Some(least.saturating_sub(base.min(new)).max(1)),
            Self::Wide { more, .. } | Self::NearMargin { more, .. } => more,
            Self::MissingInBase
            | Self::MissingInNew
            | Self::NoPair
            | Self::Inexact
            | Self::Drift
            | Self::Saturated
            | Self::OneStart => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = |more: Option<usize>| match more {
            Some(more) => format!("about {more} more starts a side would tell"),
            None => format!("at the margin: more than {MOST_STARTS} starts a side to tell"),
        };
        match *self {
            Self::MissingInBase => f.write_str("no such value in the base"),
            Self::MissingInNew => f.write_str("no such value in the new result"),
            Self::NoPair => f.write_str("no two such values of one pair of starts"),
            Self::TooFewStarts {
                base,
                new,
                least,
                is_paired,
            } => {
                let more = self.more_starts().unwrap_or_default();
                match (is_paired, base, new) {
                    (true, 1, _) => f.write_str("one pair of starts")?,
                    (true, ..) => write!(f, "{base} pairs of starts")?,
                    (false, 1, 1) => f.write_str("one start a side")?,
                    (false, ..) if base == new => write!(f, "{base} starts a side")?,
                    (false, ..) => write!(f, "{base} and {new} starts")?,
                }
                write!(f, ", {least} are the least: {more} more would do at best")
            }
            Self::Wide { interval, more } => {
                let Interval { lower, upper, .. } = interval;
                write!(f, "from {lower:.2} to {upper:.2}: {}", about(more))
            }
            Self::NearMargin {
                is_worse,
                margin,
                more,
            } => {
                let how = if is_worse { "worse" } else { "better" };
                let percent = (margin * 1e5).round() / 1e3;
                let about = about(more);
                write!(f, "{how} for sure, maybe by less than {percent} %: {about}")
            }
            Self::Drift => f.write_str(
                "the machine or a server changed meanwhile: early and late pairs exclude each other",
            ),
            Self::Inexact => f.write_str("values that should be equal in every start are not"),
            Self::OneStart => f.write_str(
                "the servers were there already: however many runs, they are of one start",
            ),
            Self::Saturated => {
                f.write_str("both were offered more than they can do: times are of growing queues")
            }
        }
    }
}

#[cfg(test)]
mod tests;
