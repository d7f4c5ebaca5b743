//! The values that fill the page's template.

use serde::Serialize;

use crate::charts::Chart;
use crate::history::History;
use crate::machine;
use crate::profile_lines;
use crate::result::{Report, SavedResult};
use crate::threshold_table::{FIRST_NUMBER, ThresholdTable};
use crate::warm_up;

use super::details::{self, Details, Refused};
use super::environment::{self, Facts};
use super::graphics::{self, Topic};
use super::markup::with_code;
use super::matrix::{self, Matrix};
use super::overview::{self, Fact};
use super::pairs::Pairs;
use super::side_by_side::SideBySide;
use super::summary;

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");

/// The content of the page: text and charts.
#[derive(Serialize)]
pub(super) struct PageContext<'a> {
    report: &'a Report,
    style: &'static str,
    script: &'static str,
    /// The scenario's own summary.
    scenario_summary: Option<String>,
    /// One line about what was run, when and where.
    line: String,
    validity: Vec<Fact>,
    /// The sentences of the summary, as HTML.
    sentences: Vec<String>,
    matrix: Matrix,
    loads: Option<Matrix>,
    /// Case, target, and the notes to read before comparing it.
    notes: Vec<(String, String, String)>,
    refused: Vec<Refused>,
    topics: Vec<Topic>,
    profiles: Vec<Profile>,
    thresholds: ThresholdTable,
    first_number: usize,
    bar_charts: Vec<String>,
    details: Vec<Details<'a>>,
    /// Lines about the run as a whole, such as what all targets share.
    lines: Vec<String>,
    facts: Facts,
    servers: Vec<(String, Facts)>,
    command: String,
}

/// The CPU profile of a server.
#[derive(Serialize)]
struct Profile {
    name: String,
    flame_graph: Option<String>,
    /// A sentence, as HTML.
    about: String,
}

fn profiles(report: &Report) -> Vec<Profile> {
    let lines = profile_lines::lines(report.cases.iter()).into_iter();
    lines
        .map(|line| Profile {
            about: with_code(&line.about),
            name: line.name,
            flame_graph: line.flame_graph,
        })
        .collect()
}

impl<'a> PageContext<'a> {
    pub(super) fn of(result: &'a SavedResult, charts: &[Chart], history: &History) -> Self {
        let report = &result.report;
        let cases = SideBySide::of(report);
        let pairs = Pairs::of(result, &cases);
        let mut thresholds = ThresholdTable::of(report);
        history.add_to(&mut thresholds, report);
        let sentences = summary::sentences(report, &cases, &pairs);
        let mut lines: Vec<String> = report.environment.shared_line().into_iter().collect();
        let of_cases = [
            machine::line(report.cases.iter()),
            warm_up::line(report.cases.iter()),
        ];
        lines.extend(of_cases.into_iter().flatten());
        Self {
            style: STYLE,
            script: SCRIPT,
            scenario_summary: overview::scenario_summary(&result.scenario_toml),
            line: overview::line(report),
            validity: overview::validity(report),
            sentences: sentences.iter().map(|it| with_code(it)).collect(),
            matrix: Matrix::of_cases(&report.data_sets, &cases, &pairs),
            loads: Matrix::of_loads(&cases),
            notes: matrix::notes(&cases),
            refused: details::refused(&cases),
            topics: graphics::topics(result, &cases, &pairs, charts),
            profiles: profiles(report),
            thresholds,
            first_number: FIRST_NUMBER,
            bar_charts: graphics::thresholds(charts, &cases),
            details: report
                .data_sets
                .iter()
                .map(|data_set| Details::of(report, data_set))
                .collect(),
            lines,
            facts: environment::facts(report),
            servers: environment::servers(report),
            command: environment::command(report),
            report,
        }
    }
}
