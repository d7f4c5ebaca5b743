//! A comparison as JSON. Its published JSON Schema is `schema/compare.schema.json`.

use serde::Serialize;

use super::{Better, Comparison, End, Line, Method, Side, Unjudged, Verdict};

/// The version of the document. It increases by one when a field changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 1;

/// The root of the document: a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// The end of the comparison: `within`, `worse` or `cannot_tell`. The exit codes are 0, 1 and
    /// 3.
    pub end: &'static str,
    /// The smallest change for the worse that fails the comparison, as a part of the base. Null
    /// where none was given; each line's margin is the limit then.
    pub fail_above: Option<f64>,
    /// The base.
    pub base: Side,
    /// The new side.
    pub new: Side,
    /// Notes that a reader should see first.
    pub notes: Vec<String>,
    /// One entry per metric and case that both sides have.
    pub lines: Vec<LineDocument>,
    /// Cases without comparable numbers: those that both sides have but that must not be compared,
    /// and those that only the base has.
    pub not_comparable: Vec<Unjudged>,
    /// Cases that were measured in the base and that the new side does not support or failed.
    pub gone: Vec<Unjudged>,
    /// Requested metrics that no case of both sides has.
    pub absent: Vec<String>,
}

/// The comparison of one metric of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineDocument {
    /// The work of the case: data set, tier, strategy, clients, options.
    pub case: String,
    /// The target of the base.
    pub base_target: String,
    /// The target of the new side.
    pub new_target: String,
    /// The metric, by its name on the command line.
    pub metric: String,
    /// Unit of the values: `ms`, `bytes`, `per second` or `ratio`.
    pub unit: &'static str,
    /// Which values are better: `lower` or `higher`.
    pub better: &'static str,
    /// Values of the base.
    pub base: Sample,
    /// Values of the new side.
    pub new: Sample,
    /// Median ratio of new to base; null where a side has no value.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's confidence interval; null if there are too few starts.
    pub lower: Option<f64>,
    /// Upper end of the interval.
    pub upper: Option<f64>,
    /// The least probability that such an interval contains the true ratio.
    pub level: Option<f64>,
    /// The probability of such a difference by chance alone, by the rank test or, for pairs, the
    /// sign test.
    pub p_value: Option<f64>,
    /// How the interval was computed.
    pub method: Option<Method>,
    /// The largest change that counts as no difference, as a part of the base.
    pub margin: f64,
    /// `better`, `worse`, `no_difference` or `cannot_tell`.
    pub verdict: &'static str,
    /// Why the verdict is `cannot_tell`.
    pub reason: Option<String>,
    /// About how many more starts per side would yield a verdict.
    pub more_starts: Option<usize>,
    /// Whether the line counts for the end of the comparison.
    pub deciding: bool,
    /// Whether the change is within the limit; null where that cannot be decided.
    pub within: Option<bool>,
}

/// Values of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// The median of the starts; null without any.
    pub value: Option<f64>,
    /// The number of starts that have a value.
    pub n: usize,
    /// The value of each start, in order of time.
    pub starts: Vec<f64>,
}

impl From<&[f64]> for Sample {
    fn from(starts: &[f64]) -> Self {
        Self {
            value: Line::value(starts),
            n: starts.len(),
            starts: starts.to_vec(),
        }
    }
}

impl From<&Line> for LineDocument {
    fn from(line: &Line) -> Self {
        let estimate = line.estimate.as_ref();
        let interval = estimate.and_then(|estimate| estimate.interval);
        let reason = line.verdict.reason();
        Self {
            case: line.case.clone(),
            base_target: line.base_target.clone(),
            new_target: line.new_target.clone(),
            metric: line.metric.to_string(),
            unit: line.metric.unit(),
            better: match line.metric.better() {
                Better::Lower => "lower",
                Better::Higher => "higher",
            },
            base: Sample::from(line.base.as_slice()),
            new: Sample::from(line.new.as_slice()),
            ratio: estimate.map(|estimate| estimate.ratio),
            lower: interval.map(|interval| interval.lower),
            upper: interval.map(|interval| interval.upper),
            level: interval.map(|interval| interval.level),
            p_value: estimate.and_then(|estimate| estimate.p_value),
            method: estimate.map(|estimate| estimate.method),
            margin: line.margin,
            verdict: match line.verdict {
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                Verdict::NoDifference => "no_difference",
                Verdict::CannotTell(_) => "cannot_tell",
            },
            reason: reason.map(|reason| reason.to_string()),
            more_starts: reason.and_then(|reason| reason.more_starts()),
            deciding: line.is_deciding,
            within: line.is_within,
        }
    }
}

impl From<&Comparison> for Document {
    fn from(comparison: &Comparison) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            end: match comparison.end() {
                End::Within => "within",
                End::Worse => "worse",
                End::CannotTell => "cannot_tell",
            },
            fail_above: comparison.fail_above,
            base: comparison.base.clone(),
            new: comparison.new.clone(),
            notes: comparison.notes.clone(),
            lines: comparison.lines.iter().map(LineDocument::from).collect(),
            not_comparable: comparison.not_comparable.clone(),
            gone: comparison.gone.clone(),
            absent: comparison.absent.iter().map(ToString::to_string).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Document;
    use crate::published_schema;

    #[test]
    fn the_published_schema_is_that_of_the_structs() {
        published_schema::assert_current::<Document>("compare.schema.json");
    }
}
