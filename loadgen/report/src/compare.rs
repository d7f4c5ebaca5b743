//! Two sides compared, a verdict for each number of each case: better, worse, no
//! difference, or cannot tell and why. `docs/compare.md` says how a verdict is made.
//!
//! A side is the results of several runs, since what counts is starts of a server, not lists of
//! one start. Everything here works on results that were read before; nothing reads or writes.
//!
//! - `matching`: which cases did the same work; `comparability`: what must be equal besides
//! - `metric`: what is compared; `verdict`: the rule; `interval`: where a median ratio lies;
//!   `significance`: how likely chance does it; `judge`: all cases of two sides
//! - `warnings`: what a reader should know first; `side`: what is said of each side
//! - [`text`], [`markdown`], [`json`], [`junit`], [`annotations`], [`chart`]: the comparison for
//!   people and programs, with `wording` for what they say alike

pub mod annotations;
pub mod chart;
mod comparability;
mod interval;
pub mod json;
mod judge;
pub mod junit;
pub mod markdown;
mod matching;
mod metric;
mod side;
mod significance;
pub mod text;
mod verdict;
mod warnings;
mod wording;

use serde::Serialize;

use crate::result::{SavedResult, Spread};

pub(crate) use comparability::of_runs;
pub use comparability::{Condition, Difference};
pub use interval::{Drift, Interval};
pub use judge::compare;
pub use metric::{Better, Metric};
pub use verdict::{ALPHA, Estimate, Method, Reason, Verdict};

/// Why two sides cannot be compared at all.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A side has no result.
    #[error("no result to compare")]
    NoResult,
    /// The sides did not do the same, or not on the same machine.
    #[error("these results cannot be compared: {}{}", .0, allowed_by(.0))]
    Different(Difference),
    /// The results of one side did not do the same, or not on the same machine.
    #[error(
        "the results of one side do not belong together: {} is {} in one and {} in another{}",
        .0.what, .0.base, .0.new, allowed_by(.0)
    )]
    Mixed(Difference),
    /// One run is twice in a side.
    #[error("the run of {started} on {host} is there twice: its starts count once")]
    SameRun {
        /// When it began.
        started: String,
        /// Where it ran.
        host: String,
    },
    /// One run is on both sides.
    #[error("the run of {started} on {host} is on both sides: it would be compared with itself")]
    OnBothSides {
        /// When it began.
        started: String,
        /// Where it ran.
        host: String,
    },
    /// A target was named that is not there, or might be several.
    #[error("no single target `{name}`: there are {targets}")]
    NoTarget {
        /// The name.
        name: String,
        /// What there is.
        targets: String,
    },
    /// Both sides are the same target of the same results.
    #[error("base and new are both {0} of the same results")]
    SameTarget(String),
    /// The sides have several targets and no name in common.
    #[error(
        "no target is in both: {base} in the base, {new} in the new result; name one of each with --base and --new"
    )]
    NoTargetInCommon {
        /// Targets of the base.
        base: String,
        /// Targets of the new side.
        new: String,
    },
    /// No case is in both.
    #[error("no case is in both: none did the same work on the same objects")]
    NothingInCommon,
    /// Cases did the same work, but no two of them under the same conditions.
    #[error("no case can be compared: {0}")]
    NothingComparable(String),
}

/// Says how to compare all the same, where that can be.
fn allowed_by(difference: &Difference) -> String {
    use clap::ValueEnum as _;
    let value = difference.condition.and_then(|it| it.to_possible_value());
    value.map_or_else(String::new, |value| {
        format!(" (--allow {} compares all the same)", value.get_name())
    })
}

/// What is compared with what.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    /// Results of the base.
    base: &'a [SavedResult],
    /// Results of the new side.
    new: &'a [SavedResult],
    /// Names of one target of each; `None` for those of the same name.
    targets: Option<(&'a str, &'a str)>,
    /// Whether both sides are targets of the same runs, whose starts are pairs.
    is_paired: bool,
    /// Whether the verdict was computed after each pair to decide whether to go on.
    is_sequential: bool,
}

impl<'a> Sides<'a> {
    /// Returns the sides of different runs: starts that have nothing to do with each other.
    #[must_use]
    pub fn of_runs(
        base: &'a [SavedResult],
        new: &'a [SavedResult],
        targets: Option<(&'a str, &'a str)>,
    ) -> Self {
        Self {
            base,
            new,
            targets,
            is_paired: false,
            is_sequential: false,
        }
    }

    /// Returns two targets of the same runs as sides. A case runs on every target before the next
    /// case begins, so the starts of one run are a pair.
    #[must_use]
    pub fn of_targets(results: &'a [SavedResult], base: &'a str, new: &'a str) -> Self {
        Self {
            base: results,
            new: results,
            targets: Some((base, new)),
            is_paired: true,
            is_sequential: results.iter().any(|result| result.report.ab.is_some()),
        }
    }
}

/// What a comparison is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The metrics; all where there are none, of which [`Metric::DECIDING`] decide the end.
    pub metrics: Vec<Metric>,
    /// The change that counts as none, as a part of the base, instead of each metric's own.
    pub margin: Option<f64>,
    /// The change to the worse that is too much, as a part of the base.
    pub fail_above: Option<f64>,
    /// Conditions that need not hold.
    pub allow: Vec<Condition>,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The base.
    pub base: Side,
    /// The new side.
    pub new: Side,
    /// What counted as too much; as in [`Options`].
    pub fail_above: Option<f64>,
    /// A line for each metric of each case that both sides have.
    pub lines: Vec<Line>,
    /// What a reader should know first.
    pub notes: Vec<String>,
    /// Cases that both sides have and that must not be compared, or that only the base has.
    pub not_comparable: Vec<Unjudged>,
    /// Cases that the base has measured and that the new side cannot do, or failed at.
    pub gone: Vec<Unjudged>,
    /// Metrics that were asked for and that no case of both sides has.
    pub absent: Vec<Metric>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Side {
    /// Its targets, in the order of their partners on the other side.
    pub targets: Vec<String>,
    /// The programs behind them.
    pub programs: Vec<String>,
    /// Number of runs.
    pub runs: usize,
    /// When the first of them began: RFC 3339, UTC.
    pub first: String,
    /// When the last of them began.
    pub last: String,
    /// Commits that the generator was built from.
    pub commits: Vec<String>,
    /// Where they ran: host, cores, CPU, memory.
    pub machines: Vec<String>,
}

/// A case without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unjudged {
    /// The case.
    pub case: String,
    /// Why.
    pub reason: String,
}

/// One metric of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What was done: data set, tier, strategy, clients, options.
    pub case: String,
    /// The target of the base.
    pub base_target: String,
    /// The target of the new side.
    pub new_target: String,
    /// What is compared.
    pub metric: Metric,
    /// Each start's value in the base, in order of time.
    pub base: Vec<f64>,
    /// Each start's value on the new side.
    pub new: Vec<f64>,
    /// What they say about the ratio; `None` where a side has no value.
    pub estimate: Option<Estimate>,
    /// The change that counts as none.
    pub margin: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the line decides how the comparison ends.
    pub is_deciding: bool,
    /// Whether it is within what is allowed: `None` where that cannot be told.
    pub is_within: Option<bool>,
}

/// How a comparison ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every deciding line is within what is allowed.
    Within,
    /// A deciding line is worse than what is allowed, or a case is gone.
    Worse,
    /// Neither can be said.
    CannotTell,
}

impl Line {
    /// Returns a side's value: the median of its starts.
    #[must_use]
    pub fn value(starts: &[f64]) -> Option<f64> {
        Spread::of(starts.iter().copied()).map(|spread| spread.p50)
    }
}

impl Comparison {
    /// Returns the lines that decide how it ends.
    pub fn deciding(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.is_deciding)
    }

    /// Returns the deciding lines that are surely worse than what is allowed.
    pub fn worse(&self) -> impl Iterator<Item = &Line> {
        self.deciding().filter(|line| line.is_within == Some(false))
    }

    /// Returns how it ends. A comparison that could not have failed has not passed.
    #[must_use]
    pub fn end(&self) -> End {
        if !self.gone.is_empty() || self.worse().next().is_some() {
            return End::Worse;
        }
        let is_open = |line: &Line| line.is_within.is_none();
        let is_decided = self.deciding().next().is_some()
            && !self.deciding().any(is_open)
            && self.not_comparable.is_empty()
            && self.absent.is_empty();
        match is_decided {
            true => End::Within,
            false => End::CannotTell,
        }
    }

    /// Returns whether several pairs of targets are compared, which lines then have to name.
    #[must_use]
    pub fn has_several_targets(&self) -> bool {
        self.base.targets.len() > 1
    }
}
