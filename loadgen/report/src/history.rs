//! `thresholds.csv`: the verdicts of the thresholds in earlier runs, one line for each threshold
//! and run.
//!
//! `scripts/keep` appends to it. It is stored next to the result folders. A result that is drawn
//! there shows in how many of the last runs each of its thresholds was met.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::result::{Report, Threshold};
use crate::threshold_table::ThresholdTable;

/// Name of the file, in the folder that contains the result folders.
const HISTORY_FILE: &str = "thresholds.csv";

/// The maximal number of runs that are counted.
const LAST_RUNS: usize = 5;

/// Title of the column.
const HELD: &str = "held";

/// The verdict of one threshold in one run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Line {
    /// [`Report::started`].
    date: String,
    scenario: String,
    target: String,
    /// Data set, tier and case.
    case: String,
    threshold: String,
    /// `<=` or `>=`, and a number in the metric's unit.
    limit: String,
    /// `yes`, `no`, or `undecided`.
    met: String,
}

/// In how many of the last runs a threshold was met. Undecided counts as not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The number of runs that met it.
    pub met: usize,
    /// The number of runs that are counted, at most five.
    pub of: usize,
}

/// Writes `in 4 of the last 5 runs`.
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            1 => write!(f, "in {} of 1 run", self.met),
            of => write!(f, "in {} of the last {of} runs", self.met),
        }
    }
}

/// The thresholds of earlier runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History(Vec<Line>);

impl History {
    /// Reads the history next to a result folder; empty where there is none.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub(super) fn beside(folder: &Path) -> Result<Self, csv::Error> {
        // A relative path of one component has an empty parent, and `.` has none.
        let folder = folder.canonicalize().map_err(csv::Error::from)?;
        let Some(parent) = folder.parent() else {
            return Ok(Self::default());
        };
        match File::open(parent.join(HISTORY_FILE)) {
            Ok(file) => csv::Reader::from_reader(file)
                .deserialize()
                .collect::<Result<_, _>>()
                .map(Self),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a column that shows in how many of the last runs each threshold was met, unless there
    /// is no history for any of them.
    pub(super) fn add_to(&self, table: &mut ThresholdTable, report: &Report) {
        let held = report
            .thresholds
            .iter()
            .map(|threshold| self.held(threshold, report));
        let held: Vec<Option<Held>> = held.collect();
        if held.iter().all(Option::is_none) {
            return;
        }
        table.titles.push(HELD.to_owned());
        for (row, held) in table.rows.iter_mut().zip(held) {
            let held = held.map(|held| held.to_string());
            row.cells.push(held.unwrap_or_default());
        }
    }

    /// Returns how often a threshold with the same limit was met in the last runs up to this
    /// report; `None` if there are none.
    pub(super) fn held(&self, threshold: &Threshold, report: &Report) -> Option<Held> {
        let mut runs: Vec<&Line> = self
            .0
            .iter()
            .filter(|line| line.is_of(threshold, report) && line.date <= report.started)
            .collect();
        runs.sort_by(|a, b| b.date.cmp(&a.date));
        runs.truncate(LAST_RUNS);
        let met = runs.iter().filter(|line| line.met == "yes").count();
        let of = runs.len();
        (of > 0).then_some(Held { met, of })
    }
}

impl Line {
    fn is_of(&self, threshold: &Threshold, report: &Report) -> bool {
        let (sign, number) = self.limit.split_once(' ').unwrap_or_default();
        self.scenario == report.scenario
            && self.target == threshold.target
            && self.threshold == threshold.name
            && self.case == format!("{} {}", threshold.data_set, threshold.row)
            && (sign == ">=") == threshold.at_least
            && number.parse() == Ok(threshold.limit)
    }
}
