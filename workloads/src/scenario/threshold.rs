//! Thresholds: limits of figures, so that every run reports whether it keeps them.
//!
//! A limit may hold for one machine only. Reports show it with the same figure of every other
//! target; it does not change the exit code.

use serde::{Deserialize, Serialize};

use super::{CaseSpec, Scenario};
use crate::did_you_mean::did_you_mean;
use crate::strategy::Tier;

/// Prefix of figures that only cases with `yardstick` have.
const BASELINE_PREFIX: &str = "yardstick.";
/// Prefix of figures of unchecked lists, which only cases without a rate have.
const UNCHECKED_PREFIX: &str = "null_sink_ms.";

/// A figure of a case and its limit: a `[[bar]]` of a scenario file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdSpec {
    /// The promise in a few words.
    pub name: String,
    /// Data set; optional if the scenario has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_set: Option<String>,
    /// Case, as `etcd/stream` or `etcd/stream/5-clients`: tier and [`super::CaseSpec::name`].
    #[serde(alias = "row")]
    pub case: String,
    /// Path of the figure in a case of `report.json`, as `latency_ms.p50` or
    /// `server.peak_above_idle`; below `yardstick` for a case with a baseline.
    pub metric: String,
    /// Upper limit: in the figure's unit, or a factor with `of_case`, `of_data_set` or `of_target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Lower limit, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Where the limit was published, if it is a third party's figure instead of a promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The limit is a factor of the same figure of this case, in the same run.
    #[serde(default, alias = "of_row", skip_serializing_if = "Option::is_none")]
    pub of_case: Option<String>,
    /// The limit is a factor of the same figure on this data set, in the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_data_set: Option<String>,
    /// The limit is a factor of the same figure of the first target whose name has this prefix, as
    /// `etcd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_target: Option<String>,
}

impl ThresholdSpec {
    /// Returns the data set of a checked threshold.
    #[must_use]
    pub fn data_set<'a>(&'a self, scenario: &'a Scenario) -> &'a str {
        self.data_set
            .as_deref()
            .unwrap_or(&scenario.data_sets[0].name)
    }

    /// Returns whether the limit holds for any number of objects: only one relative to the same
    /// list from another target does. Ratios of two strategies, or of a list and its baseline,
    /// depend on the number.
    pub(super) fn is_of_any_size(&self) -> bool {
        self.of_target.is_some()
    }

    /// Returns whether the limit is a factor of another figure.
    #[must_use]
    pub fn has_basis(&self) -> bool {
        self.of_case.is_some() || self.of_data_set.is_some() || self.of_target.is_some()
    }

    /// Checks that the scenario has what it names. The crate that writes `report.json` checks the
    /// metric.
    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), String> {
        let refuse = |what: String| Err(format!("threshold `{}`: {what}", self.name));
        match (self.at_most, self.at_least) {
            (Some(limit), None) | (None, Some(limit)) if limit.is_finite() && limit >= 0.0 => {}
            _ => return refuse("needs one of `at_most` and `at_least`".to_owned()),
        }
        let bases = [&self.of_case, &self.of_data_set, &self.of_target];
        if bases.iter().filter(|base| base.is_some()).count() > 1 {
            return refuse("a limit is a factor of one thing only".to_owned());
        }
        let data_sets: Vec<&str> = scenario.data_sets.iter().map(|d| d.name.as_str()).collect();
        if self.data_set.is_none() && data_sets.len() > 1 {
            return refuse(format!(
                "needs `data_set`, one of: {}",
                data_sets.join(", ")
            ));
        }
        for name in [&self.data_set, &self.of_data_set].into_iter().flatten() {
            if !data_sets.contains(&name.as_str()) {
                return refuse(format!("there is no data set `{name}`"));
            }
        }
        let named = |(tier, case): (Tier, &CaseSpec)| format!("{tier}/{}", case.name());
        for name in [Some(&self.case), self.of_case.as_ref()]
            .into_iter()
            .flatten()
        {
            let Some((_, case)) = scenario.cases.all().find(|&case| named(case) == *name) else {
                let cases: Vec<String> = scenario.cases.all().map(named).collect();
                let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
                let hint = did_you_mean(name, &cases).unwrap_or_default();
                return refuse(format!("there is no case `{name}`, did you mean `{hint}`?"));
            };
            if let Some(lacks) = self.lacks(case) {
                return refuse(format!("case `{name}` {lacks}"));
            }
        }
        Ok(())
    }

    /// Returns why a case cannot have this figure; its threshold would never be decided.
    fn lacks(&self, case: &CaseSpec) -> Option<&'static str> {
        if self.metric.starts_with(BASELINE_PREFIX) && case.baseline.is_none() {
            return Some("has no `baseline`");
        }
        let is_paced = case.every.is_some() || case.read_per_s.is_some();
        (self.metric.starts_with(UNCHECKED_PREFIX) && is_paced)
            .then_some("has a pace, and so no `null_sink_ms`: take `latency_ms`")
    }
}
