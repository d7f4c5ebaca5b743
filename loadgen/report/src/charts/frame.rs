//! The layout that all charts share: width, heading, position of the legend, panels side by side,
//! and the style of axes.

use plotters::prelude::*;

use super::axis::Axis;
use super::canvas::{Area, DrawError, FAINT_INK, GRID, INK, Lettering, Ruler, failed, write};

pub(super) const WIDTH: i32 = 1_000;
pub(super) const MARGIN: i32 = 16;
/// Height of heading and legend, above everything else.
pub(super) const HEAD_HEIGHT: i32 = 86;
/// The vertical middle of the legend's line.
pub(super) const LEGEND_AT: i32 = 70;

/// Returns width and height, in user units, of a chart with this height below its head.
pub(super) fn size(below_head: i32) -> (u32, u32) {
    (WIDTH as u32, (HEAD_HEIGHT + below_head) as u32)
}

/// Writes a chart's title and, in a fainter colour, its subtitle.
pub(super) fn write_heading<DB: DrawingBackend>(
    area: &Area<DB>,
    ruler: Ruler,
    title: &str,
    subtitle: &str,
) -> Result<(), DrawError> {
    let width = Some(WIDTH - 2 * MARGIN);
    let (large, faint) = (Lettering::new(20).bold(), Lettering::new(13).faint());
    write(area, ruler, title, large, (MARGIN, 22), width)?;
    write(area, ruler, subtitle, faint, (MARGIN, 46), width)
}

/// A grid of panels of the same size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panels {
    pub(super) columns: usize,
    pub(super) height: i32,
    /// The height of the part of a panel above its axes.
    pub(super) head: i32,
}

impl Panels {
    /// Returns the width of a panel.
    pub(super) const fn width(self) -> i32 {
        (WIDTH - 2 * MARGIN) / self.columns as i32
    }

    /// Returns the height of the rows for so many panels.
    pub(super) fn height_of(self, panels: usize) -> i32 {
        self.height * panels.div_ceil(self.columns) as i32
    }

    /// Returns the upper left corner of the `n`th panel, where the first row of panels starts at
    /// `top`.
    pub(super) fn corner(self, n: usize, top: i32) -> (i32, i32) {
        let left = MARGIN + self.width() * (n % self.columns) as i32;
        (left, top + self.height * (n / self.columns) as i32)
    }

    /// Returns the part of the surface for the axes of the panel at `corner`.
    pub(super) fn plot<DB: DrawingBackend>(
        self,
        area: &Area<DB>,
        ruler: Ruler,
        (left, top): (i32, i32),
    ) -> Area<DB> {
        area.clone().shrink(
            (ruler.px(left), ruler.px(top + self.head)),
            (
                ruler.px(self.width() - 14),
                ruler.px(self.height - self.head - 8),
            ),
        )
    }
}

/// Returns the text style for ticks and names of axes.
pub(super) fn axis_lettering(ruler: Ruler, size: u32, colour: RGBColor) -> TextStyle<'static> {
    (plot_font::FAMILY, f64::from(ruler.upx(size)))
        .into_font()
        .color(&colour)
}

/// The space for the labels of a panel's axes, and their text size.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisLabels {
    pub(super) left: i32,
    pub(super) below: i32,
    pub(super) size: u32,
}

/// Draws a panel's axes, the x axis with its name and the y axis with its unit. Returns the
/// plotting area between them.
pub(super) fn draw_axes<DB: DrawingBackend>(
    area: &Area<DB>,
    ruler: Ruler,
    labels: AxisLabels,
    (below, name): (&Axis, &str),
    left: &Axis,
) -> Result<DrawingArea<DB, Cartesian2d<Axis, Axis>>, DrawError> {
    let lettering = axis_lettering(ruler, labels.size, FAINT_INK);
    let mut chart = ChartBuilder::on(area)
        .margin_right(ruler.px(14))
        .margin_top(ruler.px(6))
        .set_label_area_size(LabelAreaPosition::Left, ruler.px(labels.left))
        .set_label_area_size(LabelAreaPosition::Bottom, ruler.px(labels.below))
        .build_cartesian_2d(below.clone(), left.clone())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .axis_style(INK.stroke_width(ruler.upx(1)))
        .bold_line_style(GRID.stroke_width(ruler.upx(1)))
        .x_label_formatter(&|value| Axis::label(*value))
        .y_label_formatter(&|value| Axis::label(*value))
        .label_style(lettering.clone())
        .axis_desc_style(lettering)
        .x_desc(name)
        .y_desc(left.unit.name)
        .draw()
        .map_err(failed)?;
    Ok(chart.plotting_area().clone())
}
