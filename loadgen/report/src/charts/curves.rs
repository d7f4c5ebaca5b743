//! A chart of small panels, each of which shows one measure against the number of workers, with a
//! line for each way to share the objects.

use plotters::prelude::*;

use super::axis::Axis;
use super::canvas::{Area, DrawError, Lettering, PALETTE, Ruler, failed, write, write_legend};
use super::frame::{self, AxisLabels, HEAD_HEIGHT, LEGEND_AT, MARGIN, Panels};
use crate::quantity::Unit;

const PANELS: Panels = Panels {
    columns: 2,
    height: 290,
    head: 26,
};
const AXIS_LABELS: AxisLabels = AxisLabels {
    left: 62,
    below: 38,
    size: 12,
};

/// The unit of the number of workers, which is none.
const WORKERS: Unit = Unit {
    name: "number",
    size: 1.0,
};

/// A chart of curves.
#[derive(Debug, Clone)]
pub(crate) struct CurveChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// The names of the lines in every panel, in the order of their colours.
    pub(crate) names: Vec<String>,
    pub(crate) panels: Vec<CurvePanel>,
}

/// The panel of one measure.
#[derive(Debug, Clone)]
pub(crate) struct CurvePanel {
    pub(crate) name: &'static str,
    pub(crate) unit: fn(f64) -> Unit,
    /// The points for each of the chart's names: number of workers, and the measure in its base
    /// unit.
    pub(crate) lines: Vec<Vec<(f64, f64)>>,
}

impl CurveChart {
    /// Returns width and height in user units.
    pub(super) fn size(&self) -> (u32, u32) {
        frame::size(PANELS.height_of(self.panels.len()) + MARGIN)
    }

    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
    ) -> Result<(), DrawError> {
        frame::write_heading(area, ruler, &self.title, &self.subtitle)?;
        let names = self.names.iter().map(String::as_str).enumerate();
        write_legend(area, ruler, (MARGIN, LEGEND_AT), 26, names, |line, x| {
            let y = ruler.px(LEGEND_AT);
            let stroke = colour_of(line).stroke_width(ruler.upx(3));
            let ends = [(ruler.px(x), y), (ruler.px(x + 26), y)];
            area.draw(&PathElement::new(ends, stroke)).map_err(failed)
        })?;
        for (n, panel) in self.panels.iter().enumerate() {
            let (left, top) = PANELS.corner(n, HEAD_HEIGHT);
            write(
                area,
                ruler,
                panel.name,
                Lettering::new(14).bold(),
                (left, top + 12),
                Some(PANELS.width() - 20),
            )?;
            panel.draw(&PANELS.plot(area, ruler, (left, top)), ruler)?;
        }
        Ok(())
    }
}

impl CurvePanel {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lines.iter().flatten().copied()
    }

    /// Returns a logarithmic axis with a tick at each number of workers.
    pub(crate) fn workers_axis(&self) -> Option<Axis> {
        let mut ticks: Vec<f64> = self.points().map(|(workers, _)| workers).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let (&low, &high) = ticks.first().zip(ticks.last())?;
        (low > 0.0 && high > low).then_some(Axis {
            unit: WORKERS,
            logarithmic: true,
            low,
            high,
            ticks,
        })
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, ruler: Ruler) -> Result<(), DrawError> {
        let values = self.points().map(|(_, value)| value);
        let axes = self.workers_axis().zip(Axis::of(values, self.unit));
        let Some((workers, height)) = axes else {
            return Ok(());
        };
        let surface = frame::draw_axes(area, ruler, AXIS_LABELS, (&workers, "workers"), &height)?;
        for (n, line) in self.lines.iter().enumerate() {
            let placed: Vec<(f64, f64)> = line
                .iter()
                .map(|&(count, value)| (workers.place(count), height.place(value)))
                .collect();
            for &point in &placed {
                let disc = Circle::new(point, ruler.px(4), colour_of(n).filled());
                surface.draw(&disc).map_err(failed)?;
            }
            let stroke = colour_of(n).stroke_width(ruler.upx(2));
            surface
                .draw(&PathElement::new(placed, stroke))
                .map_err(failed)?;
        }
        Ok(())
    }
}

fn colour_of(line: usize) -> RGBColor {
    PALETTE[line % PALETTE.len()]
}
