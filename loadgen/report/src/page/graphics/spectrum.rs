//! Latency at every quantile that a sample supports.

use crate::latency::{Latencies, quantile_needs};
use crate::page::side_by_side::Work;
use crate::quantity::{Quantity, Unit};
use crate::result::Case;

use super::plot::{Look, Plot, PlotLine, Scale};
use super::{Material, TopicFigure, panels, plain};

/// The least number of values for a spectrum.
const MIN_VALUES: u64 = 100;
const NS_PER_MS: f64 = 1e6;
/// The labels of the axis, whose unit is the number of nines.
const TICKS: [(f64, &str); 6] = [
    (0.0, "0"),
    (1.0, "90 %"),
    (2.0, "99 %"),
    (3.0, "99.9 %"),
    (4.0, "99.99 %"),
    (5.0, "99.999 %"),
];
/// Number of points per nine.
const STEPS: i32 = 20;

/// Returns a panel for each case, or for each load of a case, that has enough values.
pub(super) fn figures(of: &Material<'_>) -> Vec<TopicFigure> {
    let data_sets = &of.result.report.data_sets;
    let figures = data_sets.iter().filter_map(|data_set| {
        let works = of.cases.of_data_set(&data_set.name);
        let measures = works.flat_map(|work| {
            let measures = measures(work).into_iter();
            measures.map(move |(measure, name)| (work, measure, name))
        });
        let drawn = measures
            .enumerate()
            .filter_map(|(n, (work, measure, name))| {
                let id = plain(&format!("spectrum-{}-{n}", data_set.name));
                let drawn = panel(of, work, &measure, &name, id)?;
                let detail = match work.present().any(|(_, case)| !case.loads.is_empty()) {
                    true => String::new(),
                    false => work.detail.clone(),
                };
                Some((name, detail, drawn))
            });
        let body = panels(drawn);
        of.figure_of_data_set(data_set, body)
    });
    figures.collect()
}

/// Returns the measures of the histograms that a work may have, each with its title.
fn measures(work: &Work<'_>) -> Vec<(String, String)> {
    let Some((_, case)) = work.present().find(|(_, case)| !case.loads.is_empty()) else {
        return vec![("latency".to_owned(), work.name.clone())];
    };
    let loads = case.loads.iter().map(|load| {
        let name = format!("{}: {}", work.name, load.name);
        (format!("{}.latency", load.name), name)
    });
    loads.collect()
}

fn panel(
    of: &Material<'_>,
    work: &Work<'_>,
    measure: &str,
    name: &str,
    id: String,
) -> Option<String> {
    let lines = work.present().filter_map(|(target, case)| {
        let histogram = histogram(of, measure, case)?;
        (histogram.n() >= MIN_VALUES).then(|| (target, points(histogram)))
    });
    let lines: Vec<(usize, Vec<(f64, f64)>)> = lines.collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let furthest = all().map(|(nines, _)| *nines).fold(0.0, f64::max);
    let y = Scale::of_values(all().map(|(_, ms)| *ms), Unit::of_time)?;
    let texts = lines.iter().filter_map(|(target, points)| {
        let (first, last) = (points.first()?, points.last()?);
        let [lowest, highest] = [first, last].map(|(_, ms)| Quantity::Milliseconds(*ms));
        let target = of.cases.targets[*target];
        Some(format!(
            "{target}: from {lowest} to {highest} at the last quantile"
        ))
    });
    let texts: Vec<String> = texts.collect();
    let plot = Plot {
        id,
        title: format!("Latency at each quantile: {name}"),
        description: texts.join("; "),
        height: 130,
        x: Scale::linear(0.0, furthest, &TICKS),
        y,
        lines: lines
            .into_iter()
            .map(|(target, points)| PlotLine {
                target,
                points,
                look: Look::Line,
            })
            .collect(),
        phases: Vec::new(),
        levels: Vec::new(),
    };
    Some(plot.svg())
}

fn histogram<'a>(of: &Material<'a>, measure: &str, case: &Case) -> Option<&'a Latencies> {
    of.result.histogram(measure, case)
}

/// Returns the number of nines and the latency in ms at each, up to the last quantile that the
/// sample supports.
fn points(latencies: &Latencies) -> Vec<(f64, f64)> {
    let nines = (0..).map(|n| f64::from(n) / f64::from(STEPS));
    let carried = nines.take_while(|nines| {
        // [`quantile_needs`] tolerates the rounding error at a whole number of nines.
        let quantile = 1.0 - 10_f64.powf(-nines);
        quantile_needs(quantile) <= latencies.n()
    });
    carried
        .map(|nines| {
            let quantile = 1.0 - 10_f64.powf(-nines);
            let ns = latencies.histogram_ns().value_at_quantile(quantile);
            (nines, ns as f64 / NS_PER_MS)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_ends_where_the_sample_does() {
        let of = |n: u64| -> Latencies { (1..=n).map(Duration::from_millis).collect() };
        let ends_at = |n| points(&of(n)).last().expect("a hundred values").0;
        assert!((ends_at(100) - 1.0).abs() < 1e-9, "p90 needs a hundred");
        assert!((ends_at(1_000) - 2.0).abs() < 1e-9, "p99 needs a thousand");
        let median = points(&of(1_000))[6];
        assert!((median.1 - 499.0).abs() < 2.0, "{median:?}");
    }
}
