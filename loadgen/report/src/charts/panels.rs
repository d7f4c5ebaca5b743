//! A chart of small panels over time, one per case of the report and grouped by target. The panels
//! of a group share the scale of their y axis.

use std::ops::Range;

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::axis::Axis;
use super::canvas::{
    Area, DISMISSED, DrawError, INK, Lettering, PALETTE, Ruler, failed, write, write_legend,
    write_lines,
};
use super::downsample::downsample;
use super::frame::{self, AxisLabels, HEAD_HEIGHT, LEGEND_AT, MARGIN, Panels};
use crate::quantity::Unit;

const GROUP_HEIGHT: i32 = 30;
const PANELS: Panels = Panels {
    columns: 3,
    height: 206,
    head: 36,
};
const AXIS_LABELS: AxisLabels = AxisLabels {
    left: 56,
    below: 34,
    size: 11,
};

/// A chart of panels.
#[derive(Debug, Clone)]
pub(crate) struct PanelChart {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) groups: Vec<PanelGroup>,
}

/// The panels of one target.
#[derive(Debug, Clone)]
pub(super) struct PanelGroup {
    pub(super) name: String,
    pub(super) panels: Vec<Panel>,
}

/// The memory of one case over time.
#[derive(Debug, Clone, Default)]
pub(super) struct Panel {
    pub(super) name: String,
    /// Seconds and private bytes of the server.
    pub(super) private: Vec<(f64, f64)>,
    /// Seconds and allocated bytes of the server; empty when it does not report them.
    pub(super) allocated: Vec<(f64, f64)>,
    /// Seconds and resident bytes of the generator.
    pub(super) generator: Vec<(f64, f64)>,
    /// Resident bytes of the settled server.
    pub(super) idle: Option<f64>,
    /// The server's peak above idle as text.
    pub(super) growth: String,
    /// Why the panel is empty, or what a reader must know before comparing it.
    pub(super) note: String,
    /// False when it must not be compared, so that its line is not coloured.
    pub(super) counts: bool,
}

impl PanelChart {
    /// Returns width and height in user units.
    pub(super) fn size(&self) -> (u32, u32) {
        let groups: i32 = self
            .groups
            .iter()
            .map(|group| GROUP_HEIGHT + PANELS.height_of(group.panels.len()))
            .sum();
        frame::size(groups + MARGIN)
    }

    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
    ) -> Result<(), DrawError> {
        frame::write_heading(area, ruler, &self.title, &self.subtitle)?;
        draw_legend(area, ruler)?;
        let mut top = HEAD_HEIGHT;
        for (at, group) in self.groups.iter().enumerate() {
            let colour = PALETTE[at % PALETTE.len()];
            write(
                area,
                ruler,
                &group.name,
                Lettering {
                    colour,
                    ..Lettering::new(15).bold()
                },
                (MARGIN, top + GROUP_HEIGHT / 2),
                None,
            )?;
            top += GROUP_HEIGHT;
            let height = group.height_axis();
            for (n, panel) in group.panels.iter().enumerate() {
                let (left, above) = PANELS.corner(n, top);
                let inner = PANELS.width() - 24;
                write(
                    area,
                    ruler,
                    &panel.name,
                    Lettering::new(13).bold(),
                    (left, above + 11),
                    Some(inner - 90),
                )?;
                let growth = Lettering::new(12).faint().right();
                write(
                    area,
                    ruler,
                    &panel.growth,
                    growth,
                    (left + inner, above + 11),
                    None,
                )?;
                let within = PANELS.plot(area, ruler, (left, above));
                let drawn = match &height {
                    Some(height) if !panel.private.is_empty() => {
                        panel.draw(&within, ruler, height, colour).map(|()| true)?
                    }
                    _ => false,
                };
                let note = Lettering::new(11).faint();
                if drawn {
                    write(
                        area,
                        ruler,
                        &panel.note,
                        note,
                        (left, above + 28),
                        Some(inner),
                    )?;
                } else {
                    write_lines(area, ruler, &panel.note, note, (left, above + 30), inner)?;
                }
            }
            top += PANELS.height_of(group.panels.len());
        }
        Ok(())
    }
}

impl PanelGroup {
    /// Returns the y axis that all panels of the group share, so that they can be compared by eye.
    fn height_axis(&self) -> Option<Axis> {
        let highest = self
            .panels
            .iter()
            .flat_map(|panel| {
                panel
                    .private
                    .iter()
                    .chain(&panel.allocated)
                    .chain(&panel.generator)
                    .map(|&(_, bytes)| bytes)
                    .chain(panel.idle)
            })
            .fold(0.0, f64::max);
        // With a single value the axis starts at zero.
        Axis::of([highest], Unit::of_size)
    }
}

impl Panel {
    fn draw<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        ruler: Ruler,
        height: &Axis,
        colour: RGBColor,
    ) -> Result<(), DrawError> {
        let last_ms = self.private.last().map_or(0.0, |&(s, _)| s * 1e3).max(1.0);
        let Some(time) = Axis::of([last_ms], Unit::of_time) else {
            return Ok(());
        };
        // The axis ends with the line and not at the next round number.
        let time = time.ending_at(last_ms);
        let below = (&time, &*time.title("time"));
        let surface = frame::draw_axes(area, ruler, AXIS_LABELS, below, height)?;
        let (across, up) = surface.get_pixel_range();
        let pixels = |range: Range<i32>, axis: &Axis| {
            f64::from(range.end - range.start) / f64::from(ruler.px(1)) / (axis.high - axis.low)
        };
        let scale = (pixels(across, &time), pixels(up, height));
        let line = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            let placed = points
                .iter()
                .map(|&(s, bytes)| (time.place(s * 1e3), height.place(bytes)));
            downsample(&placed.collect::<Vec<_>>(), scale)
        };
        let colour = if self.counts { colour } else { DISMISSED };
        let stroke = |colour: RGBColor, width| colour.stroke_width(ruler.upx(width));
        surface
            .draw(&PathElement::new(
                line(&self.generator),
                stroke(GENERATOR, 1),
            ))
            .map_err(failed)?;
        surface
            .draw(&PathElement::new(
                line(&self.allocated),
                stroke(ALLOCATED, 2),
            ))
            .map_err(failed)?;
        surface
            .draw(&PathElement::new(line(&self.private), stroke(colour, 2)))
            .map_err(failed)?;
        if let Some(idle) = self.idle {
            let y = height.place(idle);
            let dashes = [(time.low, y), (time.high, y)];
            surface
                .draw(&DashedPathElement::new(
                    dashes,
                    ruler.px(6),
                    ruler.px(4),
                    INK.stroke_width(ruler.upx(1)),
                ))
                .map_err(failed)?;
        }
        Ok(())
    }
}

const GENERATOR: RGBColor = RGBColor(0xAA, 0xAA, 0xAA);
/// The palette's yellow-orange, which is no target's colour as long as there are fewer than five.
const ALLOCATED: RGBColor = PALETTE[4];

fn draw_legend<DB: DrawingBackend>(area: &Area<DB>, ruler: Ruler) -> Result<(), DrawError> {
    let at = |x: i32| (ruler.px(x), ruler.px(LEGEND_AT));
    let entries = [
        (
            (Some(PALETTE[0]), 3),
            "server, private (in its target's colour)",
        ),
        ((Some(ALLOCATED), 3), "server, allocated"),
        ((Some(GENERATOR), 2), "generator, resident"),
        ((None, 1), "server, idle"),
    ];
    write_legend(
        area,
        ruler,
        (MARGIN, LEGEND_AT),
        26,
        entries,
        |(colour, width), x| {
            let ends = [at(x), at(x + 26)];
            match colour {
                Some(colour) => area.draw(&PathElement::new(
                    ends,
                    colour.stroke_width(ruler.upx(width)),
                )),
                None => area.draw(&DashedPathElement::new(
                    ends,
                    ruler.px(6),
                    ruler.px(4),
                    INK.stroke_width(ruler.upx(width)),
                )),
            }
            .map_err(failed)
        },
    )
}
