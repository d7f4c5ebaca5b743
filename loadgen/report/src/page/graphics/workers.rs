//! The cost of sharing the objects among workers, against the number of workers.

use crate::charts::Drawing;
use crate::charts::curves::{CurveChart, CurvePanel};
use crate::quantity::three_digits;

use super::plot::{Look, Plot, PlotLine, Scale};
use super::{Material, SHAPES, TopicFigure, entry, list, panels, plain};

/// Returns a figure for each chart of the result about the number of workers.
pub(super) fn figures(of: &Material<'_>) -> Vec<TopicFigure> {
    let curves = of.charts.iter().filter_map(|chart| match &chart.drawing {
        Drawing::Curves(curves) => Some((chart, curves)),
        _ => None,
    });
    curves
        .map(|(chart, curves)| {
            let names = curves.names.iter().enumerate();
            let names = names.map(|(at, name)| {
                entry(
                    &format!("disc{}", at % SHAPES),
                    "fill",
                    &super::colour(at),
                    name,
                )
            });
            let drawn = curves.panels.iter().enumerate().filter_map(|(n, panel)| {
                let id = plain(&format!("{}-{n}", chart.name));
                Some((
                    panel.name.to_owned(),
                    String::new(),
                    plot(curves, panel, id)?,
                ))
            });
            TopicFigure {
                title: of.title(&chart.data_set, &curves.title),
                caption: super::sentence(&curves.subtitle),
                legend: list(names),
                body: panels(drawn),
            }
        })
        .collect()
}

fn plot(chart: &CurveChart, panel: &CurvePanel, id: String) -> Option<String> {
    let all = || panel.lines.iter().flatten();
    let y = Scale::of_values(all().map(|(_, value)| *value), panel.unit)?;
    let workers = panel.workers_axis()?.ticks;
    let x = Scale::through(&workers, |workers| workers.to_string())?;
    let lines = panel.lines.iter().zip(&chart.names);
    let lines = lines.filter(|(points, _)| !points.is_empty());
    let texts = lines.map(|(points, name)| {
        let values = points.iter().map(|(workers, value)| {
            let unit = (panel.unit)(*value);
            let value = three_digits(value / unit.size);
            format!("{value} {} with {workers}", unit.name)
        });
        let values: Vec<String> = values.collect();
        format!("{name}: {}", values.join(", "))
    });
    let texts: Vec<String> = texts.collect();
    let plot = Plot {
        id,
        title: format!("{} against the number of workers", panel.name),
        description: texts.join("; "),
        height: 140,
        x,
        y,
        lines: panel
            .lines
            .iter()
            .enumerate()
            .map(|(target, points)| PlotLine {
                target,
                points: points.clone(),
                look: Look::Marked,
            })
            .collect(),
        phases: Vec::new(),
        levels: Vec::new(),
    };
    Some(plot.svg())
}
