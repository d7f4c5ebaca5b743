//! The cost of the same work on different numbers of objects of the same size.

use std::collections::BTreeSet;

use crate::compare::Metric;
use crate::page::pairs::figure;
use crate::quantity::{Quantity, Unit};
use crate::result::DataSet;

use super::plot::{Look, Plot, PlotLine, Scale};
use super::{Material, TopicFigure, panels};

/// A metric, its title, and its unit.
type Measure = (Metric, &'static str, fn(f64) -> Unit);

static MEASURES: [Measure; 2] = [
    (Metric::P50, "Time", Unit::of_time),
    (Metric::PeakMemory, "Memory above idle", Unit::of_size),
];

/// The points of each target: number of objects, value.
type Lines = Vec<(usize, Vec<(f64, f64)>)>;

/// Returns a figure for each measure where data sets differ only in the number of objects.
pub(super) fn figures(of: &Material<'_>) -> Vec<TopicFigure> {
    let families = families(&of.result.report.data_sets);
    let figures = families.iter().enumerate().flat_map(|(n, family)| {
        MEASURES
            .iter()
            .filter_map(move |measure| of_family(of, family, *measure, n))
    });
    figures.collect()
}

fn of_family(
    of: &Material<'_>,
    family: &[&DataSet],
    (metric, title, unit): Measure,
    n: usize,
) -> Option<TopicFigure> {
    let mut keys: Vec<&str> = Vec::new();
    for work in &of.cases.works {
        if !keys.contains(&work.key()) {
            keys.push(work.key());
        }
    }
    let drawn = keys.into_iter().enumerate().filter_map(|(at, key)| {
        let (name, lines) = lines(of, family, key, metric)?;
        let all = || lines.iter().flat_map(|(_, points)| points);
        let counts: Vec<f64> = all().map(|(objects, _)| *objects).collect();
        let x = Scale::through(&counts, |count| short_count(count as u64))?;
        let y = Scale::of_values(all().map(|(_, value)| *value), unit)?;
        let texts = lines.iter().map(|(target, points)| {
            let values = points.iter().map(|(objects, value)| {
                let objects = Quantity::Count(*objects as u64);
                format!("{} of {objects}", metric.quantity(*value))
            });
            let values: Vec<String> = values.collect();
            format!("{}: {}", of.cases.targets[*target], values.join(", "))
        });
        let texts: Vec<String> = texts.collect();
        let plot = Plot {
            id: format!("size-{n}-{metric}-{at}"),
            title: format!("{title} against the number of objects: {name}"),
            description: texts.join("; "),
            height: 110,
            x,
            y,
            lines: lines
                .into_iter()
                .map(|(target, points)| PlotLine {
                    target,
                    points,
                    look: Look::Marked,
                })
                .collect(),
            phases: Vec::new(),
            levels: Vec::new(),
        };
        Some((name, String::new(), plot.svg()))
    });
    let body = panels(drawn);
    (!body.is_empty()).then(|| TopicFigure {
        title: title.to_owned(),
        caption: String::new(),
        legend: of.legend(),
        body,
    })
}

/// Returns a work's name and each target's values over the data sets, for targets with at least
/// two.
fn lines(
    of: &Material<'_>,
    family: &[&DataSet],
    key: &str,
    metric: Metric,
) -> Option<(String, Lines)> {
    let same = || of.cases.works.iter().filter(|work| work.key() == key);
    let name = same().next()?.name.clone();
    let of_target = |target: usize| -> Vec<(f64, f64)> {
        let points = family.iter().filter_map(|data_set| {
            let work = same().find(|work| work.data_set == data_set.name)?;
            let value = figure(work.counted(target)?, metric)?;
            // A value below the floor cannot be distinguished from 0, which a logarithmic axis does
            // not have.
            let value = value.max(metric.floor(None));
            Some((data_set.objects as f64, value))
        });
        points.collect()
    };
    let lines = (0..of.cases.targets.len()).map(|target| (target, of_target(target)));
    let lines: Vec<_> = lines.filter(|(_, points)| points.len() > 1).collect();
    (!lines.is_empty()).then_some((name, lines))
}

/// Groups data sets whose objects have the same size, in ascending order of their numbers. Groups
/// in which the number of objects does not differ are dropped.
fn families(data_sets: &[DataSet]) -> Vec<Vec<&DataSet>> {
    let mut families: Vec<Vec<&DataSet>> = Vec::new();
    for data_set in data_sets {
        let is_same = |family: &&mut Vec<&DataSet>| family[0].has_objects_as_large_as(data_set);
        match families.iter_mut().find(is_same) {
            Some(family) => family.push(data_set),
            None => families.push(vec![data_set]),
        }
    }
    for family in &mut families {
        family.sort_by_key(|data_set| data_set.objects);
    }
    families.retain(|family| {
        let counts: BTreeSet<u64> = family.iter().map(|it| it.objects).collect();
        counts.len() > 1
    });
    families
}

/// Returns a number of objects in short form: `100k`, `1M`.
fn short_count(count: u64) -> String {
    match count {
        count if count >= 1_000_000 && count.is_multiple_of(100_000) => {
            format!("{}M", count as f64 / 1e6)
        }
        count if count >= 1_000 && count.is_multiple_of(100) => format!("{}k", count as f64 / 1e3),
        count => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_sets_of_one_size_of_objects_are_compared() {
        let data_set = |name: &str, objects, size| DataSet {
            name: name.to_owned(),
            objects,
            bytes: objects * size,
            ..DataSet::default()
        };
        let shapes = [
            data_set("many small", 500_000, 100),
            data_set("few large", 10_000, 100_000),
            data_set("few small", 100_000, 100),
        ];
        let names = |data_sets: &[DataSet]| -> Vec<Vec<String>> {
            let families = families(data_sets).into_iter();
            let names = families.map(|it| it.iter().map(|it| it.name.clone()).collect());
            names.collect()
        };
        assert_eq!(names(&shapes), [["few small", "many small"]]);
        assert!(names(&shapes[..2]).is_empty());
    }

    #[test]
    fn counts_are_short_where_they_are_round() {
        let texts = [1_000, 100_000, 1_000_000, 150_500, 1_234].map(short_count);
        assert_eq!(texts, ["1k", "100k", "1M", "150.5k", "1234"]);
    }
}
