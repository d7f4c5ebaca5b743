//! Ratios of targets to the first one, as dots on a logarithmic axis.

use crate::charts::axis::Axis;
use crate::charts::rows::{Mark, MarkShape};
use crate::compare::{Metric, Verdict};
use crate::page::matrix::ratio;
use crate::page::pairs::Pair;
use crate::quantity::{Unit, three_digits};

use super::lanes::{Lane, LaneGroup, Lanes};
use super::{Material, TopicFigure, entry, list};

const METRICS: [(Metric, &str, &str); 4] = [
    (Metric::P50, "Time", "ratio-time"),
    (Metric::Rate, "Rate", "ratio-rate"),
    (Metric::PeakMemory, "Memory above idle", "ratio-memory"),
    (Metric::ServerCpu, "Server CPU", "ratio-cpu"),
];

/// Ratios have no unit.
const RATIO: Unit = Unit {
    name: "×",
    size: 1.0,
};

/// The least range of the axis, so that there is room on both sides of 1.
const MIN_RANGE: (f64, f64) = (0.8, 1.25);

/// Returns a chart for each metric that at least two targets have. Empty for a single target.
pub(super) fn figures(of: &Material<'_>) -> Vec<TopicFigure> {
    METRICS
        .iter()
        .filter_map(|&(metric, title, id)| figure(of, metric, title, id))
        .collect()
}

fn figure(of: &Material<'_>, metric: Metric, title: &str, id: &str) -> Option<TopicFigure> {
    let groups = of.cases.works.iter().filter_map(|work| {
        let targets = 1..of.cases.targets.len();
        let lanes = targets.filter_map(|target| {
            let pair = of.pairs.of_metric(work, target, metric)?;
            Some(lane(target, of.cases.targets[target], &pair))
        });
        let lanes: Vec<Lane> = lanes.collect();
        (!lanes.is_empty()).then(|| LaneGroup {
            name: of.title(work.data_set, &work.name),
            detail: work.detail.clone(),
            lanes,
        })
    });
    let groups: Vec<LaneGroup> = groups.collect();
    let marks = groups.iter().flat_map(|group| &group.lanes);
    let marks = marks.flat_map(|lane| &lane.marks);
    let axis = axis(marks.flat_map(|mark| [mark.from, mark.to]))?;
    let margin = 1.0 + metric.default_margin();
    let lanes = Lanes {
        id: id.to_owned(),
        axis: &axis,
        measure: format!("over {}, logarithmic", of.cases.targets[0]),
        line_at: Some(1.0),
        band: Some((1.0 / margin, margin)),
        groups,
        has_targets: of.cases.targets.len() > 2,
    };
    let targets = of.cases.targets.iter().enumerate().skip(1);
    let entries = targets.map(|(at, target)| {
        entry(
            &format!("disc{}", at % super::SHAPES),
            "fill",
            &super::colour(at),
            target,
        )
    });
    let rest = [entry(
        "span",
        "span",
        "all",
        "its interval by starts, or what the extremes within one start allow",
    )];
    Some(TopicFigure {
        title: title.to_owned(),
        caption: format!(
            "The band is ±{:.0} %, which counts as no difference.{}",
            metric.default_margin() * 100.0,
            match metric {
                Metric::PeakMemory =>
                    " A MiB, or what the counter cannot tell, is added to both sizes.",
                Metric::Rate => " More is better.",
                _ => "",
            }
        ),
        legend: list(entries.chain(rest)),
        body: lanes.html(),
    })
}

fn lane(target: usize, who: &str, pair: &Pair) -> Lane {
    let mut marks = Vec::new();
    marks.extend(pair.ends.map(|[least, most]| Mark::span(least, most)));
    marks.push(Mark::at(MarkShape::Disc, pair.ratio));
    let sure = pair
        .verdict
        .filter(|it| !matches!(it, Verdict::CannotTell(_)));
    let range = pair.ends.map(|[least, most]| {
        let [least, most] = [least, most].map(three_digits);
        format!("{least} … {most}")
    });
    let verdict = sure.map(|it| format!("{} {}", it.sign(), it.name()));
    let detail: Vec<String> = verdict.into_iter().chain(range).collect();
    Lane {
        target,
        who: who.to_owned(),
        marks,
        number: ratio(pair.ratio),
        number_detail: detail.join(" "),
        note: String::new(),
        counts: true,
    }
}

/// Returns a logarithmic axis that always includes 1.
fn axis(ratios: impl Iterator<Item = f64>) -> Option<Axis> {
    let ratios: Vec<f64> = ratios.filter(|it| it.is_finite() && *it > 0.0).collect();
    if ratios.is_empty() {
        return None;
    }
    let ends = ratios.iter().fold(MIN_RANGE, |(low, high), ratio| {
        (low.min(*ratio), high.max(*ratio))
    });
    Some(Axis::logarithmic(RATIO, ends.0, ends.1))
}

#[cfg(test)]
mod tests {
    use super::axis;

    #[test]
    fn the_axis_of_ratios_always_has_1_on_it() {
        for ratios in [[3.0, 9.0], [0.01, 0.2], [1.01, 1.02]] {
            let axis = axis(ratios.into_iter()).expect("there are ratios");
            assert!(
                axis.logarithmic && axis.low < 1.0 && axis.high > 1.0,
                "{axis:?}"
            );
            assert!(axis.ticks.contains(&1.0), "{axis:?}");
        }
        assert!(axis([f64::NAN].into_iter()).is_none());
    }
}
