//! A chart of small panels, each one measure against the number of workers: a line for each way to share the objects.

use plotters::prelude::*;

use super::axis::Axis;
use super::canvas::{
    Area, DrawError, FAINT_INK, GRID, INK, Lettering, PALETTE, Ruler, failed, write, write_heading,
    write_legend,
};
use crate::report::quantity::Unit;

const WIDTH: u32 = 1_000;
const MARGIN: i32 = 16;
const COLUMNS: usize = 2;
const HEAD_HEIGHT: i32 = 86;
const PANEL_HEIGHT: i32 = 290;
const PANEL_HEAD: i32 = 26;

/// The number of workers has no unit.
const WORKERS: Unit = Unit {
    name: "number",
    size: 1.0,
};

/// A chart of curves.
#[derive(Debug, Clone)]
pub(super) struct CurvesFigure {
    pub(super) title: String,
    pub(super) subtitle: String,
    /// What each line of every panel is, in the order of their colours.
    pub(super) names: Vec<String>,
    pub(super) panels: Vec<CurvePanel>,
}

/// One measure.
#[derive(Debug, Clone)]
pub(super) struct CurvePanel {
    pub(super) name: &'static str,
    pub(super) unit: fn(f64) -> Unit,
    /// For each of the figure's names: workers, and the measure in its base unit.
    pub(super) lines: Vec<Vec<(f64, f64)>>,
}

impl CurvesFigure {
    /// Width and height in user units.
    pub(super) fn size(&self) -> (u32, u32) {
        let rows = self.panels.len().div_ceil(COLUMNS) as i32;
        (WIDTH, (HEAD_HEIGHT + PANEL_HEIGHT * rows + MARGIN) as u32)
    }

    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
    ) -> Result<(), DrawError> {
        let width = WIDTH as i32 - 2 * MARGIN;
        let heading = (&*self.title, &*self.subtitle);
        write_heading(area, ruler, heading, MARGIN, width)?;
        let names = self.names.iter().map(String::as_str).enumerate();
        write_legend(area, ruler, (MARGIN, 70), 26, names, |line, x| {
            let y = ruler.px(70);
            let stroke = colour_of(line).stroke_width(ruler.upx(3));
            let ends = [(ruler.px(x), y), (ruler.px(x + 26), y)];
            area.draw(&PathElement::new(ends, stroke)).map_err(failed)
        })?;
        let panel_width = width / COLUMNS as i32;
        for (n, panel) in self.panels.iter().enumerate() {
            let left = MARGIN + panel_width * (n % COLUMNS) as i32;
            let top = HEAD_HEIGHT + PANEL_HEIGHT * (n / COLUMNS) as i32;
            let name = Lettering::new(14).bold();
            write(
                area,
                ruler,
                panel.name,
                name,
                (left, top + 12),
                Some(panel_width - 20),
            )?;
            let within = area.clone().shrink(
                (ruler.px(left), ruler.px(top + PANEL_HEAD)),
                (
                    ruler.px(panel_width - 14),
                    ruler.px(PANEL_HEIGHT - PANEL_HEAD - 8),
                ),
            );
            panel.draw(&within, ruler)?;
        }
        Ok(())
    }
}

impl CurvePanel {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lines.iter().flatten().copied()
    }

    /// The numbers of workers that there are, as doublings.
    fn workers_axis(&self) -> Option<Axis> {
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
        let lettering = |size| {
            (plot_font::FAMILY, f64::from(ruler.upx(size)))
                .into_font()
                .color(&FAINT_INK)
        };
        let mut chart = ChartBuilder::on(area)
            .margin_right(ruler.px(14))
            .margin_top(ruler.px(6))
            .set_label_area_size(LabelAreaPosition::Left, ruler.px(62))
            .set_label_area_size(LabelAreaPosition::Bottom, ruler.px(38))
            .build_cartesian_2d(workers.clone(), height.clone())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .axis_style(INK.stroke_width(ruler.upx(1)))
            .bold_line_style(GRID.stroke_width(ruler.upx(1)))
            .x_label_formatter(&|value| Axis::label(*value))
            .y_label_formatter(&|value| Axis::label(*value))
            .label_style(lettering(12))
            .axis_desc_style(lettering(12))
            .x_desc("workers")
            .y_desc(height.unit.name)
            .draw()
            .map_err(failed)?;
        let surface = chart.plotting_area();
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
