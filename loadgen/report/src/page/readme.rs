//! The values that fill the README's template.

use serde::Serialize;

use crate::at_rest_table;
use crate::case_text::{CaseRow, TITLES};
use crate::history::History;
use crate::load_table::{self, LoadRow};
use crate::machine;
use crate::profile_lines::{self, ProfileLine};
use crate::quantity::Quantity;
use crate::result::{DataSet, Report};
use crate::threshold_table::ThresholdTable;
use crate::warm_up;

use super::environment::{self, Facts};
use super::{Picture, details};

/// The content of the README.
#[derive(Serialize)]
pub(super) struct Readme<'a> {
    report: &'a Report,
    command: String,
    elapsed: String,
    /// The sentences of the summary.
    sentences: Vec<String>,
    /// One line about what all targets share.
    shared: Option<String>,
    titles: [&'static str; TITLES.len()],
    data_sets: Vec<Section<'a>>,
    thresholds: ThresholdTable,
    facts: Facts,
    servers: Vec<(String, Facts)>,
}

/// The section of one data set.
#[derive(Serialize)]
struct Section<'a> {
    name: &'a str,
    about: String,
    rows: Vec<CaseRow>,
    /// The loads that ran together.
    load_titles: [&'static str; load_table::TITLES.len()],
    loads: Vec<LoadRow>,
    /// What the servers held at rest.
    rest_titles: [&'static str; at_rest_table::TITLES.len()],
    rests: Vec<at_rest_table::AtRestRow>,
    /// The servers' CPU profiles.
    profiles: Vec<ProfileLine>,
    /// Lines below the table.
    lines: Vec<String>,
    pictures: Vec<&'a Picture>,
}

impl<'a> Readme<'a> {
    pub(super) fn of(
        report: &'a Report,
        sentences: Vec<String>,
        pictures: &'a [Picture],
        history: &History,
    ) -> Self {
        let mut thresholds = ThresholdTable::of(report);
        history.add_to(&mut thresholds, report);
        Self {
            command: environment::command(report),
            elapsed: Quantity::seconds(report.elapsed_s).to_string(),
            sentences,
            shared: report.environment.shared_line(),
            titles: TITLES,
            data_sets: report
                .data_sets
                .iter()
                .map(|data_set| Section::of(report, data_set, pictures))
                .collect(),
            thresholds,
            facts: environment::facts(report),
            servers: environment::servers(report),
            report,
        }
    }
}

impl<'a> Section<'a> {
    fn of(report: &'a Report, data_set: &'a DataSet, pictures: &'a [Picture]) -> Self {
        let cases = || {
            let cases = report.cases.iter();
            cases.filter(|case| case.data_set == data_set.name)
        };
        Self {
            name: &data_set.name,
            about: details::about(data_set),
            rows: cases().map(CaseRow::of).collect(),
            load_titles: load_table::TITLES,
            loads: load_table::rows(cases()),
            rest_titles: at_rest_table::TITLES,
            rests: at_rest_table::rows(cases()),
            profiles: profile_lines::lines(cases()),
            lines: [machine::line(cases()), warm_up::line(cases())]
                .into_iter()
                .flatten()
                .collect(),
            pictures: pictures
                .iter()
                .filter(|picture| picture.data_set == data_set.name)
                .collect(),
        }
    }
}
