//! Memory and CPU of the servers while each case was measured, with all targets in one panel.

use crate::charts::timeline::Timeline;
use crate::page::matrix::between;
use crate::page::side_by_side::Work;
use crate::quantity::{Quantity, Unit};
use crate::result::Case;

use super::plot::{Look, Plot, PlotLine, Scale};
use super::{Material, TopicFigure, panels, plain};

/// Number of points of a CPU line.
const STEPS: u32 = 48;
/// The maximal number of ticks. More would look like a band.
const MAX_PHASES: usize = 40;

const CORES: Unit = Unit {
    name: "CPU",
    size: 1.0,
};

/// Returns a panel for each case with samples. The panels of a data set form one figure.
pub(super) fn figures(of: &Material<'_>) -> Vec<TopicFigure> {
    let data_sets = &of.result.report.data_sets;
    let figures = data_sets.iter().filter_map(|data_set| {
        let works = of.cases.of_data_set(&data_set.name).enumerate();
        let drawn = works.filter_map(|(n, work)| {
            let id = plain(&format!("over-time-{}-{n}", data_set.name));
            Some((
                work.name.clone(),
                work.detail.clone(),
                panel(of, work, &id)?,
            ))
        });
        let body = panels(drawn);
        of.figure_of_data_set(data_set, body)
    });
    figures.collect()
}

fn panel(of: &Material<'_>, work: &Work<'_>, id: &str) -> Option<String> {
    let lines = work.present().filter_map(|(target, case)| {
        let timeline = Timeline::of(&of.result.series, case);
        (timeline.private.len() > 1).then_some((target, case, timeline))
    });
    let lines: Vec<(usize, &Case, Timeline)> = lines.collect();
    let ends = lines.iter().filter_map(|(_, _, it)| it.private.last());
    let last_s = ends.map(|(s, _)| *s).fold(0.0, f64::max);
    if last_s <= 0.0 {
        return None;
    }
    let time = time_axis(last_s)?;
    let memory = memory(of, work, &lines, &time, id)?;
    let cpu = cpu(of, work, &lines, &time, id).unwrap_or_default();
    Some(memory + &cpu)
}

/// Returns an axis of time that ends at `last_s`, in ms; `None` for 0.
pub(super) fn time_axis(last_s: f64) -> Option<Scale> {
    let axis = crate::charts::axis::Axis::of([last_s * 1e3], Unit::of_time)?;
    // The axis ends with the line and not at the next round number.
    Some(Scale::of(&axis.ending_at(last_s * 1e3)))
}

fn memory(
    of: &Material<'_>,
    work: &Work<'_>,
    lines: &[(usize, &Case, Timeline)],
    time: &Scale,
    id: &str,
) -> Option<String> {
    let levels: Vec<(usize, f64)> = lines
        .iter()
        .filter_map(|(target, case, _)| {
            let server = case.server.as_ref()?;
            let idle = server.rss_anon_idle.unwrap_or(server.rss_idle);
            Some((*target, idle as f64))
        })
        .collect();
    let sizes = lines.iter().flat_map(|(_, _, it)| &it.private);
    let highest = sizes.map(|(_, bytes)| *bytes);
    let highest = highest.chain(levels.iter().map(|(_, bytes)| *bytes));
    let y = Scale::of_values([highest.fold(0.0, f64::max)], Unit::of_size)?;
    let texts = lines.iter().filter_map(|(target, case, timeline)| {
        let (least, most) = ends(&timeline.private)?;
        let range = between(Quantity::Bytes(least), Quantity::Bytes(most));
        let server = case.server.as_ref();
        let above = server.map_or_else(String::new, |server| {
            let above = Quantity::bytes_within(server.peak_above_idle, server.rss_resolution);
            format!(", {above} above idle at its peak")
        });
        Some(format!("{}: {range}{above}", of.cases.targets[*target]))
    });
    let texts: Vec<String> = texts.collect();
    let plot = Plot {
        id: format!("{id}-m"),
        title: format!("Private memory of the server over time: {}", work.name),
        description: texts.join("; "),
        height: 110,
        x: time.clone(),
        y,
        lines: lines
            .iter()
            .map(|(target, _, timeline)| PlotLine {
                target: *target,
                points: in_ms(&timeline.private),
                look: Look::Line,
            })
            .collect(),
        phases: lines
            .iter()
            .flat_map(|(target, case, _)| {
                let phases = phases(case).into_iter();
                phases.map(|ms| (*target, ms))
            })
            .collect(),
        levels,
    };
    Some(plot.svg())
}

fn cpu(
    of: &Material<'_>,
    work: &Work<'_>,
    lines: &[(usize, &Case, Timeline)],
    time: &Scale,
    id: &str,
) -> Option<String> {
    let used: Vec<(usize, Vec<(f64, f64)>)> = lines
        .iter()
        .map(|(target, _, timeline)| (*target, timeline.cores(STEPS)))
        .collect();
    let all = || used.iter().flat_map(|(_, points)| points);
    let highest = all().map(|(_, cores)| *cores).fold(0.0, f64::max);
    let y = Scale::of_values([highest], |_| CORES)?;
    let sampled = used.iter().filter(|(_, points)| !points.is_empty());
    let texts = sampled.map(|(target, points)| {
        let mean = points.iter().map(|(_, cores)| cores).sum::<f64>() / points.len() as f64;
        format!("{}: {mean:.2} cores on average", of.cases.targets[*target])
    });
    let texts: Vec<String> = texts.collect();
    let plot = Plot {
        id: format!("{id}-c"),
        title: format!("Cores that the server used over time: {}", work.name),
        description: texts.join("; "),
        height: 56,
        x: time.clone(),
        y,
        lines: used
            .iter()
            .map(|(target, points)| PlotLine {
                target: *target,
                points: in_ms(points),
                look: Look::Line,
            })
            .collect(),
        phases: Vec::new(),
        levels: Vec::new(),
    };
    Some(plot.svg())
}

/// Returns the times when rounds of lists ended, or when loads began and ended within the measured
/// phase, in ms.
fn phases(case: &Case) -> Vec<f64> {
    let mut ends: Vec<f64> = match case.loads.is_empty() {
        true => case
            .rounds
            .iter()
            .scan(0.0, |sum, round| {
                *sum += round.ms;
                Some(*sum)
            })
            .collect(),
        false => {
            let windows = case.loads.iter().flat_map(|load| load.window_s);
            windows.filter(|s| *s > 0.0).map(|s| s * 1e3).collect()
        }
    };
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    match ends.len() {
        2..=MAX_PHASES => ends,
        _ => Vec::new(),
    }
}

fn in_ms(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.iter().map(|(s, value)| (s * 1e3, *value)).collect()
}

/// Returns the lowest and the highest value of the points; `None` without any.
pub(super) fn ends(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let values = points.iter().map(|(_, value)| *value);
    let least = values.clone().reduce(f64::min)?;
    Some((least, values.reduce(f64::max)?))
}

#[cfg(test)]
mod tests {
    use workloads::strategy::Tier;

    use super::*;
    use crate::result::{Load, Outcome, Round};

    #[test]
    fn phases_are_rounds_one_after_the_other_or_windows_of_loads() {
        let mut case = Case::new("pods", "bench", Tier::Etcd, "stream", Outcome::Measured);
        let round = |ms| Round {
            ms,
            server_cpu_ms: None,
        };
        case.rounds = vec![round(100.0)];
        assert!(phases(&case).is_empty(), "one round has no phases");
        case.rounds = vec![round(100.0), round(150.0)];
        assert_eq!(phases(&case), [100.0, 250.0]);
        let load = |window_s| Load {
            window_s,
            ..Load::default()
        };
        case.loads = vec![load([0.0, 20.0]), load([5.0, 15.0])];
        assert_eq!(phases(&case), [5_000.0, 15_000.0, 20_000.0]);
    }
}
