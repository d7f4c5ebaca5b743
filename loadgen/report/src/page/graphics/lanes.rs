//! Charts of marks along an axis: a group for each work, with a lane for each target and the number
//! at the right.
//!
//! Text is HTML and marks are SVG in percentages, so that a chart fits any window without shrinking
//! its text.

use std::fmt::Write as _;

use crate::charts::axis::Axis;
use crate::charts::rows::{ChartRow, Mark, MarkShape, RowChart};
use crate::page::markup::{escaped, tied};
use crate::page::side_by_side::SideBySide;

/// Number of shapes of the main mark, by which targets differ in addition to their colours.
pub(super) const SHAPES: usize = 4;
/// Number of colours of targets. If there are more targets, colours repeat.
pub(super) const COLOURS: usize = 6;

/// A chart of lanes.
pub(super) struct Lanes<'a> {
    /// The prefix of ids, which is unique in the page.
    pub(super) id: String,
    pub(super) axis: &'a Axis,
    /// The label of the axis, with its unit.
    pub(super) measure: String,
    /// A value at which a line is drawn through all lanes.
    pub(super) line_at: Option<f64>,
    /// A shaded band around that value.
    pub(super) band: Option<(f64, f64)>,
    pub(super) groups: Vec<LaneGroup>,
    /// Whether lanes show the names of their targets.
    pub(super) has_targets: bool,
}

/// The lanes of one work.
pub(super) struct LaneGroup {
    pub(super) name: String,
    pub(super) detail: String,
    pub(super) lanes: Vec<Lane>,
}

/// The marks of one target.
pub(super) struct Lane {
    pub(super) target: usize,
    pub(super) who: String,
    pub(super) marks: Vec<Mark>,
    pub(super) number: String,
    pub(super) number_detail: String,
    pub(super) note: String,
    /// False when the marks are not coloured, because the case does not count.
    pub(super) counts: bool,
}

/// Regroups the rows of a chart on the data set `data_set`, which are grouped by target, by work.
/// Works are named as in the tables.
pub(super) fn groups(chart: &RowChart, cases: &SideBySide<'_>, data_set: &str) -> Vec<LaneGroup> {
    let mut groups: Vec<(&str, LaneGroup)> = Vec::new();
    for of_target in &chart.groups {
        let mut targets = cases.targets.iter();
        let target = targets.position(|name| *name == of_target.target);
        for row in &of_target.rows {
            let lane = lane(row, target.unwrap_or_default(), &of_target.target);
            if let Some((_, group)) = groups.iter_mut().find(|(work, _)| *work == row.work) {
                group.lanes.push(lane);
                continue;
            }
            let mut works = cases.of_data_set(data_set);
            let work = works.find(|work| work.key() == row.work);
            let (name, detail) = work.map_or((&row.name, &row.detail), |it| (&it.name, &it.detail));
            groups.push((
                &row.work,
                LaneGroup {
                    name: name.clone(),
                    detail: detail.clone(),
                    lanes: vec![lane],
                },
            ));
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn lane(row: &ChartRow, target: usize, who: &str) -> Lane {
    Lane {
        target,
        who: who.to_owned(),
        marks: row.marks.clone(),
        number: row.number.clone(),
        number_detail: row.number_detail.clone(),
        note: row.note.clone(),
        counts: row.counts,
    }
}

impl Lanes<'_> {
    /// Returns the chart as HTML.
    pub(super) fn html(&self) -> String {
        let mut html = String::new();
        self.write(&mut html).expect("a string takes everything");
        html
    }

    fn write(&self, html: &mut String) -> std::fmt::Result {
        let kind = if self.has_targets {
            "lanes several"
        } else {
            "lanes"
        };
        write!(html, r#"<div class="{kind}">"#)?;
        for group in &self.groups {
            write!(
                html,
                r#"<div class="group"><p class="name">{}{}</p>"#,
                escaped(&group.name),
                small(&group.detail)
            )?;
            for lane in &group.lanes {
                self.lane(html, group, lane)?;
            }
            html.push_str("</div>");
        }
        self.axis(html)?;
        html.push_str("</div>\n");
        Ok(())
    }

    fn lane(&self, html: &mut String, group: &LaneGroup, lane: &Lane) -> std::fmt::Result {
        let class = match lane.counts {
            true => format!("t{}", lane.target % COLOURS),
            false => "dismissed".to_owned(),
        };
        write!(html, r#"<div class="lane {class}">"#)?;
        if self.has_targets {
            write!(html, r#"<span class="who">{}</span>"#, escaped(&lane.who))?;
        }
        if lane.marks.is_empty() {
            let note = if lane.note.is_empty() {
                "–"
            } else {
                &lane.note
            };
            write!(
                html,
                r#"<span class="note alone">{}</span></div>"#,
                escaped(note)
            )?;
            return Ok(());
        }
        // The title repeats the numbers, for readers who point at the marks.
        let title = [
            &*group.name,
            &*lane.who,
            &*lane.number,
            &*lane.number_detail,
        ];
        let title: Vec<&str> = title.into_iter().filter(|word| !word.is_empty()).collect();
        write!(
            html,
            r##"<svg class="marks" role="img"><title>{}</title><use href="#{}-grid"/>"##,
            escaped(&title.join(", ")),
            self.id
        )?;
        for mark in &lane.marks {
            self.mark(html, mark, lane.target)?;
        }
        write!(
            html,
            r#"</svg><span class="number">{}{}</span>"#,
            escaped(&tied(&lane.number)),
            small(&tied(&lane.number_detail))
        )?;
        if !lane.note.is_empty() {
            write!(html, r#"<span class="note">{}</span>"#, escaped(&lane.note))?;
        }
        html.push_str("</div>");
        Ok(())
    }

    fn mark(&self, html: &mut String, mark: &Mark, target: usize) -> std::fmt::Result {
        let (from, to) = (self.percent(mark.from), self.percent(mark.to));
        let reference = if mark.is_reference { " ref" } else { "" };
        let place = |html: &mut String, name: &str, class: &str| {
            write!(
                html,
                r##"<use href="#m-{name}" x="{to:.1}%" y="50%" class="{class}{reference}"/>"##
            )
        };
        match mark.shape {
            MarkShape::Bar if !self.axis.logarithmic => write!(
                html,
                r#"<rect y="50%" width="{to:.1}%" height="12" rx="1" class="fill bar{reference}"/>"#
            ),
            MarkShape::Bar | MarkShape::Disc => {
                place(html, &format!("disc{}", target % SHAPES), "fill")
            }
            MarkShape::Span => write!(
                html,
                r#"<rect x="{from:.1}%" y="50%" width="{:.1}%" height="4" class="span range"/>"#,
                (to - from).max(0.3)
            ),
            MarkShape::Ring => place(html, "ring", "ring"),
            MarkShape::Stroke => place(html, "stroke", "line"),
            MarkShape::Cross => place(html, "cross", "line"),
            MarkShape::Square => place(html, "square", "fill"),
            MarkShape::Range => {
                for end in [from, to] {
                    write!(
                        html,
                        r##"<use href="#m-end" x="{end:.1}%" y="50%" class="thin"/>"##
                    )?;
                }
                write!(
                    html,
                    r#"<line x1="{from:.1}%" x2="{to:.1}%" y1="50%" y2="50%" class="thin above"/>"#
                )
            }
        }
    }

    /// Returns the position on the axis of a value in the axis' base unit, in percent.
    fn percent(&self, value: f64) -> f64 {
        100.0 * self.axis.part(self.axis.place(value))
    }

    /// Writes the axis with its labels, and the grid lines that each lane repeats.
    fn axis(&self, html: &mut String) -> std::fmt::Result {
        write!(
            html,
            r#"<div class="axis"><svg height="34" aria-hidden="true"><defs><g id="{}-grid">"#,
            self.id
        )?;
        if let Some((from, to)) = self.band {
            let (from, to) = (self.percent(from), self.percent(to));
            write!(
                html,
                r#"<rect x="{from:.1}%" width="{:.1}%" height="100%" class="band"/>"#,
                to - from
            )?;
        }
        let at = |tick: f64| 100.0 * self.axis.part(tick);
        for tick in &self.axis.ticks {
            let x = at(*tick);
            write!(
                html,
                r#"<line x1="{x:.1}%" x2="{x:.1}%" y2="100%" class="grid"/>"#
            )?;
        }
        if let Some(value) = self.line_at {
            let x = self.percent(value);
            write!(
                html,
                r#"<line x1="{x:.1}%" x2="{x:.1}%" y2="100%" class="one"/>"#
            )?;
        }
        html.push_str("</g></defs>");
        for (n, tick) in self.axis.ticks.iter().enumerate() {
            let class = match is_minor(self.axis, n) {
                true => r#" class="minor""#,
                false => "",
            };
            let anchor = match at(*tick) {
                x if x < 2.0 => "start",
                x if x > 98.0 => "end",
                _ => "middle",
            };
            write!(
                html,
                r#"<text x="{:.1}%" y="12" text-anchor="{anchor}"{class}>{}</text>"#,
                at(*tick),
                Axis::label(*tick)
            )?;
        }
        write!(
            html,
            r#"<text x="50%" y="29" text-anchor="middle">{}</text></svg></div>"#,
            escaped(&self.measure)
        )
    }
}

/// Returns whether a tick's label may be hidden where there is little room.
pub(super) fn is_minor(axis: &Axis, n: usize) -> bool {
    if !axis.logarithmic {
        return n % 2 == 1;
    }
    let power = axis.ticks[n].log10();
    let is_of_ten = (power - power.round()).abs() < 1e-6;
    let tens = axis.ticks.iter().filter(|tick| {
        let power = tick.log10();
        (power - power.round()).abs() < 1e-6
    });
    // An axis within one decade keeps all labels.
    tens.count() > 1 && !is_of_ten
}

fn small(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!("<small>{}</small>", escaped(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::rows::Group;
    use crate::page::fixture;
    use crate::quantity::Unit;

    fn row(work: &str, ms: f64) -> ChartRow {
        ChartRow {
            work: format!("etcd/{work}"),
            name: work.to_owned(),
            detail: format!("of {ms}"),
            marks: vec![Mark::at(MarkShape::Disc, ms)],
            number: format!("{ms} ms"),
            counts: true,
            ..ChartRow::default()
        }
    }

    fn report() -> crate::result::Report {
        fixture::report(&[
            ("bench", "unary", 100.0),
            ("bench", "stream", 200.0),
            ("etcd", "stream", 400.0),
        ])
    }

    fn chart() -> RowChart {
        let group = |target: &str, rows| Group {
            target: target.to_owned(),
            name: target.to_owned(),
            rows,
        };
        RowChart {
            title: "Time".to_owned(),
            subtitle: String::new(),
            measure: "time",
            axis: Axis::of([100.0, 400.0], Unit::of_time).expect("there are values"),
            legend: Vec::new(),
            groups: vec![
                group("bench", vec![row("unary", 100.0), row("stream", 200.0)]),
                group("etcd", vec![row("stream", 400.0)]),
            ],
        }
    }

    #[test]
    fn targets_stand_beside_each_other_for_each_thing_done() {
        let report = report();
        let chart = chart();
        let groups = groups(&chart, &SideBySide::of(&report), "pods");
        let lanes: Vec<(&str, Vec<&str>)> = groups
            .iter()
            .map(|group| {
                let who = group.lanes.iter().map(|lane| lane.who.as_str());
                (group.name.as_str(), who.collect())
            })
            .collect();
        assert_eq!(
            lanes,
            [("unary", vec!["bench"]), ("stream", vec!["bench", "etcd"])]
        );
        assert_eq!(
            groups[1].detail, "",
            "as in the tables, not of either target"
        );
    }

    #[test]
    fn a_mark_is_where_its_value_is_in_hundredths_and_has_its_target_s_shape() {
        let chart = chart();
        let report = report();
        let lanes = Lanes {
            id: "time".to_owned(),
            axis: &chart.axis,
            measure: "time (ms)".to_owned(),
            line_at: None,
            band: None,
            groups: groups(&chart, &SideBySide::of(&report), "pods"),
            has_targets: true,
        };
        let html = lanes.html();
        assert!(
            html.contains(r##"<use href="#m-disc0" x="20.0%""##),
            "{html}"
        );
        assert!(
            html.contains(r##"<use href="#m-disc1" x="80.0%""##),
            "{html}"
        );
        assert!(
            html.contains("<title>stream, etcd, 400 ms</title>"),
            "{html}"
        );
    }

    #[test]
    fn on_a_long_logarithmic_axis_powers_of_ten_keep_their_labels() {
        let axis = Axis::of([1.0, 900.0], Unit::of_time).expect("there are values");
        let kept: Vec<f64> = (0..axis.ticks.len())
            .filter(|n| !is_minor(&axis, *n))
            .map(|n| axis.ticks[n])
            .collect();
        assert!(kept.len() >= 3 && kept.iter().all(|tick| tick.log10().fract().abs() < 1e-6));
    }
}
