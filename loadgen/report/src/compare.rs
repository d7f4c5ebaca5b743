//! The comparison of two sides. Each metric of each case gets a verdict: better, worse, no
//! difference, or cannot tell with the reason. `docs/compare.md` describes how a verdict is
//! reached.
//!
//! A side consists of the results of several runs, because the unit of comparison is one start of a
//! server, not one list. This module works on results in memory and reads or writes no file.
//!
//! - `matching`: finds the cases that did the same work; `comparability`: the other conditions that
//!   must be equal
//! - `metric`: the metrics that are compared; `verdict`: the rule for a verdict; `interval`: the
//!   confidence interval of a median ratio; `significance`: p-values; `judge`: compares all cases
//!   of two sides
//! - `warnings`: the notes that a reader should see first; `side`: the description of a side
//! - [`text`], [`markdown`], [`json`], [`junit`], [`annotations`], [`chart`]: the comparison in
//!   formats for people and programs; `wording`: the wording that they share

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
    /// The sides did different work, or ran on different machines.
    #[error("these results cannot be compared: {}{}", .0, allowed_by(.0))]
    Different(Difference),
    /// The results of one side did different work, or ran on different machines.
    #[error(
        "the results of one side do not belong together: {} is {} in one and {} in another{}",
        .0.what, .0.base, .0.new, allowed_by(.0)
    )]
    Mixed(Difference),
    /// One side contains the same run twice.
    #[error("the run of {started} on {host} is given twice: its starts count once")]
    SameRun {
        /// When the run began.
        started: String,
        /// The host that it ran on.
        host: String,
    },
    /// One run is on both sides.
    #[error("the run of {started} on {host} is on both sides: it would be compared with itself")]
    OnBothSides {
        /// When the run began.
        started: String,
        /// The host that it ran on.
        host: String,
    },
    /// The named target does not exist, or several targets match the name.
    #[error("no single target `{name}`: there are {targets}")]
    NoTarget {
        /// The name.
        name: String,
        /// The existing targets.
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
    /// Some cases did the same work, but none under the same conditions.
    #[error("no case can be compared: {0}")]
    NothingComparable(String),
}

/// Returns a hint on how to compare in spite of the difference, where `--allow` permits that.
fn allowed_by(difference: &Difference) -> String {
    use clap::ValueEnum as _;
    let value = difference.condition.and_then(|it| it.to_possible_value());
    value.map_or_else(String::new, |value| {
        format!(" (--allow {} compares all the same)", value.get_name())
    })
}

/// The two sides of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    /// Results of the base.
    base: &'a [SavedResult],
    /// Results of the new side.
    new: &'a [SavedResult],
    /// The name of one target of each side; `None` to compare targets of the same name.
    targets: Option<(&'a str, &'a str)>,
    /// Whether both sides are targets of the same runs, so that their starts form pairs.
    is_paired: bool,
    /// Whether a verdict was computed after each pair to decide whether to measure another.
    is_sequential: bool,
}

impl<'a> Sides<'a> {
    /// Returns the sides of different runs, whose starts are independent.
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

/// The options of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The metrics to compare. If empty, all are compared and [`Metric::DECIDING`] decide the
    /// result.
    pub metrics: Vec<Metric>,
    /// The largest change that counts as no difference, as a part of the base; replaces each
    /// metric's own margin.
    pub margin: Option<f64>,
    /// The smallest change for the worse that fails the comparison, as a part of the base.
    pub fail_above: Option<f64>,
    /// Conditions that may differ.
    pub allow: Vec<Condition>,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The base.
    pub base: Side,
    /// The new side.
    pub new: Side,
    /// The smallest change for the worse that fails the comparison, as in [`Options`].
    pub fail_above: Option<f64>,
    /// A line for each metric of each case that both sides have.
    pub lines: Vec<Line>,
    /// Notes that a reader should see first.
    pub notes: Vec<String>,
    /// Cases without comparable numbers: those that both sides have but that must not be compared,
    /// and those that only the base has.
    pub not_comparable: Vec<Unjudged>,
    /// Cases that were measured in the base and that the new side does not support or failed.
    pub gone: Vec<Unjudged>,
    /// Requested metrics that no case of both sides has.
    pub absent: Vec<Metric>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Side {
    /// The side's targets, in the order of their counterparts on the other side.
    pub targets: Vec<String>,
    /// The programs that these targets run.
    pub programs: Vec<String>,
    /// Number of runs.
    pub runs: usize,
    /// When the first run began: RFC 3339, UTC.
    pub first: String,
    /// When the last run began.
    pub last: String,
    /// Commits that the generator was built from.
    pub commits: Vec<String>,
    /// The machines of the runs: host, cores, CPU, memory.
    pub machines: Vec<String>,
}

/// A case without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unjudged {
    /// The case.
    pub case: String,
    /// Why it has no verdict.
    pub reason: String,
}

/// The comparison of one metric of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The work of the case: data set, tier, strategy, clients, options.
    pub case: String,
    /// The target of the base.
    pub base_target: String,
    /// The target of the new side.
    pub new_target: String,
    /// The metric.
    pub metric: Metric,
    /// The value of each start in the base, in order of time.
    pub base: Vec<f64>,
    /// The value of each start on the new side, in order of time.
    pub new: Vec<f64>,
    /// The estimated ratio of new to base; `None` where a side has no value.
    pub estimate: Option<Estimate>,
    /// The largest change that counts as no difference.
    pub margin: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the line counts for the end of the comparison.
    pub is_deciding: bool,
    /// Whether the change is within the limit; `None` where that cannot be decided.
    pub is_within: Option<bool>,
}

/// How a comparison ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every deciding line is within its limit.
    Within,
    /// A deciding line is beyond its limit, or a case is gone.
    Worse,
    /// Neither can be concluded.
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
    /// Returns the lines that decide the end.
    pub fn deciding(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.is_deciding)
    }

    /// Returns the deciding lines that are certainly beyond their limit.
    pub fn worse(&self) -> impl Iterator<Item = &Line> {
        self.deciding().filter(|line| line.is_within == Some(false))
    }

    /// Returns the end. A comparison that could not have failed does not count as passed.
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

    /// Returns whether several pairs of targets are compared, so that lines must name their
    /// targets.
    #[must_use]
    pub fn has_several_targets(&self) -> bool {
        self.base.targets.len() > 1
    }
}
