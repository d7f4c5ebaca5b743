//! Strategies compared within each emulated network.

use super::{Subject, named, times_lists};
use crate::charts::rows::{Mark, MarkShape, RowChart};
use crate::quantity::{Quantity, Unit, three_digits};
use crate::result::Case;

/// A ratio has no unit.
const RATIO: Unit = Unit {
    name: "× the first",
    size: 1.0,
};

impl Subject<'_> {
    /// Returns the chart of the median time of each strategy's lists over that of the first
    /// strategy on the same network. `None` unless there is a case with an emulated network, and a
    /// network with two strategies. Ratios, because the network alone determines most of the time.
    pub(in crate::charts) fn networks(&self) -> Option<RowChart> {
        if !self
            .cases()
            .any(|case| is_of_lists(case) && case.network.is_some())
        {
            return None;
        }
        let legend = vec![
            (MarkShape::Disc, "median time over that of the first"),
            (MarkShape::Stroke, "as long as the first"),
        ];
        let mut chart = self.rows(
            "Strategies on each network",
            "left of 1 a list is faster than by the first strategy on the same network",
            "time over that of the first strategy",
            |_| RATIO,
            legend,
            |case, mut row| {
                if is_of_lists(case) && case.network.is_none() {
                    row.detail = match case.options().is_empty() {
                        true => "loopback".to_owned(),
                        false => format!("loopback, {}", row.detail),
                    };
                }
                let Some(first) = self.first_alike(case) else {
                    return row;
                };
                let Some((ms, of_first)) = median(case).zip(median(first)) else {
                    return row;
                };
                let ratio = ms / of_first;
                row.marks
                    .push(Mark::at(MarkShape::Stroke, 1.0).as_reference());
                row.marks.push(Mark::at(MarkShape::Disc, ratio));
                row.number = format!("{} ×", three_digits(ratio));
                let [ms, of_first] = [ms, of_first].map(Quantity::Milliseconds);
                row.number_detail = format!("{ms} over {of_first}, {}", named(first).name);
                row
            },
        )?;
        for group in &mut chart.groups {
            // The first strategy of a network has no row. A case that does not count keeps its own,
            // with the reason.
            group
                .rows
                .retain(|row| !row.marks.is_empty() || !row.counts);
        }
        chart.groups.retain(|group| !group.rows.is_empty());
        Some(chart)
    }

    /// Returns the first case of lists with the target, tier, clients and options (network
    /// included) of `case`. `None` if that has the same strategy, or one of both does not count.
    fn first_alike(&self, case: &Case) -> Option<&Case> {
        let is_alike = |other: &&Case| {
            is_of_lists(other)
                && other.target == case.target
                && other.tier == case.tier
                && other.clients == case.clients
                && other.options() == case.options()
        };
        let first = is_of_lists(case).then(|| self.cases().find(is_alike))??;
        (first.counts() && case.counts() && first.strategy != case.strategy).then_some(first)
    }
}

fn is_of_lists(case: &Case) -> bool {
    case.loads.is_empty() && times_lists(case)
}

fn median(case: &Case) -> Option<f64> {
    case.latency_ms.as_ref()?.p50.filter(|ms| *ms > 0.0)
}
