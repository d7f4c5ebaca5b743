//! Rate and latency of each load over time, with all targets in one panel.

use crate::page::side_by_side::Work;
use crate::quantity::{Quantity, Unit};
use crate::result::load_intervals::LoadInterval;

use super::over_time::{ends, time_axis};
use super::plot::{Look, Plot, PlotLine, Scale};
use super::{Material, TopicFigure, entry, list, panels, plain};

/// The least number of intervals that is a course of time.
const MIN_INTERVALS: usize = 3;

const PER_SECOND: Unit = Unit {
    name: "/s",
    size: 1.0,
};

/// Returns a panel for each load with intervals. The panels of a data set form one figure.
pub(super) fn figures(of: &Material<'_>) -> Vec<TopicFigure> {
    let data_sets = &of.result.report.data_sets;
    let figures = data_sets.iter().filter_map(|data_set| {
        let works = of.cases.of_data_set(&data_set.name).enumerate();
        let drawn = works.flat_map(|(n, work)| {
            let id = plain(&format!("load-{}-{n}", data_set.name));
            of_work(of, work, &id)
        });
        let mut figure = of.figure_of_data_set(data_set, panels(drawn))?;
        let marks = [
            ("dash", "dash", "the intended rate; the median latency"),
            ("cross", "line", "requests failed"),
        ];
        let marks = marks.map(|(mark, class, meaning)| entry(mark, class, "all", meaning));
        figure.legend += &list(marks.into_iter());
        Some(figure)
    });
    figures.collect()
}

/// Returns the panels of a case, each with its name and detail.
fn of_work(of: &Material<'_>, work: &Work<'_>, id: &str) -> Vec<(String, String, String)> {
    let mut loads: Vec<(&str, Vec<Line<'_>>)> = Vec::new();
    for (target, case) in work.present() {
        let case = case.id();
        let intervals = of.result.load_intervals.iter();
        for interval in intervals.filter(|interval| interval.case == case) {
            let at = loads.iter().position(|(load, _)| *load == interval.load);
            let at = at.unwrap_or_else(|| {
                loads.push((&interval.load, Vec::new()));
                loads.len() - 1
            });
            let lines = &mut loads[at].1;
            match lines.last_mut() {
                Some(line) if line.target == target => line.intervals.push(interval),
                _ => lines.push(Line {
                    target,
                    intervals: vec![interval],
                }),
            }
        }
    }
    let is_alone = loads.len() == 1;
    let panels = loads
        .into_iter()
        .enumerate()
        .filter_map(|(n, (load, lines))| {
            let name = match is_alone {
                true => work.name.clone(),
                false => format!("{}: {load}", work.name),
            };
            let body = panel(of, &name, lines, &format!("{id}-{n}"))?;
            Some((name, work.detail.clone(), body))
        });
    panels.collect()
}

/// The intervals of a load of one target.
struct Line<'a> {
    target: usize,
    intervals: Vec<&'a LoadInterval>,
}

impl Line<'_> {
    /// Returns whether an interval is not the short one after the last intended start, in which
    /// late responses arrive. A rate of that one would look like a fall.
    fn is_whole(&self, interval: &LoadInterval) -> bool {
        let first = self.intervals.first();
        first.is_some_and(|first| interval.seconds >= first.seconds / 2.0)
    }

    /// Returns a value of each interval that has it, in the middle of the interval, in ms.
    fn points(&self, look: Look, value: impl Fn(&LoadInterval) -> Option<f64>) -> PlotLine {
        let middle = |of: &LoadInterval| (of.elapsed_s - of.seconds / 2.0) * 1e3;
        let intervals = self.intervals.iter();
        PlotLine {
            target: self.target,
            points: intervals
                .filter_map(|interval| Some((middle(interval), value(interval)?)))
                .collect(),
            look,
        }
    }
}

/// Returns the requests or events per second of an interval.
fn rate(of: &LoadInterval) -> f64 {
    (of.answered + of.events) as f64 / of.seconds
}

fn panel(of: &Material<'_>, name: &str, mut lines: Vec<Line<'_>>, id: &str) -> Option<String> {
    lines.retain(|line| line.intervals.len() >= MIN_INTERVALS);
    let ends = lines.iter().filter_map(|line| line.intervals.last());
    let last_s = ends.map(|interval| interval.elapsed_s).fold(0.0, f64::max);
    let time = time_axis(last_s)?;
    let rates = lines.iter().flat_map(|line| {
        let failed = |of: &LoadInterval| (of.errors > 0).then(|| rate(of));
        [
            line.points(Look::Line, |of| line.is_whole(of).then(|| rate(of))),
            line.points(Look::Dashed, |of| {
                of.due
                    .filter(|_| line.is_whole(of))
                    .map(|due| due / of.seconds)
            }),
            line.points(Look::Crosses, failed),
        ]
    });
    let rates = plot(
        of,
        (
            format!("{id}-r"),
            format!("Requests per second over time: {name}"),
        ),
        &time,
        rates.collect(),
        Quantity::PerSecond,
        |_| PER_SECOND,
    )?;
    let times = lines.iter().flat_map(|line| {
        [
            line.points(Look::Line, |of| of.max_ms),
            line.points(Look::Dashed, |of| of.p50_ms),
        ]
    });
    // Watchers have no latencies while they run.
    let times = plot(
        of,
        (format!("{id}-l"), format!("Latency over time: {name}")),
        &time,
        times.collect(),
        Quantity::Milliseconds,
        Unit::of_time,
    );
    Some(rates + &times.unwrap_or_default())
}

/// Returns a chart of these lines; `None` where all values are 0 or missing. Its description has
/// the range of each solid line.
fn plot(
    of: &Material<'_>,
    (id, title): (String, String),
    time: &Scale,
    lines: Vec<PlotLine>,
    shown: fn(f64) -> Quantity,
    unit: impl Fn(f64) -> Unit,
) -> Option<String> {
    let values = lines.iter().flat_map(|line| &line.points);
    let y = Scale::of_values(values.map(|(_, value)| *value), unit)?;
    let described = lines.iter().filter(|line| line.look == Look::Line);
    let texts = described.filter_map(|line| {
        let (least, most) = ends(&line.points)?;
        let target = &of.cases.targets[line.target];
        Some(format!("{target}: {} to {}", shown(least), shown(most)))
    });
    let texts: Vec<String> = texts.collect();
    let plot = Plot {
        id,
        title,
        description: texts.join("; "),
        height: 84,
        x: time.clone(),
        y,
        lines,
        phases: Vec::new(),
        levels: Vec::new(),
    };
    Some(plot.svg())
}
