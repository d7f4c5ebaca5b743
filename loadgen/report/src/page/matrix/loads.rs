//! The table of the loads of every case that runs several together.

use crate::quantity::Quantity;
use crate::result::{Case, Load, LoadKind, Quantiles};

use super::{Cell, ColumnGroup, Matrix, MatrixLine, Section, label, ratio};
use crate::page::side_by_side::{SideBySide, Work};

impl Matrix {
    /// Returns the table of the loads of every case that runs several; `None` where none does.
    pub(in crate::page) fn of_loads(cases: &SideBySide<'_>) -> Option<Self> {
        let sections = cases.works.iter().filter_map(|work| {
            let (_, first) = work.present().find(|(_, case)| !case.loads.is_empty())?;
            let lines = first.loads.iter().flat_map(|load| {
                let whole = load_line(load, work, cases);
                let kinds = load.kinds.iter();
                let kinds = kinds.map(|kind| kind_line(&load.name, kind, work, cases));
                std::iter::once(whole).chain(kinds.collect::<Vec<_>>())
            });
            Some(Section {
                name: work.name.clone(),
                about: String::new(),
                lines: lines.collect(),
            })
        });
        let sections: Vec<Section> = sections.collect();
        let groups = vec![
            ColumnGroup {
                title: "Time",
                about: "median · p99 · most",
            },
            ColumnGroup {
                title: "Rate",
                about: "answered a second",
            },
        ];
        (!sections.is_empty()).then(|| Self {
            has_targets: cases.targets.len() > 1,
            groups,
            targets: cases.targets.iter().map(|it| (*it).to_owned()).collect(),
            sections,
        })
    }
}

fn load_line(load: &Load, work: &Work<'_>, cases: &SideBySide<'_>) -> MatrixLine {
    let of = |case: &Case| case.loads.iter().find(|it| it.name == load.name).cloned();
    let mut detail = vec![load.operation.clone(), load.arrivals.clone()];
    if load.clients > 1 {
        let noun = match load.operation.as_str() {
            "watch" => "watchers",
            _ => "clients",
        };
        detail.push(format!("{} {noun}", Quantity::Count(load.clients.into())));
    }
    detail.extend(load.keys.clone());
    let name = match load.measured {
        true => load.name.clone(),
        false => format!("{} (not measured)", load.name),
    };
    let mut cells = Vec::new();
    let mut base = None;
    for (at, target) in cases.targets.iter().enumerate() {
        let case = work.cases[at];
        let found = case.and_then(of);
        let counts = |load: &Load| {
            let is_sound = load.invalid.is_none() && load.errors == 0 && !load.saturated;
            is_sound && case.is_some_and(Case::counts)
        };
        let latency = found.as_ref().and_then(|it| it.latency_ms.as_ref());
        let mut cell = times(label("Time", target, cases), latency);
        cell.counts = found.as_ref().is_some_and(counts);
        cell.flag = found.as_ref().map_or("", load_flag).to_owned();
        set_ratio(&mut cell, at, &mut base);
        cells.push(cell);
    }
    for (at, target) in cases.targets.iter().enumerate() {
        let found = work.cases[at].and_then(of);
        let rate = found.as_ref().and_then(|it| it.achieved_per_s);
        let offered = found.as_ref().and_then(|it| it.offered_per_s);
        let offered = offered.map(|rate| format!("of {}", Quantity::PerSecond(rate)));
        cells.push(Cell {
            label: label("Rate", target, cases),
            value: Quantity::or_absent(rate.map(Quantity::PerSecond)),
            details: offered.into_iter().collect(),
            sort: rate,
            counts: work.cases[at].is_some_and(Case::counts),
            ..Cell::default()
        });
    }
    MatrixLine {
        name,
        detail: detail.join(", "),
        cells,
    }
}

fn load_flag(load: &Load) -> &'static str {
    match load {
        load if load.invalid.is_some() => "INVALID",
        load if load.saturated => "saturated",
        load if load.errors > 0 => "WRONG",
        _ => "",
    }
}

/// Returns the line of one kind of request of a weighted mix.
fn kind_line(load: &str, kind: &LoadKind, work: &Work<'_>, cases: &SideBySide<'_>) -> MatrixLine {
    let of = |case: &Case| {
        let found = case.loads.iter().find(|it| it.name == load)?;
        let mut kinds = found.kinds.iter();
        kinds.find(|it| it.operation == kind.operation).cloned()
    };
    let mut base = None;
    let mut cells: Vec<Cell> = Vec::new();
    for (at, target) in cases.targets.iter().enumerate() {
        let case = work.cases[at];
        let found = case.and_then(of);
        let latency = found.as_ref().and_then(|it| it.latency_ms.as_ref());
        let mut cell = times(label("Time", target, cases), latency);
        cell.counts = case.is_some_and(Case::counts);
        set_ratio(&mut cell, at, &mut base);
        cells.push(cell);
    }
    cells.extend(cases.targets.iter().enumerate().map(|(at, target)| {
        let found = work.cases[at].and_then(of);
        let requests = found.map(|it| Quantity::Count(it.requests));
        Cell {
            label: label("Rate", target, cases),
            details: requests.map(|n| format!("n = {n}")).into_iter().collect(),
            counts: work.cases[at].is_some_and(Case::counts),
            ..Cell::default()
        }
    }));
    MatrixLine {
        name: format!("{load}: {}", kind.operation),
        detail: "of the mix".to_owned(),
        cells,
    }
}

/// Returns the cell with a load's times.
fn times(label: String, latency: Option<&Quantiles>) -> Cell {
    let median = latency.and_then(|it| it.p50);
    let mut details = Vec::new();
    for (name, value) in [
        ("p99", latency.and_then(|it| it.p99)),
        ("most", latency.and_then(|it| it.max)),
    ] {
        details.extend(value.map(|ms| format!("{name} {}", Quantity::Milliseconds(ms))));
    }
    Cell {
        label,
        value: Quantity::or_absent(median.map(Quantity::Milliseconds)),
        details,
        sort: median,
        ..Cell::default()
    }
}

/// Sets the ratio of a cell to the first target's value, which it saves in `base`.
fn set_ratio(cell: &mut Cell, target: usize, base: &mut Option<f64>) {
    let value = cell.sort.filter(|_| cell.counts);
    match target {
        0 => *base = value,
        _ => {
            let found = value.zip(*base).map(|(value, base)| value / base);
            let found = found.filter(|it| it.is_finite());
            cell.ratio = found.map_or_else(String::new, ratio);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;

    #[test]
    fn each_load_has_its_own_ratio_and_one_that_is_saturated_has_none() {
        let mut report = fixture::report(&[("bench", "mixed", 1.0), ("etcd", "mixed", 2.0)]);
        for (case, ms) in report.cases.iter_mut().zip([0.5, 2.0]) {
            let load = |name: &str, saturated| Load {
                name: name.to_owned(),
                measured: true,
                saturated,
                offered_per_s: Some(1_000.0),
                achieved_per_s: Some(999.0),
                latency_ms: Some(Quantiles {
                    n: 2_000,
                    p50: Some(ms),
                    p99: Some(9.0),
                    ..Quantiles::default()
                }),
                ..Load::default()
            };
            case.loads = vec![load("gets", false), load("puts", ms > 1.0)];
        }
        let cases = SideBySide::of(&report);
        let table = Matrix::of_loads(&cases).expect("there are loads");
        let [gets, puts] = table.sections[0].lines.as_slice() else {
            panic!("two loads: {table:?}");
        };
        assert_eq!(
            (&*gets.cells[1].value, &*gets.cells[1].ratio),
            ("2.00 ms", "4.00 ×")
        );
        assert_eq!(gets.cells[1].details, ["p99 9.00 ms"]);
        assert_eq!(gets.cells[3].details, ["of 1,000/s"]);
        assert_eq!(
            (&*puts.cells[1].flag, &*puts.cells[1].ratio),
            ("saturated", "")
        );
        let none = fixture::report(&[("bench", "stream", 1.0)]);
        assert!(Matrix::of_loads(&SideBySide::of(&none)).is_none());
    }
}
