//! How the cost of a case grows with the number of objects: the slope of a straight line through
//! the data sets of a run, on logarithmic axes.
//!
//! The slope is an exponent: 1 where ten times the objects cost ten times as much, 0 where they
//! cost the same, 2 where the cost of each object grows with their number. The line is fitted only
//! through data sets whose objects have the same size, so that only the number of objects differs.

use crate::quantity::Quantity;
use crate::result::{Case, Growth, Report};

/// The least number of points. A line through two points always fits.
const MIN_POINTS: usize = 3;

/// A metric whose growth is fitted: its path in `report.json`, its name in text, and its value.
type Fitted = (&'static str, &'static str, fn(&Case) -> Option<f64>);

const FITTED: [Fitted; 2] = [
    ("latency_ms.p50", "time", |case| {
        case.latency_ms.as_ref()?.p50
    }),
    ("server.cpu_s_per_request", "server CPU", |case| {
        case.server.as_ref()?.cpu_s_per_request
    }),
];

/// Fits every metric of every case that was measured on at least three data sets.
#[must_use]
pub fn fit(report: &Report) -> Vec<Growth> {
    let mut all = Vec::new();
    let mut known: Vec<(&str, String)> = Vec::new();
    for case in &report.cases {
        let same = (case.target.as_str(), case.work());
        if known.contains(&same) {
            continue;
        }
        for (metric, _, value) in FITTED {
            let points = points(report, same.0, &same.1, value);
            if let Some(exponent) = exponent(&points) {
                all.push(Growth {
                    target: same.0.to_owned(),
                    case: same.1.clone(),
                    metric: metric.to_owned(),
                    exponent,
                    points,
                });
            }
        }
        known.push(same);
    }
    all
}

/// Returns the numbers of objects and the metric's values, for data sets whose objects are as large
/// as the first's.
fn points(
    report: &Report,
    target: &str,
    work: &str,
    value: fn(&Case) -> Option<f64>,
) -> Vec<[f64; 2]> {
    let mut first = None;
    let mut points: Vec<[f64; 2]> = Vec::new();
    let cases = report.cases.iter();
    for case in cases.filter(|case| case.target == target && case.counts() && case.work() == work) {
        let mut data_sets = report.data_sets.iter();
        let data_set = data_sets.find(|data| data.name == case.data_set && data.objects > 0);
        let (Some(data_set), Some(value)) = (data_set, value(case).filter(|value| *value > 0.0))
        else {
            continue;
        };
        let objects = data_set.objects as f64;
        let is_as_large = data_set.has_objects_as_large_as(first.get_or_insert(data_set));
        if is_as_large && points.iter().all(|point| point[0] != objects) {
            points.push([objects, value]);
        }
    }
    points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    points
}

/// Returns the slope of the least-squares line through the logarithms; `None` if there are too few
/// points.
fn exponent(points: &[[f64; 2]]) -> Option<f64> {
    if points.len() < MIN_POINTS {
        return None;
    }
    let logs = || points.iter().map(|[x, y]| (x.ln(), y.ln()));
    let n = points.len() as f64;
    let mean_x = logs().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = logs().map(|(_, y)| y).sum::<f64>() / n;
    let together: f64 = logs().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let of_x: f64 = logs().map(|(x, _)| (x - mean_x).powi(2)).sum();
    Some(together / of_x)
}

/// Returns a line for each growth, for the end of a run's output.
#[must_use]
pub fn lines(report: &Report) -> Vec<String> {
    let line = |growth: &Growth| {
        let (first, last) = (growth.points.first()?, growth.points.last()?);
        let mut fitted = FITTED.iter();
        let name = fitted
            .find(|(metric, ..)| *metric == growth.metric)
            .map_or(growth.metric.as_str(), |(_, name, _)| name);
        Some(format!(
            "{} on {}: {name} grows as objects^{:.2} from {} to {}",
            growth.case,
            growth.target,
            growth.exponent,
            Quantity::Count(first[0] as u64),
            Quantity::Count(last[0] as u64),
        ))
    };
    report.growth.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<f64>, exact: f64) {
        let found = found.expect("three points or more");
        assert!((found - exact).abs() < 1e-9, "{found}");
    }

    #[test]
    fn the_exponent_is_that_of_a_power() {
        let power = |exponent: f64, factor: f64| -> Vec<[f64; 2]> {
            let objects = [1e3, 1e4, 1e5, 1e6];
            objects.map(|x: f64| [x, factor * x.powf(exponent)]).into()
        };
        near(exponent(&power(1.0, 0.003)), 1.0);
        near(exponent(&power(2.0, 7.0)), 2.0);
        near(exponent(&power(0.0, 5.0)), 0.0);
        assert_eq!(exponent(&power(1.0, 1.0)[..2]), None);
        // An outlier affects the least-squares slope.
        near(
            exponent(&[
                [1.0, 1.0],
                [std::f64::consts::E, 1.0],
                [7.389_056_098_930_65, 20.085_536_923_187_668],
            ]),
            1.5,
        );
    }
}
