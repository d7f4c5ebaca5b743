//! Bars: what a figure should come to, as data, so that every run prints how far it is from there.
//!
//! A bar is a statement about a machine. It is shown, with the same figure of every other target beside it; it never turns
//! an exit code.

use serde::{Deserialize, Serialize};

use super::{RowSpec, Scenario};
use crate::nearest::nearest;
use crate::strategy::Tier;

/// Figures that only rows with a yardstick have.
const YARDSTICK: &str = "yardstick.";
/// Figures of lists that nobody checks, which only rows without a pace have.
const NULL_SINK: &str = "null_sink_ms.";

/// A figure of a row and the limit that it is held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarSpec {
    /// What is promised, in a few words.
    pub name: String,
    /// Data set; may be left out where the scenario has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_set: Option<String>,
    /// Row, as `etcd/stream` or `etcd/stream/5-clients`: tier and [`super::RowSpec::name`].
    pub row: String,
    /// Path of the figure in a case of `report.json`, as `latency_ms.p50` or `server.peak_above_idle`; below `yardstick` where
    /// the row has one.
    pub metric: String,
    /// Upper limit: in the figure's own unit, or a factor where `of_row`, `of_data_set` or `of_target` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Lower limit, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Where the limit was published, when it is somebody else's figure rather than a promise of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The limit is a factor of the same figure of this row, in the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_row: Option<String>,
    /// The limit is a factor of the same figure on this data set, in the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_data_set: Option<String>,
    /// The limit is a factor of the same figure of the first target whose name begins so, as `etcd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_target: Option<String>,
}

impl BarSpec {
    /// The data set of a checked bar.
    #[must_use]
    pub fn data_set<'a>(&'a self, scenario: &'a Scenario) -> &'a str {
        self.data_set
            .as_deref()
            .unwrap_or(&scenario.data_sets[0].name)
    }

    /// True when the limit holds for any number of objects: of the same list from another server. What two ways to list are to
    /// each other, or a list to its bytes, depends on how much there is.
    pub(super) fn is_of_any_size(&self) -> bool {
        self.of_target.is_some()
    }

    /// True when the limit is a factor of another figure.
    #[must_use]
    pub fn has_basis(&self) -> bool {
        self.of_row.is_some() || self.of_data_set.is_some() || self.of_target.is_some()
    }

    /// Whether what it names is in the scenario. Whether the metric exists is for whoever writes `report.json` to say.
    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), String> {
        let refuse = |what: String| Err(format!("bar `{}`: {what}", self.name));
        match (self.at_most, self.at_least) {
            (Some(limit), None) | (None, Some(limit)) if limit.is_finite() && limit >= 0.0 => {}
            _ => return refuse("needs one of `at_most` and `at_least`".to_owned()),
        }
        let bases = [&self.of_row, &self.of_data_set, &self.of_target];
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
        let named = |(tier, row): (Tier, &RowSpec)| format!("{tier}/{}", row.name());
        for name in [Some(&self.row), self.of_row.as_ref()]
            .into_iter()
            .flatten()
        {
            let Some((_, row)) = scenario.rows.all().find(|&row| named(row) == *name) else {
                let rows: Vec<String> = scenario.rows.all().map(named).collect();
                let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
                let hint = nearest(name, &rows).unwrap_or_default();
                return refuse(format!("there is no row `{name}`, did you mean `{hint}`?"));
            };
            if let Some(lacks) = self.lacks(row) {
                return refuse(format!("row `{name}` {lacks}"));
            }
        }
        Ok(())
    }

    /// Why a row can have no figure of this name: a bar that asks for it would never be decided.
    fn lacks(&self, row: &RowSpec) -> Option<&'static str> {
        if self.metric.starts_with(YARDSTICK) && row.yardstick.is_none() {
            return Some("has no `yardstick`");
        }
        let is_paced = row.every.is_some() || row.read_per_s.is_some();
        (self.metric.starts_with(NULL_SINK) && is_paced)
            .then_some("has a pace, and so no `null_sink_ms`: take `latency_ms`")
    }
}
