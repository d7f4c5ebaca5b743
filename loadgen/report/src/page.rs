//! Renders a result as `report.html`, a self-contained page, and as `README.md`, which GitHub shows
//! for the result's folder.
//!
//! - `side_by_side`: each work with the case of each target; `pairs`: ratios of targets to the
//!   first
//! - `overview`, `summary`, `matrix`, `details`, `environment`: the parts of the page in text;
//!   `graphics`: its charts; `markup`: text as HTML
//! - `context`, `readme`: the values that fill the templates

mod context;
mod details;
mod environment;
#[cfg(test)]
pub(crate) mod fixture;
mod graphics;
pub(crate) mod markup;
mod matrix;
mod overview;
mod pairs;
mod readme;
mod side_by_side;
mod summary;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use crate::charts::Chart;
use crate::history::History;
use crate::result::SavedResult;

use context::PageContext;
use pairs::Pairs;
use readme::Readme;
use side_by_side::SideBySide;

const PAGE: (&str, &str) = ("report.html", include_str!("../assets/report.html"));
const README: (&str, &str) = ("README.md", include_str!("../assets/result-readme.md"));

/// The selection of charts in a folder's README: the first ones in this order, limited in number
/// and in size. The page contains all charts. Results in git keep only the README's charts, so
/// that the results stay small.
const README_CHARTS: usize = 3;
const README_CHART_BYTES: usize = 40_000;
const README_ORDER: [&str; 10] = [
    "shards",
    "networks",
    "latency",
    "open-loop",
    "peak",
    "memory",
    "cpu",
    "first-chunk",
    "shard-watches",
    "bars",
];

/// A chart that the README may contain.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Picture {
    pub(super) name: String,
    pub(super) caption: String,
    pub(super) svg: String,
    pub(super) data_set: String,
}

/// Returns the page: a single self-contained file that includes its charts.
pub(super) fn html(
    result: &SavedResult,
    charts: &[Chart],
    history: &History,
) -> Result<String, minijinja::Error> {
    render(PAGE, &PageContext::of(result, charts, history))
}

/// Returns the README of the folder, in Markdown.
pub(super) fn readme(
    result: &SavedResult,
    pictures: &[Picture],
    history: &History,
) -> Result<String, minijinja::Error> {
    let report = &result.report;
    let cases = SideBySide::of(report);
    let sentences = summary::sentences(report, &cases, &Pairs::of(result, &cases));
    let pictures = readme_pictures(pictures);
    render(README, &Readme::of(report, sentences, &pictures, history))
}

/// Returns the charts for the README, in the order of the page.
fn readme_pictures(pictures: &[Picture]) -> Vec<Picture> {
    let rank = |picture: &Picture| {
        README_ORDER
            .iter()
            .position(|kind| picture.name.starts_with(kind))
    };
    let mut shown: Vec<usize> = (0..pictures.len())
        .filter(|&at| pictures[at].svg.len() <= README_CHART_BYTES)
        .collect();
    shown.sort_by_key(|&at| rank(&pictures[at]).unwrap_or(README_ORDER.len()));
    shown.truncate(README_CHARTS);
    shown.sort_unstable();
    shown.into_iter().map(|at| pictures[at].clone()).collect()
}

fn render(
    (name, source): (&'static str, &'static str),
    page: &impl Serialize,
) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|name| {
        if name.ends_with(".html") {
            AutoEscape::Html
        } else {
            AutoEscape::None
        }
    });
    // Minijinja would escape slashes and apostrophes too, which makes the source harder to read.
    environment.set_formatter(
        |out, state, value| match (state.auto_escape(), value.as_str()) {
            (AutoEscape::Html, Some(text)) if !value.is_safe() => {
                Ok(out.write_str(&markup::escaped(text))?)
            }
            _ => minijinja::escape_formatter(out, state, value),
        },
    );
    environment.add_filter("cell", |text: String| {
        text.replace('|', "\\|").replace('\n', " ")
    });
    environment.add_filter("tied", |text: String| markup::tied(&text));
    environment.add_template(name, source)?;
    environment.get_template(name)?.render(Serde(page))
}

#[cfg(test)]
mod tests {
    use super::{Picture, readme_pictures};

    #[test]
    fn the_readme_shows_three_charts_that_are_small() {
        let picture = |(name, bytes): (&str, usize)| Picture {
            name: name.to_owned(),
            caption: String::new(),
            svg: "x".repeat(bytes),
            data_set: "pods".to_owned(),
        };
        let all = [
            ("latency", 50_000),
            ("bars", 9),
            ("peak-a", 9),
            ("memory-a", 40_001),
            ("cpu", 9),
            ("shards", 40_000),
        ]
        .map(picture);
        let shown = readme_pictures(&all);
        let names: Vec<&str> = shown.iter().map(|picture| &*picture.name).collect();
        assert_eq!(names, ["peak-a", "cpu", "shards"]);
    }
}
