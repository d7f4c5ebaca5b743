//! Draws the charts, the page and the README of a result. The input is a saved result, so that any
//! result can be drawn again.

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::charts::{Chart, charts};
use crate::flame_graph;
use crate::history::History;
use crate::page::{self, Picture};
use crate::result::{FolderError, ResultFolder, SavedResult};
use crate::terminal;

/// Why a saved result could not be drawn again.
#[derive(Debug, thiserror::Error)]
pub enum DrawAgainError {
    /// The result cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A chart or a page could not be drawn or written.
    #[error("{}: {failures}", folder.display())]
    NotDrawn {
        /// The result's folder.
        folder: PathBuf,
        /// The files that could not be drawn, each with the reason, separated by `; `.
        failures: String,
    },
}

/// Saves a result, draws it, and renames its folder to the final name. Returns what could not be
/// drawn as text: a failure costs a picture, not the run.
///
/// # Errors
/// When the raw data cannot be saved.
pub fn publish(
    result: &SavedResult,
    folder: ResultFolder,
) -> Result<(PathBuf, Vec<String>), FolderError> {
    folder.write(result)?;
    let failures = draw(result, folder.path());
    Ok((folder.finish()?, failures))
}

/// Draws all flame graphs, charts, the page and the README of a result into `folder`. Returns what
/// could not be drawn, each with the reason.
#[must_use]
pub fn draw(result: &SavedResult, folder: &Path) -> Vec<String> {
    let mut failures = flame_graph::draw_all(&result.report, folder);
    let charts = charts(result);
    let mut pictures = Vec::new();
    for chart in &charts {
        match draw_chart(chart, folder) {
            Ok(svg) => pictures.push(Picture {
                name: chart.name.clone(),
                caption: chart.caption.clone(),
                svg,
                data_set: chart.data_set.clone(),
            }),
            Err(why) => failures.push(format!("chart {}: {why}", chart.name)),
        }
    }
    let history = History::beside(folder).unwrap_or_else(|error| {
        failures.push(format!("history of thresholds: {error}"));
        History::default()
    });
    for (name, page) in [
        ("report.html", page::html(result, &charts, &history)),
        ("README.md", page::readme(result, &pictures, &history)),
    ] {
        let written = page
            .map_err(|error| error.to_string())
            .and_then(|text| fs::write(folder.join(name), text).map_err(|error| error.to_string()));
        if let Err(why) = written {
            failures.push(format!("{name}: {why}"));
        }
    }
    failures
}

/// Draws a saved result again, in its folder. Returns its table as text.
///
/// # Errors
/// When the folder contains no result, or something cannot be drawn.
pub fn draw_again(folder: &Path) -> Result<String, DrawAgainError> {
    let result = SavedResult::load(folder)?;
    let failures = draw(&result, folder);
    if !failures.is_empty() {
        return Err(DrawAgainError::NotDrawn {
            folder: folder.to_owned(),
            failures: failures.join("; "),
        });
    }
    let table = terminal::text(&result.report, terminal::width());
    Ok(format!(
        "{table}drawn again: {}\n",
        folder.join("report.html").display()
    ))
}

/// Draws a chart. Catches panics, since plotters reports some of its failures by panicking.
fn draw_chart(chart: &Chart, folder: &Path) -> Result<String, String> {
    match catch_unwind(AssertUnwindSafe(|| chart.write(folder))) {
        Ok(drawn) => drawn.map_err(|error| error.to_string()),
        Err(panic) => Err(words(panic.as_ref())),
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("plotters panicked").to_owned()
}
