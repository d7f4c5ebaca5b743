//! The verdict on one metric: better, worse, no difference, or cannot tell with the reason.

use std::fmt;

use super::interval::{Drift, Interval, all_ratios, least_any_time, least_starts, median};
use super::metric::Better;
use super::significance::{mann_whitney, sign_test};

/// The largest probability of a verdict `better` or `worse` where nothing differs.
pub const ALPHA: f64 = 0.05;
/// The number of starts per side above which the required number is not shown.
const MAX_STARTS: f64 = 200.0;

/// The estimated ratio of new to base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median ratio.
    pub ratio: f64,
    /// The confidence interval of the ratio; `None` if there are too few starts.
    pub interval: Option<Interval>,
    /// The probability of such a difference by chance alone, by the test that belongs to the
    /// method; `None` for exact values.
    pub p_value: Option<f64>,
    /// How the interval was computed.
    pub method: Method,
    /// The number of starts in the base; for pairs, the number of pairs.
    pub base_starts: usize,
    /// The number of starts on the new side; for pairs, the number of pairs.
    pub new_starts: usize,
}

/// How an interval was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Order statistics of the ratios of pairs.
    Paired,
    /// Order statistics of the ratios of pairs, inspected after every pair, at a level that allows
    /// for that.
    Sequential,
    /// Intervals after different numbers of pairs that have no value in common.
    Drifting,
    /// Order statistics of all ratios of a new value to a base value.
    Unpaired,
    /// The range of all ratios of a new value to a base value, for a metric with the same value in
    /// every start.
    Exact,
}

/// The verdict on one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It certainly improved, by an estimate of at least the margin.
    Better,
    /// It certainly got worse, by an estimate of at least the margin.
    Worse,
    /// It certainly changed by less than the margin.
    NoDifference,
    /// None of these can be concluded.
    CannotTell(Reason),
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// The base has no value of the metric.
    MissingInBase,
    /// The new result has no value of the metric.
    MissingInNew,
    /// Both sides have values, but no pair has both.
    NoPair,
    /// There are fewer starts than any interval needs.
    TooFewStarts {
        /// The number of starts of the base, or of pairs.
        base: usize,
        /// The number of starts of the new side, or of pairs.
        new: usize,
        /// The least number of starts per side, or of pairs.
        least: usize,
        /// Whether starts are pairs.
        is_paired: bool,
    },
    /// The interval contains both 1 (no change) and changes larger than the margin.
    Wide {
        /// The interval.
        interval: Interval,
        /// About how many more starts per side would suffice; `None` if more than 200.
        more: Option<usize>,
    },
    /// The value certainly changed, but not certainly by the margin.
    NearMargin {
        /// Whether it got worse.
        is_worse: bool,
        /// The margin, as a part of the base.
        margin: f64,
        /// About how many more starts per side would suffice; `None` if more than 200.
        more: Option<usize>,
    },
    /// Values that should be equal in every start differ.
    Inexact,
    /// The intervals after fewer and after more pairs have no value in common.
    Drift,
    /// Both targets were offered more than they can handle, so times are those of growing queues.
    Saturated,
    /// A target was not started for the runs, so all of them measured one start of it.
    OneStart,
}

impl Estimate {
    /// Returns the estimate from pairs of starts that were measured next to each other. Values are
    /// positive.
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

    /// Returns the estimate from pairs that were inspected one after the other to decide whether to
    /// continue. The interval is valid whenever the measurement stops. Pairs are in the order of
    /// time.
    #[must_use]
    pub fn paired_any_time(pairs: &[(f64, f64)]) -> Option<Self> {
        let ratios: Vec<f64> = pairs.iter().map(|(base, new)| new / base).collect();
        let (interval, drifts) = match Interval::paired_any_time(&ratios, ALPHA) {
            Ok(interval) => (interval, false),
            Err(Drift) => (None, true),
        };
        Some(Self {
            interval,
            // A p-value is meaningless if the number of pairs was not fixed in advance.
            p_value: None,
            method: match drifts {
                true => Method::Drifting,
                false => Method::Sequential,
            },
            ..Self::paired(pairs)?
        })
    }

    /// Returns the estimate from independent starts. Values are positive.
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

    /// Returns the estimate from exact values, of which one per side is enough. Values are
    /// positive.
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

    /// Returns the estimate and its interval as a ratio of costs, so that above 1 is worse.
    fn as_cost(&self, better: Better) -> (f64, Option<Interval>) {
        match better {
            Better::Lower => (self.ratio, self.interval),
            Better::Higher => (1.0 / self.ratio, self.interval.map(Interval::reciprocal)),
        }
    }

    /// Returns the verdict. With θ = 1 + `margin`, L and U the ends of the interval of the cost's
    /// ratio and ρ its estimate, it is
    ///
    /// 1. no difference where 1 / θ < L and U < θ: the two one-sided tests of Schuirmann (1987),
    /// 2. worse where L > 1 and ρ ≥ θ, 3. better where U < 1 and ρ ≤ 1 / θ,
    /// 4. cannot tell otherwise.
    ///
    /// If both sides are equal, the verdict is better or worse with probability [`ALPHA`] at most.
    /// If they differ by the margin, it is no difference with at most half of that probability.
    /// Both hold for any distribution.
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
                // The interval as it is shown: new over base.
                interval: self.interval.unwrap_or(interval),
                more: self.more(ratio, interval, margin),
            })
        }
    }

    /// Returns whether the cost grew by less than `limit`: `Some(false)` where it certainly grew
    /// and the estimate is at least the limit, `None` where neither is certain. This is the
    /// question of a CI gate: growth as such need not be excluded.
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

    /// Returns about how many more starts per side would suffice. The interval's half width on
    /// logarithms shrinks with the square root of the number of starts. It must shrink to the
    /// distance from the ratio to 1 where the change reaches the margin, else to the distance to
    /// the margin.
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
        // The comparison is also false where the distance is 0.
        (needed <= MAX_STARTS).then(|| (needed - starts.floor()).max(1.0) as usize)
    }
}

impl Verdict {
    /// Returns the verdict's name, of at most two words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::NoDifference => "no difference",
            Self::CannotTell(_) => "cannot tell",
        }
    }

    /// Returns a sign for the verdict, which is shown next to its colour.
    #[must_use]
    pub fn sign(self) -> char {
        match self {
            Self::Better => '▼',
            Self::Worse => '▲',
            Self::NoDifference => '=',
            Self::CannotTell(_) => '?',
        }
    }

    /// Returns why there is no verdict.
    #[must_use]
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::CannotTell(reason) => Some(reason),
            _ => None,
        }
    }
}

impl Reason {
    /// Returns how many more starts per side would suffice, as far as that is known: at least so
    /// many where there are too few for an interval, otherwise about so many.
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
            Some(more) => format!("about {more} more starts per side would decide"),
            None => format!("at the margin: more than {MAX_STARTS} starts per side are needed"),
        };
        match *self {
            Self::MissingInBase => f.write_str("no such value in the base"),
            Self::MissingInNew => f.write_str("no such value in the new result"),
            Self::NoPair => f.write_str("no pair of starts has this value on both sides"),
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
                    (false, 1, 1) => f.write_str("one start per side")?,
                    (false, ..) if base == new => write!(f, "{base} starts per side")?,
                    (false, ..) => write!(f, "{base} and {new} starts")?,
                }
                write!(f, ", at least {least} are needed ({more} more)")
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
            Self::OneStart => {
                f.write_str("the server was not restarted, so all runs count as one start")
            }
            Self::Saturated => f.write_str(
                "both targets were saturated, so latencies depend on the length of the run",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
