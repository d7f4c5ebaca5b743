//! `thresholds.csv`: which thresholds the runs met that were kept before, one line for each
//! threshold and run.
//!
//! `scripts/keep` appends to it. It lies beside the result folders, so that a result which is drawn
//! there says in how many of the last runs each of its thresholds held.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::result::{Report, Threshold};
use crate::threshold_table::ThresholdTable;

/// Name of the file, in the folder that holds the results.
const HISTORY_FILE: &str = "thresholds.csv";

/// So many runs are looked back at.
const LAST_RUNS: usize = 5;

/// Title of the column.
const HELD: &str = "held";

/// One threshold in one run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Line {
    /// [`Report::started`].
    date: String,
    scenario: String,
    target: String,
    /// Data set, tier and row.
    case: String,
    threshold: String,
    /// `<=` or `>=`, and a number in the unit of the figure.
    limit: String,
    /// `yes`, `no`, or `undecided`.
    met: String,
}

/// In how many of the last runs a threshold was met; undecided is not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// In so many.
    pub met: usize,
    /// Of so many, five at most.
    pub of: usize,
}

/// `in 4 of the last 5 runs`.
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            1 => write!(f, "in {} of 1 run", self.met),
            of => write!(f, "in {} of the last {of} runs", self.met),
        }
    }
}

/// The thresholds of runs that were kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History(Vec<Line>);

impl History {
    /// Reads the history beside a result folder; empty where there is none.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub(super) fn beside(folder: &Path) -> Result<Self, csv::Error> {
        // A relative folder of one name has an empty parent, `.` has none.
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

    /// Adds a column that says in how many of the last runs each threshold held, where there is any
    /// history of them.
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

    /// Returns how often a threshold was met in the last runs up to this report that had the same
    /// limit; `None` where there are none.
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
