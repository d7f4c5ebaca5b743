//! The charts of a result, each as SVG and as PNG of double size. A failure to draw one chart does
//! not affect the others.

pub(crate) mod axis;
mod canvas;
pub(crate) mod curves;
pub(crate) mod downsample;
mod frame;
mod from_result;
mod panels;
pub(crate) mod rows;
pub(crate) mod timeline;

use std::fs;
use std::path::{Path, PathBuf};

use plotters::prelude::*;

use crate::result::SavedResult;
pub use canvas::DrawError;
use canvas::{Area, Ruler, failed};
use curves::CurveChart;
use from_result::Subject;
use panels::PanelChart;
use rows::RowChart;

/// Pixels of the bitmap per user unit of the SVG.
const BITMAP_SCALE: u32 = 2;

/// One chart: its name, which is also that of its files, and its picture.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The kind (`latency`, `open-loop`, `bars`, `first-chunk`, `networks`, `memory`, `peak`,
    /// `cpu`, `shards` or `shard-watches`), and the data set where there are several.
    pub name: String,
    /// The name without the data set.
    pub(crate) kind: &'static str,
    /// Name of the data set that the chart is about.
    pub data_set: String,
    /// The chart's content in a sentence, for readers who cannot see it.
    pub caption: String,
    pub(crate) drawing: Drawing,
}

/// The content of a chart, independent of how it is drawn.
#[derive(Debug, Clone)]
pub(crate) enum Drawing {
    Rows(RowChart),
    Panels(PanelChart),
    Curves(CurveChart),
}

impl Chart {
    /// Returns the picture as an SVG document.
    ///
    /// # Errors
    /// When plotters fails, which is not expected for any input.
    pub fn svg(&self) -> Result<String, DrawError> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, self.drawing.size()).into_drawing_area();
            self.drawing.draw(&area, Ruler(1))?;
            area.present().map_err(failed)?;
        }
        Ok(svg)
    }

    /// Writes the picture as a PNG.
    fn write_png(&self, path: &Path) -> Result<(), DrawError> {
        let (width, height) = self.drawing.size();
        let area = BitMapBackend::new(path, (width * BITMAP_SCALE, height * BITMAP_SCALE))
            .into_drawing_area();
        self.drawing.draw(&area, Ruler(BITMAP_SCALE))?;
        area.present().map_err(failed)
    }

    /// Writes `NAME.svg` and `NAME.png` into `folder` and returns the SVG.
    ///
    /// # Errors
    /// When either cannot be drawn or written.
    pub fn write(&self, folder: &Path) -> Result<String, DrawError> {
        let svg = self.svg()?;
        fs::write(self.file(folder, "svg"), &svg).map_err(failed)?;
        self.write_png(&self.file(folder, "png"))?;
        Ok(svg)
    }

    fn file(&self, folder: &Path, extension: &str) -> PathBuf {
        folder.join(format!("{}.{extension}", self.name))
    }
}

impl Drawing {
    fn size(&self) -> (u32, u32) {
        match self {
            Self::Rows(chart) => chart.size(),
            Self::Panels(chart) => chart.size(),
            Self::Curves(chart) => chart.size(),
        }
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, ruler: Ruler) -> Result<(), DrawError> {
        plot_font::register();
        area.fill(&WHITE).map_err(failed)?;
        match self {
            Self::Rows(chart) => chart.draw(area, ruler),
            Self::Panels(chart) => chart.draw(area, ruler),
            Self::Curves(chart) => chart.draw(area, ruler),
        }
    }
}

/// Returns every chart that the result has data for, in the order of the report.
#[must_use]
pub fn charts(result: &SavedResult) -> Vec<Chart> {
    let data_sets = &result.report.data_sets;
    let mut charts = Vec::new();
    for data_set in data_sets {
        let subject = Subject::new(result, data_set);
        let drawings = [
            (
                "latency",
                "Time of one whole list, small request or event per strategy: median, extremes and the quantiles that n carries.",
                subject.latency().map(Drawing::Rows),
            ),
            (
                "open-loop",
                "Latency of small requests on a schedule, from their intended start and from sending, and how late they were sent.",
                subject.open_loop().map(Drawing::Rows),
            ),
            (
                "bars",
                "Each figure as a part of the limit that the scenario sets.",
                subject.bars().map(Drawing::Rows),
            ),
            (
                "first-chunk",
                "Time to the first chunk against the time of the whole list, per strategy.",
                subject.first_chunk().map(Drawing::Rows),
            ),
            (
                "networks",
                "Median time of each strategy over that of the first strategy on the same network.",
                subject.networks().map(Drawing::Rows),
            ),
            (
                "peak",
                "Peak of the server's private memory above idle, per strategy, heap that the warm-up left behind included. Pages of mapped files (etcd's database) that lists read in are a mark of their own.",
                subject.peak().map(Drawing::Rows),
            ),
            (
                "memory",
                "Private and allocated memory of the server over time, with the idle line. Private memory includes heap that the warm-up left behind: what is above idle is not all of it held by a list. Pages of mapped files (etcd's database) are not in it.",
                subject.memory().map(Drawing::Panels),
            ),
            (
                "cpu",
                "CPU time of server and generator for one list or request, per strategy.",
                subject.cpu().map(Drawing::Rows),
            ),
            (
                "shards",
                "What a whole list costs that N workers share, against N: shards cut by the server, and everything cut by the clients.",
                subject.shards().map(Drawing::Curves),
            ),
            (
                "shard-watches",
                "What watches cost that N workers share, against N, while objects are written.",
                subject.shard_watches().map(Drawing::Curves),
            ),
        ];
        for (kind, caption, drawing) in drawings {
            let name = if data_sets.len() == 1 {
                kind.to_owned()
            } else {
                format!("{kind}-{}", file_name(&data_set.name))
            };
            charts.extend(drawing.map(|drawing| Chart {
                name,
                kind,
                data_set: data_set.name.clone(),
                caption: caption.to_owned(),
                drawing,
            }));
        }
    }
    charts
}

fn file_name(data_set: &str) -> String {
    data_set.replace(
        |c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)),
        "_",
    )
}
