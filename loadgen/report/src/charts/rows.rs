//! A chart with one line per case of the report, grouped by target: names at the left, marks along
//! an axis, the number at the right. A case that was not measured keeps its line, which shows the
//! reason.

use plotters::prelude::*;

use super::axis::Axis;
use super::canvas::{
    Area, DISMISSED, DrawError, FAINT_INK, GRID, INK, Lettering, PALETTE, Ruler, failed, write,
    write_legend,
};
use super::frame::{self, HEAD_HEIGHT, LEGEND_AT, MARGIN, WIDTH};

const NAMES_WIDTH: i32 = 215;
const NUMBERS_WIDTH: i32 = 185;
const AXIS_HEIGHT: i32 = 46;
const GROUP_HEIGHT: i32 = 30;
const ROW_HEIGHT: i32 = 38;
/// The distances from the top of a row to its marks, and to the note below them.
const MARKS_AT: i32 = 15;
const NOTE_AT: i32 = 31;
/// The distance from the marks up to a range, and half the height of its ends.
const RANGE_ABOVE: i32 = 10;
const RANGE_END: i32 = 3;

/// A chart of rows.
#[derive(Debug, Clone)]
pub(crate) struct RowChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// The quantity on the axis, without its unit.
    pub(crate) measure: &'static str,
    pub(crate) axis: Axis,
    /// The meaning of each kind of mark, in the order of the legend.
    pub(crate) legend: Vec<(MarkShape, &'static str)>,
    pub(crate) groups: Vec<Group>,
}

/// The rows of one target.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The target, without the program that it runs.
    pub(crate) target: String,
    pub(crate) name: String,
    pub(crate) rows: Vec<ChartRow>,
}

/// One row.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChartRow {
    /// The work. Rows of several targets with the same work belong next to each other.
    pub(crate) work: String,
    pub(crate) name: String,
    /// Encoding or options, below the name.
    pub(crate) detail: String,
    /// The marks, in base units.
    pub(crate) marks: Vec<Mark>,
    /// The row's main number as text, and the text below it.
    pub(crate) number: String,
    pub(crate) number_detail: String,
    /// Why the case was not measured, or what limits it.
    pub(crate) note: String,
    /// False when it must not be compared, so that its marks are not coloured.
    pub(crate) counts: bool,
}

/// A mark on a row, at values in the axis' base unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mark {
    pub(crate) shape: MarkShape,
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Whether the mark is a reference for comparison, which does not have the target's colour.
    pub(crate) is_reference: bool,
}

/// The position of a mark, in pixels of the surface.
#[derive(Clone, Copy)]
struct Place {
    from: i32,
    to: i32,
    y: i32,
}

/// The shape of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkShape {
    /// A bar from the beginning of the axis to a value. On a logarithmic axis, which has no zero,
    /// only the bar's end is drawn.
    Bar,
    /// A thin bar from one value to another.
    Span,
    /// A disc at a value.
    Disc,
    /// A ring at a value.
    Ring,
    /// A vertical stroke at a value.
    Stroke,
    /// A cross at a value.
    Cross,
    /// A small square at a value.
    Square,
    /// A line from one value to another with a stroke at each end, above the other marks.
    Range,
}

impl Mark {
    pub(crate) fn at(shape: MarkShape, value: f64) -> Self {
        Self {
            shape,
            from: value,
            to: value,
            is_reference: false,
        }
    }

    pub(crate) fn span(from: f64, to: f64) -> Self {
        Self::between(MarkShape::Span, from, to)
    }

    /// Returns the range of several values; `None` if there is none.
    pub(crate) fn range(values: impl Iterator<Item = f64>) -> Option<Self> {
        let ends = values.map(|value| (value, value));
        let (from, to) = ends.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))?;
        Some(Self::between(MarkShape::Range, from, to))
    }

    fn between(shape: MarkShape, from: f64, to: f64) -> Self {
        Self {
            shape,
            from,
            to,
            is_reference: false,
        }
    }

    pub(crate) fn as_reference(self) -> Self {
        Self {
            is_reference: true,
            ..self
        }
    }
}

impl RowChart {
    /// Returns width and height in user units.
    pub(super) fn size(&self) -> (u32, u32) {
        frame::size(self.rows_height() + AXIS_HEIGHT)
    }

    fn rows_height(&self) -> i32 {
        self.groups
            .iter()
            .map(|group| GROUP_HEIGHT + ROW_HEIGHT * group.rows.len() as i32)
            .sum()
    }

    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
    ) -> Result<(), DrawError> {
        frame::write_heading(area, ruler, &self.title, &self.subtitle)?;
        self.draw_legend(area, ruler)?;
        self.draw_plot(area, ruler)?;
        self.draw_words(area, ruler)
    }

    fn draw_legend<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
    ) -> Result<(), DrawError> {
        let entries = self.legend.iter().copied();
        let start = (NAMES_WIDTH, LEGEND_AT);
        write_legend(area, ruler, start, 24, entries, |shape, x| {
            // A mark that spans values fills the entry's width; others are in its middle.
            let (from, to) = match shape {
                MarkShape::Bar if !self.axis.logarithmic => (x, x + 24),
                MarkShape::Span | MarkShape::Range => (x, x + 24),
                _ => (x + 12, x + 12),
            };
            let y = match shape {
                MarkShape::Range => LEGEND_AT + RANGE_ABOVE,
                _ => LEGEND_AT,
            };
            let place = Place {
                from: ruler.px(from),
                to: ruler.px(to),
                y: ruler.px(y),
            };
            self.draw_mark(area, ruler, shape, place, INK)
        })
    }

    fn draw_plot<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
    ) -> Result<(), DrawError> {
        let left = NAMES_WIDTH - MARGIN;
        let plot = area.clone().shrink(
            (ruler.px(left), ruler.px(HEAD_HEIGHT)),
            (
                ruler.px(WIDTH - left - NUMBERS_WIDTH),
                ruler.px(self.rows_height() + AXIS_HEIGHT),
            ),
        );
        // The y axis points downwards, in user units: the position of a row is its distance from
        // the top.
        let down = f64::from(self.rows_height())..0.0;
        let mut chart = ChartBuilder::on(&plot)
            .margin_left(ruler.px(MARGIN))
            .margin_right(ruler.px(MARGIN))
            .set_label_area_size(LabelAreaPosition::Bottom, ruler.px(AXIS_HEIGHT))
            .build_cartesian_2d(self.axis.clone(), down)
            .map_err(failed)?;
        let lettering = |size| frame::axis_lettering(ruler, size, INK);
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .axis_style(INK.stroke_width(ruler.upx(1)))
            .bold_line_style(GRID.stroke_width(ruler.upx(1)))
            .x_label_formatter(&|value| Axis::label(*value))
            .x_label_style(lettering(12))
            .x_desc(self.axis.title(self.measure))
            .axis_desc_style(lettering(13))
            .draw()
            .map_err(failed)?;
        for (top, colour, row) in self.placed_rows() {
            let colour = if row.counts { colour } else { DISMISSED };
            for mark in &row.marks {
                let on_surface = |value| {
                    chart.backend_coord(&(self.axis.place(value), f64::from(top + MARKS_AT)))
                };
                let foot = chart.backend_coord(&(self.axis.low, 0.0)).0;
                let ((from, y), (to, _)) = (on_surface(mark.from), on_surface(mark.to));
                let from = if mark.shape == MarkShape::Bar && !self.axis.logarithmic {
                    foot
                } else {
                    from
                };
                let colour = if mark.is_reference { FAINT_INK } else { colour };
                self.draw_mark(area, ruler, mark.shape, Place { from, to, y }, colour)?;
            }
        }
        Ok(())
    }

    fn draw_mark<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
        shape: MarkShape,
        place: Place,
        colour: RGBColor,
    ) -> Result<(), DrawError> {
        let Place { from, to, y } = place;
        let block = |half: i32, style| {
            Rectangle::new(
                [(from, y - ruler.px(half)), (to, y + ruler.px(half))],
                style,
            )
        };
        let outline = colour.stroke_width(ruler.upx(2));
        match shape {
            MarkShape::Bar if self.axis.logarithmic => {
                area.draw(&Circle::new((to, y), ruler.px(6), colour.filled()))
            }
            MarkShape::Bar => area.draw(&block(7, colour.filled())),
            MarkShape::Span => area.draw(&block(2, colour.mix(0.35).filled())),
            MarkShape::Disc => area.draw(&Circle::new((to, y), ruler.px(5), colour.filled())),
            MarkShape::Ring => {
                // The ring is filled with white, so that marks beneath it do not show through and
                // make it look like a disc.
                area.draw(&Circle::new((to, y), ruler.px(5), WHITE.filled()))
                    .map_err(failed)?;
                area.draw(&Circle::new((to, y), ruler.px(5), outline))
            }
            MarkShape::Stroke => area.draw(&PathElement::new(
                [(to, y - ruler.px(7)), (to, y + ruler.px(7))],
                outline,
            )),
            MarkShape::Cross => area.draw(&Cross::new((to, y), ruler.px(5), outline)),
            MarkShape::Range => {
                let (y, end) = (y - ruler.px(RANGE_ABOVE), ruler.px(RANGE_END));
                let ends = [(from, y - end), (from, y + end), (from, y)];
                let others = [(to, y), (to, y - end), (to, y + end)];
                let line = [ends, others].concat();
                area.draw(&PathElement::new(line, colour.stroke_width(ruler.upx(1))))
            }
            MarkShape::Square => {
                let half = ruler.px(4);
                let corners = [(to - half, y - half), (to + half, y + half)];
                area.draw(&Rectangle::new(corners, colour.filled()))
            }
        }
        .map_err(failed)
    }

    fn draw_words<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
    ) -> Result<(), DrawError> {
        let (width, numbers) = (WIDTH, WIDTH - NUMBERS_WIDTH);
        let mut top = HEAD_HEIGHT;
        for (at, group) in self.groups.iter().enumerate() {
            // The white band keeps the grid's lines from crossing a long name.
            let band = [
                (0, ruler.px(top + 1)),
                (ruler.px(width), ruler.px(top + GROUP_HEIGHT - 1)),
            ];
            area.draw(&Rectangle::new(band, WHITE.filled()))
                .map_err(failed)?;
            let lettering = Lettering {
                colour: colour_of(at),
                ..Lettering::new(15).bold()
            };
            write(
                area,
                ruler,
                &group.name,
                lettering,
                (MARGIN, top + GROUP_HEIGHT / 2),
                Some(width - 2 * MARGIN),
            )?;
            top += GROUP_HEIGHT + ROW_HEIGHT * group.rows.len() as i32;
        }
        for (top, _, row) in self.placed_rows() {
            let top = top + HEAD_HEIGHT;
            write(
                area,
                ruler,
                &row.name,
                Lettering::new(14),
                (MARGIN, top + MARKS_AT - 2),
                Some(NAMES_WIDTH - 2 * MARGIN),
            )?;
            write(
                area,
                ruler,
                &row.detail,
                Lettering::new(11).faint(),
                (MARGIN, top + NOTE_AT - 2),
                Some(NAMES_WIDTH - 2 * MARGIN),
            )?;
            write(
                area,
                ruler,
                &row.number,
                Lettering::new(14).bold().right(),
                (width - MARGIN, top + MARKS_AT - 2),
                None,
            )?;
            write(
                area,
                ruler,
                &row.number_detail,
                Lettering::new(11).faint().right(),
                (width - MARGIN, top + NOTE_AT - 2),
                None,
            )?;
            // The note of a row without marks takes their place.
            let y = if row.marks.is_empty() {
                MARKS_AT - 2
            } else {
                NOTE_AT
            };
            write(
                area,
                ruler,
                &row.note,
                Lettering::new(11).faint(),
                (NAMES_WIDTH + 6, top + y),
                Some(numbers - NAMES_WIDTH - 2 * MARGIN),
            )?;
        }
        Ok(())
    }

    /// Returns each row with its distance from the top of the plot and its group's colour.
    fn placed_rows(&self) -> impl Iterator<Item = (i32, RGBColor, &ChartRow)> {
        let mut top = 0;
        self.groups.iter().enumerate().flat_map(move |(at, group)| {
            let first = top + GROUP_HEIGHT;
            top = first + ROW_HEIGHT * group.rows.len() as i32;
            group
                .rows
                .iter()
                .enumerate()
                .map(move |(n, row)| (first + ROW_HEIGHT * n as i32, colour_of(at), row))
        })
    }
}

fn colour_of(group: usize) -> RGBColor {
    PALETTE[group % PALETTE.len()]
}
