//! The verdict of a suite: the thresholds of several runs in one table.
//!
//! [`SuiteResult`] is `suite.json`, which is in a folder of its own next to those of the runs. Its
//! lines are computed from the runs' `report.json`, so a saved suite can be evaluated again.

mod folder;
mod table;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::result::{Report, Threshold};

pub use crate::history::Held;
pub use folder::{SUITE_FILE, SuiteError, draw_again, is_suite, save};
pub use table::{markdown, text};

/// The version of `suite.json`. It increases by one when a field changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 1;

/// The root of `suite.json`: the runs and the verdict of every threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteResult {
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// Name of the suite.
    pub suite: String,
    /// When the suite began: RFC 3339, UTC.
    pub started: String,
    /// Wall-clock length of the whole suite.
    pub elapsed_s: f64,
    /// The command line.
    pub command: Vec<String>,
    /// True if the suite ran with few objects and repeats, so that most limits are not evaluated.
    pub small: bool,
    /// True when the suite was stopped before its last run ended.
    pub interrupted: bool,
    /// The runs, in order.
    pub runs: Vec<SuiteRun>,
    /// Notes that a reader needs besides the metrics, such as which run failed and why.
    pub notes: Vec<String>,
    /// The thresholds, each once.
    pub thresholds: Vec<SuiteLine>,
}

/// One run of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteRun {
    /// The scenario.
    pub scenario: String,
    /// Name of the run's result folder; null where it left none.
    pub folder: Option<String>,
    /// The exit code that the run would have had by itself; null where that is not known.
    pub exit: Option<u8>,
}

/// One threshold of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteLine {
    /// The scenario that contains the threshold.
    pub scenario: String,
    /// Name of the result folder whose verdict this is.
    pub folder: String,
    /// The threshold, as in `report.json`.
    #[serde(flatten)]
    #[serde(rename = "bar")]
    pub threshold: Threshold,
    /// In how many of the last saved runs the threshold was met; null where there are none.
    pub held: Option<Held>,
}

/// The number of thresholds with each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The limit is kept.
    pub met: usize,
    /// The limit is not kept.
    pub missed: usize,
    /// The limit lies within the uncertainty of the value.
    pub undecided: usize,
    /// There is no value.
    pub unmeasured: usize,
}

impl SuiteResult {
    /// Evaluates the thresholds of all runs. Each threshold appears once, with the worst of the
    /// values from runs of its scenario.
    pub fn judge<'a>(&mut self, reports: impl IntoIterator<Item = (&'a Path, &'a Report)>) {
        self.thresholds.clear();
        for (folder, report) in reports {
            // An unreadable history must not prevent the evaluation.
            let history = History::beside(folder).unwrap_or_default();
            let name = folder.file_name().unwrap_or_default();
            for threshold in &report.thresholds {
                let line = SuiteLine {
                    scenario: report.scenario.clone(),
                    folder: name.to_string_lossy().into_owned(),
                    held: history.held(threshold, report),
                    threshold: threshold.clone(),
                };
                let mut known = self.thresholds.iter_mut();
                match known.find(|known| known.is_same(&line)) {
                    None => self.thresholds.push(line),
                    Some(known) if line.is_worse_than(known) => *known = line,
                    Some(_) => {}
                }
            }
        }
    }

    /// Counts the thresholds by verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for line in &self.thresholds {
            *match line.judged() {
                Judged::Met => &mut verdict.met,
                Judged::Missed => &mut verdict.missed,
                Judged::Undecided => &mut verdict.undecided,
                Judged::Unmeasured => &mut verdict.unmeasured,
            } += 1;
        }
        verdict
    }
}

/// The verdict of a threshold in one run. The worst is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Judged {
    Unmeasured,
    Met,
    Undecided,
    Missed,
}

impl SuiteLine {
    fn judged(&self) -> Judged {
        match (self.threshold.met, self.threshold.value) {
            (Some(true), _) => Judged::Met,
            (Some(false), _) => Judged::Missed,
            (None, Some(_)) => Judged::Undecided,
            (None, None) => Judged::Unmeasured,
        }
    }

    /// Returns whether this line is worse than another run's line for the same threshold: by its
    /// verdict, or for equal verdicts by its value.
    fn is_worse_than(&self, other: &Self) -> bool {
        let farther = match (self.threshold.value, other.threshold.value) {
            (Some(one), Some(two)) if self.threshold.at_least => one < two,
            (Some(one), Some(two)) => one > two,
            _ => false,
        };
        let (one, two) = (self.judged(), other.judged());
        one > two || (one == two && farther)
    }

    fn is_same(&self, other: &Self) -> bool {
        let (one, two) = (&self.threshold, &other.threshold);
        self.scenario == other.scenario
            && (&one.name, &one.data_set, &one.row) == (&two.name, &two.data_set, &two.row)
    }
}

#[cfg(test)]
mod tests;
