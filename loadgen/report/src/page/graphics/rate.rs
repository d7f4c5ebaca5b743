//! Latency against the rate of an open loop: cases at several rates, and searches for the highest
//! rate that meets an objective.

use crate::page::side_by_side::Work;
use crate::quantity::{Quantity, Unit, three_digits};
use crate::result::{Case, TrialVerdict};

use super::plot::{Look, Plot, PlotLine, Scale};
use super::{Material, TopicFigure, entry, list, panels, plain};

/// Returns a panel for each kind of request that was sent at several rates.
pub(super) fn against_latency(of: &Material<'_>) -> Option<TopicFigure> {
    let mut kinds: Vec<(String, Vec<&Work<'_>>)> = Vec::new();
    for work in &of.cases.works {
        let Some(kind) = work.present().find_map(|(_, case)| kind(case)) else {
            continue;
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, works)) => works.push(work),
            None => kinds.push((kind, vec![work])),
        }
    }
    let drawn = kinds.into_iter().filter_map(|(kind, works)| {
        let id = plain(&format!("rate-{kind}"));
        Some((kind.clone(), String::new(), panel(of, &kind, &works, id)?))
    });
    let body = panels(drawn);
    let marks = [
        (
            "ring",
            "ring",
            "the rate was not kept: times of a growing queue",
        ),
        ("dash", "dash", "median; whole lines are the p99"),
    ];
    let marks = marks.map(|(mark, class, meaning)| entry(mark, class, "all", meaning));
    (!body.is_empty()).then(|| TopicFigure {
        title: "Latency at each rate".to_owned(),
        caption: String::new(),
        legend: of.legend() + &list(marks.into_iter()),
        body,
    })
}

/// Returns the kind of request without the rate: the strategy and its options.
fn kind(case: &Case) -> Option<String> {
    let rate = case.offered_per_s?;
    if case.shards.is_some() || case.arrivals.is_some() || !case.loads.is_empty() {
        return None;
    }
    let of_rate = format!("{rate} per second");
    let mut words = vec![case.strategy.clone()];
    let options = case.options().into_iter();
    words.extend(options.filter(|option| *option != of_rate));
    Some(words.join(", "))
}

fn panel(of: &Material<'_>, kind: &str, works: &[&Work<'_>], id: String) -> Option<String> {
    let mut lines = Vec::new();
    let mut texts = Vec::new();
    for (target, name) in of.cases.targets.iter().enumerate() {
        let cases = works.iter().filter_map(|work| work.counted(target));
        let mut cases: Vec<(f64, &Case)> = cases
            .filter_map(|case| Some((case.offered_per_s?, case)))
            .collect();
        cases.sort_by(|a, b| a.0.total_cmp(&b.0));
        let points = |saturated: Option<bool>, pick: fn(&Case) -> Option<f64>| -> Vec<(f64, f64)> {
            let cases = cases
                .iter()
                .filter(|(_, case)| saturated.is_none_or(|saturated| case.saturated == saturated));
            cases
                .filter_map(|(rate, case)| Some((*rate, pick(case)?)))
                .collect()
        };
        let p50 = |case: &Case| case.latency_ms.as_ref()?.p50;
        let p99 = |case: &Case| case.latency_ms.as_ref()?.p99;
        let all = [
            (points(None, p99), Look::Line),
            (points(None, p50), Look::Dashed),
            (points(Some(false), p99), Look::Marks),
            (points(Some(true), p99), Look::Rings),
        ];
        texts.extend(cases.iter().map(|(rate, case)| {
            let p99 = Quantity::or_absent(p99(case).map(Quantity::Milliseconds));
            let saturated = if case.saturated { " (saturated)" } else { "" };
            format!(
                "{name} at {}: p99 {p99}{saturated}",
                Quantity::PerSecond(*rate)
            )
        }));
        lines.extend(all.into_iter().map(|(points, look)| PlotLine {
            target,
            points,
            look,
        }));
    }
    plot(
        id,
        format!("Latency against the rate: {kind}"),
        &texts,
        lines,
    )
}

/// Returns a panel for each search for the highest rate that meets an objective.
pub(super) fn searches(of: &Material<'_>) -> Option<TopicFigure> {
    let drawn = of.cases.works.iter().enumerate().filter_map(|(n, work)| {
        let id = format!("search-{n}");
        Some((
            work.name.clone(),
            work.detail.clone(),
            search(of, work, id)?,
        ))
    });
    let body = panels(drawn);
    let marks = [
        ("disc0", "fill", "the objective was kept"),
        ("cross", "line", "it was missed"),
        ("ring", "ring", "the generator did not keep the rate"),
    ];
    let marks = marks.map(|(mark, class, meaning)| entry(mark, class, "all", meaning));
    (!body.is_empty()).then(|| TopicFigure {
        title: "Searches for the highest rate that keeps an objective".to_owned(),
        caption: "Every trial of every search: the objective's quantile against the rate that was intended. Lines are the objectives.".to_owned(),
        legend: of.legend() + &list(marks.into_iter()),
        body,
    })
}

fn search(of: &Material<'_>, work: &Work<'_>, id: String) -> Option<String> {
    let mut lines = Vec::new();
    let mut texts = Vec::new();
    for (target, case) in work.present() {
        let Some(found) = &case.saturation else {
            continue;
        };
        let trials = || found.searches.iter().flat_map(|search| &search.trials);
        for (verdict, look) in [
            (TrialVerdict::Kept, Look::Marks),
            (TrialVerdict::Missed, Look::Crosses),
            (TrialVerdict::GeneratorLate, Look::Rings),
        ] {
            let of_verdict = trials().filter(|trial| trial.verdict == verdict);
            let points = of_verdict.filter_map(|it| Some((it.offered_per_s, it.latency_ms?)));
            lines.push(PlotLine {
                target,
                points: points.collect(),
                look,
            });
        }
        let kept = found.kept_per_s.map(Quantity::PerSecond);
        texts.push(format!(
            "{} keeps {} up to {}",
            of.cases.targets[target],
            found.objective,
            Quantity::or_absent(kept)
        ));
    }
    let title = format!("Trials of the search for the highest rate: {}", work.name);
    plot(id, title, &texts, lines)
}

fn plot(id: String, title: String, texts: &[String], lines: Vec<PlotLine>) -> Option<String> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let rates: Vec<f64> = all().map(|(rate, _)| *rate).collect();
    let mut distinct = rates.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    // A few rates are the ticks themselves. A search has too many.
    let x = match distinct.len() {
        0 | 1 => return None,
        2..=6 => Scale::through(&distinct, |rate| format!("{}/s", three_digits(rate)))?,
        _ => Scale::of_values(rates, |_| PER_SECOND)?,
    };
    let y = Scale::of_values(all().map(|(_, ms)| *ms), Unit::of_time)?;
    let plot = Plot {
        id,
        title,
        description: texts.join("; "),
        height: 150,
        x,
        y,
        lines,
        phases: Vec::new(),
        levels: Vec::new(),
    };
    Some(plot.svg())
}

const PER_SECOND: Unit = Unit {
    name: "/s",
    size: 1.0,
};
