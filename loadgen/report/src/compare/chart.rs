//! A chart of the ratios and their intervals: a dot plot on a logarithmic axis with one line for
//! each deciding metric. The SVG is self-contained and follows the reader's colour scheme.

use std::fmt::Write as _;

use super::{Comparison, Line, Verdict, wording};
use crate::page::markup::escaped;

const WIDTH: f64 = 900.0;
/// The x coordinates at which the axis begins and ends.
const PLOT: (f64, f64) = (190.0, 620.0);
const ROW: f64 = 20.0;
const TOP: f64 = 46.0;
const BELOW: f64 = 34.0;
/// The maximal number of lines in a chart.
const MAX_LINES: usize = 100;
/// Ratios beyond these limits are drawn at the edge.
const LIMITS: (f64, f64) = (1e-4, 1e4);
/// The least distance between two labels of the axis, in pixels.
const BETWEEN_TICKS: f64 = 44.0;
/// The candidates for labels of the axis, the most important first.
const TICKS: [f64; 25] = [
    1.0, 0.1, 10.0, 0.01, 100.0, 0.001, 1_000.0, 0.5, 2.0, 0.2, 5.0, 0.02, 50.0, 0.05, 20.0, 0.8,
    1.25, 0.9, 1.1, 1.5, 0.7, 0.95, 1.05, 0.98, 1.02,
];
/// The style sheet. Its blue and vermilion are those of Okabe and Ito, which colour-blind readers
/// can distinguish, and the verdicts also differ by shape.
const STYLE: &str = "\
svg { color-scheme: light dark; --ink: #1f2328; --soft: #57606a; --line: #d0d7de; --band: #eaeef2; \
--better: #0072b2; --worse: #b34700; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --soft: #9da7b3; --line: #3d444d; \
--band: #21262d; --better: #56b4e9; --worse: #ff8c42; --paper: #0d1117; } }
.paper { fill: var(--paper); }
text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.soft { fill: var(--soft); }
.title { font-weight: 600; font-size: 13px; }
.case { font-weight: 600; }
.grid { stroke: var(--line); }
.one { stroke: var(--soft); }
.band { fill: var(--band); }
.better { stroke: var(--better); fill: var(--better); }
.worse { stroke: var(--worse); fill: var(--worse); }
.same { stroke: var(--soft); fill: var(--soft); }
.open { stroke: var(--soft); fill: var(--paper); }
";

/// Returns the chart as an SVG document. Without anything to draw, the document says so.
#[must_use]
pub fn svg(comparison: &Comparison) -> String {
    let lines: Vec<&Line> = comparison
        .deciding()
        .filter(|line| line.estimate.is_some())
        .take(MAX_LINES)
        .collect();
    let chart = Chart {
        axis: Axis::of(&lines),
        has_targets: comparison.has_several_targets(),
        lines,
    };
    let mut svg = String::new();
    chart
        .draw(&wording::headline(comparison), &mut svg)
        .expect("a string takes everything");
    svg
}

struct Chart<'a> {
    axis: Axis,
    has_targets: bool,
    lines: Vec<&'a Line>,
}

impl Chart<'_> {
    fn draw(&self, headline: &str, svg: &mut String) -> std::fmt::Result {
        let groups = self.groups();
        let rows = self.lines.len() + groups.len();
        let bottom = TOP + ROW * rows as f64;
        let height = bottom + BELOW;
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="title description">"#
        )?;
        writeln!(svg, r#"<title id="title">{}</title>"#, escaped(headline))?;
        writeln!(
            svg,
            r#"<desc id="description">{}</desc>"#,
            escaped(&self.description())
        )?;
        writeln!(svg, "<style>{STYLE}</style>")?;
        writeln!(
            svg,
            r#"<rect class="paper" width="{WIDTH}" height="{height}"/>"#
        )?;
        text(svg, "title", 10.0, 20.0, "start", headline)?;
        let mut y = TOP;
        let mut bands = String::new();
        let mut marks = String::new();
        for (name, lines) in groups {
            text(&mut marks, "case", 10.0, y + 14.0, "start", &name)?;
            y += ROW;
            for line in lines {
                self.line(line, y, &mut bands, &mut marks)?;
                y += ROW;
            }
        }
        svg.push_str(&bands);
        self.ticks(svg, bottom)?;
        svg.push_str(&marks);
        writeln!(svg, "</svg>")
    }

    /// Groups adjacent lines of the same case, under the case's name.
    fn groups(&self) -> Vec<(String, Vec<&Line>)> {
        let mut groups: Vec<(String, Vec<&Line>)> = Vec::new();
        for line in &self.lines {
            let name = match self.has_targets {
                true => format!("{}: {}", wording::targets(line), line.case),
                false => line.case.clone(),
            };
            match groups.last_mut() {
                Some((last, lines)) if *last == name => lines.push(line),
                _ => groups.push((name, vec![line])),
            }
        }
        groups
    }

    fn line(
        &self,
        line: &Line,
        y: f64,
        bands: &mut String,
        marks: &mut String,
    ) -> std::fmt::Result {
        let Some(estimate) = &line.estimate else {
            return Ok(());
        };
        let most = 1.0 + line.margin;
        let (left, right) = (self.axis.x(1.0 / most), self.axis.x(most));
        writeln!(
            bands,
            r#"<rect class="band" x="{left:.1}" y="{y:.1}" width="{:.1}" height="{ROW}"/>"#,
            right - left
        )?;
        let middle = y + ROW / 2.0;
        let class = match line.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifference => "same",
            Verdict::CannotTell(_) => "open",
        };
        text(
            marks,
            "soft",
            26.0,
            y + 14.0,
            "start",
            &line.metric.to_string(),
        )?;
        if let Some(interval) = estimate.interval {
            let (from, to) = (self.axis.x(interval.lower), self.axis.x(interval.upper));
            writeln!(
                marks,
                r#"<path class="{class}" stroke-width="2" d="M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v8M{to:.1} {:.1}v8"/>"#,
                middle - 4.0,
                middle - 4.0
            )?;
        }
        let x = self.axis.x(estimate.ratio);
        let shape = match line.verdict {
            Verdict::Worse => format!("M{:.1} {:.1}l5 -9l5 9z", x - 5.0, middle + 4.0),
            Verdict::Better => format!("M{:.1} {:.1}l5 9l5 -9z", x - 5.0, middle - 4.0),
            _ => format!("M{:.1} {middle:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0),
        };
        writeln!(
            marks,
            r#"<path class="{class}" stroke-width="1.5" d="{shape}"/>"#
        )?;
        let verdict = verdict_text(line);
        text(marks, "", PLOT.1 + 14.0, y + 14.0, "start", &verdict)
    }

    fn ticks(&self, svg: &mut String, bottom: f64) -> std::fmt::Result {
        for tick in self.axis.ticks() {
            let x = self.axis.x(tick);
            let class = if tick == 1.0 { "one" } else { "grid" };
            writeln!(
                svg,
                r#"<path class="{class}" d="M{x:.1} {:.1}V{bottom:.1}"/>"#,
                TOP - 4.0
            )?;
            let label = format!("{tick} ×");
            text(svg, "soft", x, bottom + 15.0, "middle", &label)?;
        }
        let middle = f64::midpoint(PLOT.0, PLOT.1);
        let label = "new / base; the band is the margin";
        text(svg, "soft", middle, bottom + 30.0, "middle", label)
    }

    /// Returns the chart's content as text, for readers who cannot see it.
    fn description(&self) -> String {
        let lines = self.lines.iter().map(|line| {
            let Line { case, metric, .. } = line;
            format!("{case} {metric}: {}", verdict_text(line))
        });
        let lines: Vec<String> = lines.collect();
        match lines.is_empty() {
            true => "Nothing to draw.".to_owned(),
            false => format!("Ratios of new to base. {}.", lines.join("; ")),
        }
    }
}

/// Returns the ratio and the verdict as text.
fn verdict_text(line: &Line) -> String {
    let ratio = line
        .estimate
        .as_ref()
        .map_or_else(String::new, wording::ratio);
    let (sign, name) = (line.verdict.sign(), line.verdict.name().to_lowercase());
    format!("{ratio} {sign} {name}")
}

/// The logarithmic axis of ratios.
struct Axis {
    lower: f64,
    upper: f64,
}

impl Axis {
    /// Returns an axis that contains all intervals, and 1 with a margin on both sides.
    fn of(lines: &[&Line]) -> Self {
        let ends = lines.iter().filter_map(|line| {
            let estimate = line.estimate.as_ref()?;
            let interval = estimate.interval;
            Some(interval.map_or((estimate.ratio, estimate.ratio), |it| (it.lower, it.upper)))
        });
        let (lower, upper) = ends.fold((0.87_f64, 1.15_f64), |(lower, upper), ends| {
            (lower.min(ends.0), upper.max(ends.1))
        });
        Self {
            lower: (lower * 0.97).max(LIMITS.0),
            upper: (upper * 1.03).min(LIMITS.1),
        }
    }

    fn x(&self, ratio: f64) -> f64 {
        let ratio = ratio.clamp(self.lower, self.upper);
        let part = (ratio / self.lower).ln() / (self.upper / self.lower).ln();
        PLOT.0 + part * (PLOT.1 - PLOT.0)
    }

    /// Returns the values that are labelled: as many as there is room for.
    fn ticks(&self) -> Vec<f64> {
        let mut taken: Vec<f64> = Vec::new();
        for tick in TICKS {
            let is_inside = tick >= self.lower && tick <= self.upper;
            let x = self.x(tick);
            let is_free = taken
                .iter()
                .all(|taken| (self.x(*taken) - x).abs() >= BETWEEN_TICKS);
            if is_inside && is_free {
                taken.push(tick);
            }
        }
        taken.sort_by(f64::total_cmp);
        taken
    }
}

fn text(
    svg: &mut String,
    class: &str,
    x: f64,
    y: f64,
    anchor: &str,
    words: &str,
) -> std::fmt::Result {
    writeln!(
        svg,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
        escaped(words)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_room_for_its_labels_and_always_one_at_1() {
        for (lower, upper) in [(0.9, 1.1), (0.5, 3.0), (1e-4, 1.2), (1e-4, 1e4)] {
            let axis = Axis { lower, upper };
            let ticks = axis.ticks();
            assert!(ticks.contains(&1.0), "{ticks:?}");
            assert!(ticks.len() >= 3, "{lower} to {upper}: {ticks:?}");
            let close = ticks
                .windows(2)
                .any(|pair| axis.x(pair[1]) - axis.x(pair[0]) < BETWEEN_TICKS);
            assert!(!close, "{ticks:?}");
        }
        let outside = Axis {
            lower: 0.5,
            upper: 2.0,
        };
        assert_eq!((outside.x(0.01), outside.x(99.0)), PLOT);
    }
}
