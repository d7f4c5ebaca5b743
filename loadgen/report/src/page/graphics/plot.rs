//! Charts of lines over an axis, as SVG that fits any window. Lines are in a drawing that
//! stretches; text and marks are positioned in percentages and keep their size.

use std::fmt::Write as _;

use crate::charts::axis::Axis;
use crate::charts::downsample::downsample;
use crate::page::markup::escaped;
use crate::quantity::Unit;

use super::lanes::{COLOURS, SHAPES, is_minor};

/// The size of the stretched drawing in its own units, which is independent of its size in pixels.
const ACROSS: f64 = 960.0;
const DOWN: f64 = 240.0;
/// The width in pixels to which lines are downsampled, with at most two points per pixel: the width
/// of a panel on a desktop screen.
const PIXELS: f64 = 480.0;
/// The height above the plot area, for the label of the highest tick, and below it, for the labels
/// of the x axis.
const ABOVE: u32 = 16;
const BELOW: u32 = 20;
/// The least distance between two labels of the y axis, in pixels.
const BETWEEN_LABELS: f64 = 18.0;

/// One axis, in base units.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<Tick>,
}

#[derive(Debug, Clone)]
struct Tick {
    at: f64,
    label: String,
    /// Whether the label may be hidden where there is little room.
    is_minor: bool,
}

impl Scale {
    /// Returns the scale of a chart's axis, with the unit at the last tick.
    pub(super) fn of(axis: &Axis) -> Self {
        let last = axis.ticks.len().saturating_sub(1);
        let ticks = axis.ticks.iter().enumerate().map(|(n, tick)| Tick {
            at: tick * axis.unit.size,
            label: match n == last && !axis.unit.name.is_empty() {
                true => format!("{} {}", Axis::label(*tick), axis.unit.name),
                false => Axis::label(*tick),
            },
            is_minor: n != last && is_minor(axis, n),
        });
        Self {
            low: axis.low * axis.unit.size,
            high: axis.high * axis.unit.size,
            logarithmic: axis.logarithmic,
            ticks: ticks.collect(),
        }
    }

    /// Returns the scale for these values, linear from zero or logarithmic depending on their
    /// range; `None` where there is nothing to show.
    pub(super) fn of_values(
        values: impl IntoIterator<Item = f64>,
        unit: impl Fn(f64) -> Unit,
    ) -> Option<Self> {
        let axis = Axis::of(values, &unit)?;
        let mut scale = Self::of(&axis);
        if scale.logarithmic {
            // The axis spans decades, which have different units.
            for tick in &mut scale.ticks {
                let unit = unit(tick.at);
                tick.label = format!("{} {}", Axis::label(tick.at / unit.size), unit.name);
            }
        }
        Some(scale)
    }

    /// Returns a logarithmic scale with a tick at each of these values.
    pub(super) fn through(values: &[f64], label: impl Fn(f64) -> String) -> Option<Self> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) = (*values.first()?, *values.last()?);
        (low > 0.0 && high > low).then(|| Self {
            low,
            high,
            logarithmic: true,
            ticks: values
                .into_iter()
                .map(|at| Tick {
                    at,
                    label: label(at),
                    is_minor: false,
                })
                .collect(),
        })
    }

    /// Returns a linear scale with these ticks.
    pub(super) fn linear(low: f64, high: f64, ticks: &[(f64, &str)]) -> Self {
        let within = ticks.iter().filter(|(at, _)| (low..=high).contains(at));
        Self {
            low,
            high,
            logarithmic: false,
            ticks: within
                .map(|(at, label)| Tick {
                    at: *at,
                    label: (*label).to_owned(),
                    is_minor: false,
                })
                .collect(),
        }
    }

    /// Returns the position of a value on the axis: 0 at its beginning, 1 at its end.
    fn part(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        match self.logarithmic {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }
}

/// A chart of lines.
pub(super) struct Plot {
    /// An id that is unique in the page.
    pub(super) id: String,
    /// The title and the description of the content, for readers who cannot see the chart.
    pub(super) title: String,
    pub(super) description: String,
    /// Height of the part between the axes, in pixels.
    pub(super) height: u32,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) lines: Vec<PlotLine>,
    /// Ticks at the bottom, each at a target's x value, where a phase of its case ends.
    pub(super) phases: Vec<(usize, f64)>,
    /// Dashed horizontal lines, each at a target's y value.
    pub(super) levels: Vec<(usize, f64)>,
}

/// A line of a target, or a set of marks.
pub(super) struct PlotLine {
    pub(super) target: usize,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) look: Look,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// A solid line.
    Line,
    /// A thin, dashed line.
    Dashed,
    /// A line with the target's mark at each point.
    Marked,
    /// Only the target's marks, filled.
    Marks,
    /// Only rings.
    Rings,
    /// Only crosses.
    Crosses,
}

impl Plot {
    /// Returns the chart as SVG.
    pub(super) fn svg(&self) -> String {
        let mut svg = String::new();
        self.write(&mut svg).expect("a string takes everything");
        svg
    }

    fn write(&self, svg: &mut String) -> std::fmt::Result {
        let Self {
            id, height: inner, ..
        } = self;
        let height = inner + ABOVE + BELOW;
        write!(
            svg,
            r#"<svg class="plot" height="{height}" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc><svg y="{ABOVE}" height="{inner}">"#,
            escaped(&self.title),
            escaped(&self.description)
        )?;
        for tick in &self.x.ticks {
            let x = 100.0 * self.x.part(tick.at);
            write!(
                svg,
                r#"<line x1="{x:.1}%" x2="{x:.1}%" y2="100%" class="grid"/>"#
            )?;
        }
        for tick in &self.y.ticks {
            let y = self.down(tick.at);
            write!(
                svg,
                r#"<line x2="100%" y1="{y:.1}%" y2="{y:.1}%" class="grid"/>"#
            )?;
        }
        for (target, at) in &self.levels {
            let y = self.down(*at);
            write!(
                svg,
                r#"<line x2="100%" y1="{y:.1}%" y2="{y:.1}%" class="level t{}"/>"#,
                target % COLOURS
            )?;
        }
        self.paths(svg)?;
        self.marks(svg)?;
        for (target, at) in &self.phases {
            let x = 100.0 * self.x.part(*at);
            // Each target's ticks have their own row, so that none hides another's.
            let bottom = f64::from(*inner) - 6.0 * (target % COLOURS) as f64;
            write!(
                svg,
                r#"<line x1="{x:.1}%" x2="{x:.1}%" y1="{:.0}" y2="{bottom:.0}" class="line t{}"/>"#,
                bottom - 5.0,
                target % COLOURS
            )?;
        }
        // Labels are drawn over the lines, with a rim that keeps them legible. From the top, as
        // many are drawn as there is room for.
        let mut free_above = f64::INFINITY;
        for tick in self.y.ticks.iter().rev() {
            let part = self.y.part(tick.at);
            if part * f64::from(*inner) > free_above - BETWEEN_LABELS {
                continue;
            }
            free_above = part * f64::from(*inner);
            write!(
                svg,
                r#"<text y="{:.1}%" dy="-3">{}</text>"#,
                self.down(tick.at),
                escaped(&tick.label)
            )?;
        }
        svg.push_str("</svg>");
        for tick in &self.x.ticks {
            let x = 100.0 * self.x.part(tick.at);
            let anchor = match x {
                x if x < 3.0 => "start",
                x if x > 97.0 => "end",
                _ => "middle",
            };
            let minor = if tick.is_minor {
                r#" class="minor""#
            } else {
                ""
            };
            write!(
                svg,
                r#"<text x="{x:.1}%" y="{}" text-anchor="{anchor}"{minor}>{}</text>"#,
                height - 5,
                escaped(&tick.label)
            )?;
        }
        svg.push_str("</svg>\n");
        Ok(())
    }

    /// Returns the vertical position of a value, in percent from the top.
    fn down(&self, y: f64) -> f64 {
        100.0 * (1.0 - self.y.part(y))
    }

    fn paths(&self, svg: &mut String) -> std::fmt::Result {
        write!(
            svg,
            r#"<svg viewBox="0 0 {ACROSS} {DOWN}" preserveAspectRatio="none">"#
        )?;
        for line in &self.lines {
            let class = match line.look {
                Look::Line | Look::Marked => "path",
                Look::Dashed => "path dashed",
                Look::Marks | Look::Rings | Look::Crosses => continue,
            };
            let placed = line.points.iter().map(|(x, y)| {
                let (x, y) = (self.x.part(*x), 1.0 - self.y.part(*y));
                (x * ACROSS, y * DOWN)
            });
            let placed: Vec<(f64, f64)> = placed.collect();
            let scale = (PIXELS / ACROSS, f64::from(self.height) / DOWN);
            write!(
                svg,
                r#"<path class="{class} t{}" d="{}"/>"#,
                line.target % COLOURS,
                path(&downsample(&placed, scale))
            )?;
        }
        svg.push_str("</svg>");
        Ok(())
    }

    fn marks(&self, svg: &mut String) -> std::fmt::Result {
        for line in &self.lines {
            let (shape, class) = match line.look {
                Look::Line | Look::Dashed => continue,
                Look::Marked | Look::Marks => (format!("disc{}", line.target % SHAPES), "fill"),
                Look::Rings => ("ring".to_owned(), "ring"),
                Look::Crosses => ("cross".to_owned(), "line"),
            };
            for (x, y) in &line.points {
                write!(
                    svg,
                    r##"<use href="#m-{shape}" x="{:.1}%" y="{:.1}%" class="{class} t{}"/>"##,
                    100.0 * self.x.part(*x),
                    self.down(*y),
                    line.target % COLOURS
                )?;
            }
        }
        Ok(())
    }
}

/// Returns the path of a line through points in SVG's syntax: integers, each point relative to the
/// previous one.
fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    let mut before = (0, 0);
    for (n, (x, y)) in points.iter().enumerate() {
        let at = (x.round() as i32, y.round() as i32);
        if n == 0 {
            path.push_str(&format!("M{} {}l", at.0, at.1));
        } else if at != before {
            let (dx, dy) = (at.0 - before.0, at.1 - before.1);
            // A minus sign separates numbers as well as a space does.
            let space = |n: i32| if n < 0 { "" } else { " " };
            path.push_str(&format!("{}{dx}{}{dy}", space(dx), space(dy)));
        }
        before = at;
    }
    // A command letter needs numbers.
    path.trim_end_matches('l').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_from_point_to_point_and_never_stands_still() {
        let points = [(0.0, 10.0), (5.0, 10.0), (5.1, 10.2), (9.0, 3.0)];
        assert_eq!(path(&points), "M0 10l 5 0 4-7");
        assert_eq!(path(&points[..1]), "M0 10");
        assert_eq!(path(&[]), "");
    }

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        Plot {
            id: "p".to_owned(),
            title: "Memory <of> one".to_owned(),
            description: "flat".to_owned(),
            height: 120,
            x: Scale::linear(0.0, 10.0, &[(0.0, "0"), (10.0, "10 s")]),
            y: Scale::linear(0.0, 100.0, &[(0.0, "0"), (100.0, "100 MiB")]),
            lines: vec![PlotLine {
                target: 1,
                points,
                look: Look::Line,
            }],
            phases: vec![(1, 5.0)],
            levels: vec![(1, 50.0)],
        }
    }

    #[test]
    fn a_long_series_is_at_most_a_thousand_points() {
        let noise = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) >> 24) / 2.56;
        let points = (0..100_000).map(|n| (f64::from(n) / 1e4, noise(n)));
        let svg = plot(points.collect()).svg();
        let from = svg.find(" d=\"M").expect("a path");
        let path = &svg[from..from + svg[from + 4..].find('"').expect("its end")];
        let numbers = path.split([' ', '-', 'l', 'M']).filter(|it| !it.is_empty());
        assert!(numbers.count() / 2 <= 1_000, "{} bytes", path.len());
        assert!(svg.len() < 12_000, "{} bytes", svg.len());
    }

    #[test]
    fn it_says_what_it_shows_and_keeps_what_others_wrote_apart() {
        let svg = plot(vec![(0.0, 1.0), (10.0, 99.0)]).svg();
        assert!(
            svg.contains(r#"role="img" aria-labelledby="p-t p-d""#),
            "{svg}"
        );
        assert!(
            svg.contains("<title id=\"p-t\">Memory &lt;of&gt; one</title>"),
            "{svg}"
        );
        assert!(svg.contains(r#"class="path t1""#) && svg.contains(r#"class="level t1""#));
    }

    #[test]
    fn ticks_of_decades_have_units_of_their_own() {
        let labels = |values: [f64; 2]| -> Vec<String> {
            let scale = Scale::of_values(values, Unit::of_time).expect("there are values");
            scale.ticks.into_iter().map(|tick| tick.label).collect()
        };
        let decades = labels([0.4, 9_000.0]);
        assert!(decades.contains(&"1 s".to_owned()) && decades.contains(&"100 ms".to_owned()));
        assert_eq!(labels([20.0, 49.0]), ["0", "10", "20", "30", "40", "50 ms"]);
    }

    #[test]
    fn an_axis_through_one_value_is_none() {
        assert!(Scale::through(&[5.0, 5.0], |at| at.to_string()).is_none());
        let scale = Scale::through(&[1_000.0, 10.0], |at| at.to_string()).expect("two values");
        assert!((scale.part(100.0) - 0.5).abs() < 1e-9);
    }
}
