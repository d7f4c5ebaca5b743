//! The verdict of a suite: the thresholds of several runs in one table.
//!
//! [`SuiteResult`] is `suite.json`, which lies in a folder of its own beside those of the runs. Its
//! lines are made of the runs' `report.json`, so a saved suite can be judged again.

mod folder;
mod table;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::result::{Report, Threshold};

pub use crate::history::Held;
pub use folder::{SUITE_FILE, SuiteError, draw_again, is_suite, save};
pub use table::{markdown, text};

/// The version of `suite.json`. It grows by one when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// `suite.json`: what was run, and what became of every threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteResult {
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// Name of the suite.
    pub suite: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// Wall-clock length of the whole.
    pub elapsed_s: f64,
    /// The command line.
    pub command: Vec<String>,
    /// True for few objects and repeats, where most limits are not judged.
    pub small: bool,
    /// True when it was stopped before its last run ended.
    pub interrupted: bool,
    /// What was run, in its order.
    pub runs: Vec<SuiteRun>,
    /// What a reader must know besides the figures: which run failed, and why.
    pub notes: Vec<String>,
    /// Each threshold once.
    pub thresholds: Vec<SuiteLine>,
}

/// One run of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteRun {
    /// The scenario.
    pub scenario: String,
    /// Name of its result folder; null where it left none.
    pub folder: Option<String>,
    /// The exit code that it would have had by itself; null where that is not known.
    pub exit: Option<u8>,
}

/// One threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteLine {
    /// The scenario that has it.
    pub scenario: String,
    /// Name of the result folder that it was judged in.
    pub folder: String,
    /// The threshold, as `report.json` has it.
    #[serde(flatten)]
    #[serde(rename = "bar")]
    pub threshold: Threshold,
    /// In how many of the last runs that were kept it was met; null where there are none.
    pub held: Option<Held>,
}

/// How many thresholds came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The limit is kept.
    pub met: usize,
    /// It is passed.
    pub missed: usize,
    /// It lies within what the figure may be.
    pub undecided: usize,
    /// There is no figure.
    pub unmeasured: usize,
}

impl SuiteResult {
    /// Judges what the runs measured: each threshold once, by the worst of the figures that runs of
    /// its scenario have for it.
    pub fn judge<'a>(&mut self, reports: impl IntoIterator<Item = (&'a Path, &'a Report)>) {
        self.thresholds.clear();
        for (folder, report) in reports {
            // What cannot be read is no reason to judge nothing.
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

    /// Counts the thresholds by what came of them.
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

/// What became of a threshold in one run, the worst last.
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

    /// Returns whether another run's line of the same threshold has more to object to: its verdict,
    /// or where that is the same, its figure.
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
