//! Thresholds: limits of metrics. Every run reports whether it keeps them.
//!
//! A limit may be meant for one machine only, so a missed limit does not change the exit code.
//! Reports show the limit next to the same metric of every other target.

use serde::{Deserialize, Serialize};

use super::{CaseSpec, Scenario};
use crate::did_you_mean::did_you_mean;
use crate::strategy::Tier;

/// Prefix of metrics that only cases with a `baseline` have.
const BASELINE_PREFIX: &str = "yardstick.";
/// Prefix of metrics of unchecked lists, which only cases without `every` and `read_per_s` have.
const UNCHECKED_PREFIX: &str = "null_sink_ms.";

/// A metric of a case and its limit: a `[[threshold]]` of a scenario file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdSpec {
    /// A short description of the limit.
    pub name: String,
    /// Data set; optional if the scenario has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_set: Option<String>,
    /// Case, like `etcd/stream` or `etcd/stream/5-clients`: tier and [`super::CaseSpec::name`].
    #[serde(alias = "row")]
    pub case: String,
    /// Path of the metric in a case of `report.json`, like `latency_ms.p50` or
    /// `server.peak_above_idle`; metrics of a baseline are below `yardstick`.
    pub metric: String,
    /// Upper limit: in the metric's unit, or a factor with `of_case`, `of_data_set` or `of_target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Lower limit, in the metric's unit or as a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Where the limit was published, if it is a third party's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The case to whose value of the same metric, in the same run, the limit is relative.
    #[serde(default, alias = "of_row", skip_serializing_if = "Option::is_none")]
    pub of_case: Option<String>,
    /// The data set on which the value of the same metric, in the same run, is the one that the
    /// limit is relative to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_data_set: Option<String>,
    /// Prefix of a target's name, like `etcd`: the limit is relative to the same metric of the
    /// first target whose name begins with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_target: Option<String>,
}

impl ThresholdSpec {
    /// Returns the name of the data set of a checked threshold.
    #[must_use]
    pub fn data_set<'a>(&'a self, scenario: &'a Scenario) -> &'a str {
        self.data_set
            .as_deref()
            .unwrap_or(&scenario.data_sets[0].name)
    }

    /// Returns whether the limit holds for any number of objects. Only a limit relative to the same
    /// list from another target does: ratios of two strategies, or of a list and its baseline,
    /// depend on the number of objects.
    pub(super) fn is_of_any_size(&self) -> bool {
        self.of_target.is_some()
    }

    /// Returns whether the limit is relative to another value of the metric.
    #[must_use]
    pub fn has_basis(&self) -> bool {
        self.of_case.is_some() || self.of_data_set.is_some() || self.of_target.is_some()
    }

    /// Checks that the scenario has the cases and data sets that the threshold names. The crate
    /// that writes `report.json` checks the metric.
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
            let data_set = self.data_set(scenario);
            if !case.is_for(data_set) {
                return refuse(format!(
                    "case `{name}` does not run on data set `{data_set}`"
                ));
            }
            if let Some(lacks) = self.lacks(case) {
                return refuse(format!("case `{name}` {lacks}"));
            }
        }
        Ok(())
    }

    /// Returns the reason why a case cannot have this metric, if there is one. A threshold on such
    /// a case would never be decided.
    fn lacks(&self, case: &CaseSpec) -> Option<&'static str> {
        if self.metric.starts_with(BASELINE_PREFIX) && case.baseline.is_none() {
            return Some("has no `baseline`");
        }
        let is_paced = case.every.is_some() || case.read_per_s.is_some();
        (self.metric.starts_with(UNCHECKED_PREFIX) && is_paced)
            .then_some("has a pace, and so no `null_sink_ms`: take `latency_ms`")
    }
}
