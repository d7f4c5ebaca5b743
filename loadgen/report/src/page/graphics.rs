//! The charts of the page, topic by topic.
//!
//! - `lanes`: marks along an axis, with the targets next to each other; `plot`: lines over an axis
//! - `ratios`: ratios of targets to the first one; `over_time`: memory and CPU; `load_intervals`:
//!   rate and latency of loads over time; `spectrum`: quantiles; `size`: cost against the number of
//!   objects; `rate`: latency against the rate; `workers`: cost against the number of workers

mod lanes;
mod load_intervals;
mod over_time;
mod plot;
mod rate;
mod ratios;
mod size;
mod spectrum;
mod workers;

use serde::Serialize;

use crate::charts::rows::{MarkShape, RowChart};
use crate::charts::{Chart, Drawing};
use crate::result::{DataSet, SavedResult};

use super::markup::escaped;
use super::pairs::Pairs;
use super::side_by_side::SideBySide;

use lanes::{Lanes, SHAPES};

/// One topic of the page.
#[derive(Debug, Serialize)]
pub(super) struct Topic {
    id: &'static str,
    title: &'static str,
    about: &'static str,
    figures: Vec<TopicFigure>,
}

/// One chart, or several small ones that belong together.
#[derive(Debug, Serialize)]
struct TopicFigure {
    /// The title above it; empty where the topic's title suffices.
    title: String,
    caption: String,
    /// The legend of marks and colours, as HTML.
    legend: String,
    /// The charts, as HTML and SVG.
    body: String,
}

/// The input of all charts.
struct Material<'a> {
    result: &'a SavedResult,
    cases: &'a SideBySide<'a>,
    pairs: &'a Pairs,
    charts: &'a [Chart],
}

/// Returns the topics for which the result has charts, in the order of the page.
pub(super) fn topics(
    result: &SavedResult,
    cases: &SideBySide<'_>,
    pairs: &Pairs,
    charts: &[Chart],
) -> Vec<Topic> {
    let of = Material {
        result,
        cases,
        pairs,
        charts,
    };
    let mut topics = all_topics(&of);
    topics.retain(|topic| !topic.figures.is_empty());
    for topic in &mut topics {
        // A single chart needs no title in addition to the topic's.
        if let [figure] = topic.figures.as_mut_slice() {
            figure.title.clear();
        }
    }
    topics
}

/// Returns every topic of the page with its charts, of which there may be none.
fn all_topics(of: &Material<'_>) -> Vec<Topic> {
    let mut rates: Vec<TopicFigure> = rate::against_latency(of).into_iter().collect();
    rates.extend(rate::searches(of));
    rates.extend(of.charts("open-loop"));
    let mut workers = workers::figures(of);
    workers.retain(|figure| !figure.body.is_empty());
    vec![
        Topic {
            id: "ratios",
            title: "Ratios",
            about: "Each target over the first one, on a logarithmic axis: left of 1 it needs less, right of 1 more.",
            figures: ratios::figures(of),
        },
        Topic {
            id: "time",
            title: "Time",
            about: "",
            figures: of.charts("latency"),
        },
        Topic {
            id: "networks",
            title: "Strategies on each network",
            about: "Lists over an emulated network: each strategy over the first one on the same network, since the network alone makes up most of the time. Left of 1 it is faster.",
            figures: of.charts("networks"),
        },
        Topic {
            id: "memory",
            title: "Memory",
            about: "Private memory of the server above what it held at rest, at its peak. Heap that the warm-up left behind is in it, pages of mapped files (etcd's database) are a mark of their own.",
            figures: of.charts("peak"),
        },
        Topic {
            id: "cpu",
            title: "CPU",
            about: "User and system time of the server and of the generator for each list or request.",
            figures: of.charts("cpu"),
        },
        Topic {
            id: "first-chunk",
            title: "First chunk against the whole list",
            about: "How long a reader waits for the first object: lists that were cancelled right after it, and the whole list.",
            figures: of.charts("first-chunk"),
        },
        Topic {
            id: "spectrum",
            title: "Quantiles",
            about: "Every quantile that the sample carries, of cases with at least a hundred requests: a line that stays low to the right is one without a tail.",
            figures: spectrum::figures(of),
        },
        Topic {
            id: "over-time",
            title: "Memory and CPU over time",
            about: "From the beginning of the measured phase. Above: private memory of the server, its dashed line what it held at rest. Below: the cores that it used. Ticks at the foot: where a round of lists, or a load, ends.",
            figures: over_time::figures(of),
        },
        Topic {
            id: "loads-over-time",
            title: "Loads over time",
            about: "Each second of a load, or each few of a long one. Above: the requests that were answered, or the events that were delivered. Below: the longest latency of the interval. Latencies are rounded up to the next of twenty steps for each power of ten.",
            figures: load_intervals::figures(of),
        },
        Topic {
            id: "size",
            title: "Cost against size",
            about: "The same work on more and more objects of one size; their number is on a logarithmic axis.",
            figures: size::figures(of),
        },
        Topic {
            id: "rate",
            title: "Latency against rate",
            about: "Requests on a schedule. Latency counts from the intended start of a request, so that waiting for a slow server is part of it.",
            figures: rates,
        },
        Topic {
            id: "workers",
            title: "Cost against workers",
            about: "The same objects between more and more workers.",
            figures: workers,
        },
    ]
}

/// Returns the chart of thresholds of each data set, as HTML with its legend.
pub(super) fn thresholds(charts: &[Chart], cases: &SideBySide<'_>) -> Vec<String> {
    let bars = charts.iter().filter(|chart| chart.kind == "bars");
    let row_charts = bars.filter_map(|chart| match &chart.drawing {
        Drawing::Rows(rows) => Some((chart, rows)),
        _ => None,
    });
    row_charts
        .map(|(chart, rows)| {
            let (legend, body) = lanes_of(chart, rows, cases);
            format!("{legend}{body}")
        })
        .collect()
}

impl Material<'_> {
    /// Returns the charts of a kind that consist of marks along an axis, one for each data set.
    fn charts(&self, kind: &str) -> Vec<TopicFigure> {
        let of_kind = self.charts.iter().filter(|chart| chart.kind == kind);
        let figures = of_kind.filter_map(|chart| {
            let Drawing::Rows(rows) = &chart.drawing else {
                return None;
            };
            let (legend, body) = lanes_of(chart, rows, self.cases);
            Some(TopicFigure {
                title: self.title(&chart.data_set, &rows.title),
                caption: sentence(&rows.subtitle),
                legend,
                body,
            })
        });
        figures.collect()
    }

    /// Returns the figure with one data set's panels, titled if there are several data sets; `None`
    /// without panels.
    fn figure_of_data_set(&self, data_set: &DataSet, body: String) -> Option<TopicFigure> {
        let title = match self.result.report.data_sets.len() {
            1 => String::new(),
            _ => data_set.name.clone(),
        };
        (!body.is_empty()).then(|| TopicFigure {
            title,
            caption: String::new(),
            legend: self.legend(),
            body,
        })
    }

    /// Returns a figure's title, with the data set where there are several.
    fn title(&self, data_set: &str, of: &str) -> String {
        match self.result.report.data_sets.len() {
            0 | 1 => of.to_owned(),
            _ => format!("{of}: {data_set}"),
        }
    }

    /// Returns the legend of the targets' colours and shapes, where there are several.
    fn legend(&self) -> String {
        let targets = self.cases.targets.iter().enumerate();
        let entries = targets.map(|(at, target)| {
            entry(&format!("disc{}", at % SHAPES), "fill", &colour(at), target)
        });
        match self.cases.targets.len() {
            0 | 1 => String::new(),
            _ => list(entries),
        }
    }
}

/// Returns a chart of marks with its legend, as HTML.
fn lanes_of(chart: &Chart, rows: &RowChart, cases: &SideBySide<'_>) -> (String, String) {
    let has_targets = rows.groups.len() > 1;
    // Marks in the legend that apply to every target have a neutral colour.
    let class = if has_targets { "all" } else { "t0" };
    let mut groups = lanes::groups(rows, cases, &chart.data_set);
    if chart.kind == "bars" {
        groups.iter_mut().for_each(name_by_threshold);
    }
    let entries = rows.legend.iter().map(|(shape, meaning)| {
        let (name, mark) = match shape {
            MarkShape::Bar if !rows.axis.logarithmic => ("bar", "fill"),
            MarkShape::Bar | MarkShape::Disc => ("disc0", "fill"),
            MarkShape::Span => ("span", "span"),
            MarkShape::Ring => ("ring", "ring"),
            MarkShape::Stroke => ("stroke", "line"),
            MarkShape::Cross => ("cross", "line"),
            MarkShape::Square => ("square", "fill"),
            MarkShape::Range => ("range", "thin"),
        };
        entry(name, mark, class, meaning)
    });
    let lanes = Lanes {
        id: plain(&chart.name),
        axis: &rows.axis,
        measure: rows.axis.title(rows.measure),
        line_at: rows.axis.unit.name.starts_with("× the").then_some(1.0),
        band: None,
        groups,
        has_targets,
    };
    (list(entries), lanes.html())
}

/// Uses a threshold's name as the name of its lane, and removes the range from its value, since the
/// table contains it.
fn name_by_threshold(group: &mut lanes::LaneGroup) {
    let Some(lane) = group.lanes.first_mut() else {
        return;
    };
    group.detail = format!("{}, {}", group.name, group.detail);
    group.name = std::mem::take(&mut lane.note);
    if let Some((figure, rest)) = lane.number.split_once(" (") {
        let behind = rest.split_once(')').map_or("", |(_, behind)| behind);
        lane.number = format!("{figure}{behind}");
    }
}

/// Returns the colour of a target.
fn colour(target: usize) -> String {
    format!("t{}", target % lanes::COLOURS)
}

/// One entry of a legend.
fn entry(mark: &str, class: &str, colour: &str, meaning: &str) -> String {
    format!(
        r##"<li class="{colour}"><svg width="26" height="16" aria-hidden="true"><use href="#m-{mark}" x="13" y="8" class="{class}"/></svg>{}</li>"##,
        escaped(meaning)
    )
}

fn list(entries: impl Iterator<Item = String>) -> String {
    let entries: Vec<String> = entries.collect();
    format!("<ul class=\"legend\">{}</ul>", entries.concat())
}

/// Returns small charts side by side, each below its name.
fn panels(panels: impl IntoIterator<Item = (String, String, String)>) -> String {
    let panels = panels.into_iter().map(|(name, detail, body)| {
        let detail = match detail.is_empty() {
            true => String::new(),
            false => format!("<small>{}</small>", escaped(&detail)),
        };
        format!(
            "<div class=\"panel\"><p class=\"name\">{}{detail}</p>{body}</div>\n",
            escaped(&name)
        )
    });
    let panels: Vec<String> = panels.collect();
    match panels.is_empty() {
        true => String::new(),
        false => format!("<div class=\"panels\">{}</div>", panels.concat()),
    }
}

/// Returns a name as a part of an id, with only characters that never need escaping.
fn plain(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    name.chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect()
}

/// Returns a subtitle as a sentence, without the data set, which the page's headings contain.
fn sentence(subtitle: &str) -> String {
    let rest = subtitle
        .split_once(" · ")
        .map_or(subtitle, |(_, rest)| rest);
    let mut letters = rest.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}
