//! The loads of cases as text: the same cells for the terminal, the page and the README.

use serde::Serialize;

use crate::quantity::{ABSENT, Quantity};
use crate::result::{Case, Load, LoadKind, Quantiles, WatcherSpread};

/// Titles of the cells, in order.
pub const TITLES: [&str; 9] = [
    "case",
    "target",
    "load",
    "operation",
    "arrivals",
    "achieved",
    "n",
    "p50 · p99 · max",
    "notes",
];

/// The index of the first cell with a number. All but the last of the following are numbers too.
pub const FIRST_NUMBER: usize = 5;

/// One load, or one kind of request of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoadRow {
    /// In the order of [`TITLES`].
    pub cells: [String; TITLES.len()],
    /// False where the load's metrics must not be ranked.
    pub counts: bool,
}

/// Returns the loads of all these cases. Empty where no case has loads.
pub fn rows<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Vec<LoadRow> {
    let cases = cases.into_iter();
    let loads = cases.flat_map(|case| case.loads.iter().map(move |load| (case, load)));
    loads.flat_map(|(case, load)| of_load(case, load)).collect()
}

/// Returns the row of a load, followed by a row for each kind of its requests.
fn of_load(case: &Case, load: &Load) -> Vec<LoadRow> {
    let counts = case.counts() && load.invalid.is_none() && load.errors == 0;
    let whole = LoadRow {
        cells: [
            case.row.clone(),
            case.target.clone(),
            load.name.clone(),
            load.operation.clone(),
            arrivals(load),
            Quantity::or_absent(load.achieved_per_s.map(Quantity::PerSecond)),
            Quantity::Count(load.requests).to_string(),
            times(load.latency_ms.as_ref()),
            notes(load).join("; "),
        ],
        counts,
    };
    let of_kind = |kind: &LoadKind| LoadRow {
        cells: [
            case.row.clone(),
            case.target.clone(),
            load.name.clone(),
            format!("– {}", kind.operation),
            String::new(),
            String::new(),
            Quantity::Count(kind.requests).to_string(),
            times(kind.latency_ms.as_ref()),
            conflicts(kind.conflicts).into_iter().collect(),
        ],
        counts,
    };
    let mut rows = vec![whole];
    rows.extend(load.kinds.iter().map(of_kind));
    rows
}

/// Returns when requests arrive, and from how many clients.
fn arrivals(load: &Load) -> String {
    let mut text = vec![load.arrivals.clone()];
    if load.clients > 1 {
        let noun = if load.operation == "watch" {
            "watchers"
        } else {
            "clients"
        };
        text.push(format!("{} {noun}", Quantity::Count(load.clients.into())));
    }
    text.extend(load.keys.clone());
    text.join(", ")
}

/// Returns the median, the 99th percentile and the maximum. A quantile that the sample is too small
/// to support is absent.
fn times(quantiles: Option<&Quantiles>) -> String {
    let Some(quantiles) = quantiles else {
        return ABSENT.to_owned();
    };
    let ms = |time: Option<f64>| Quantity::or_absent(time.map(Quantity::Milliseconds));
    format!(
        "{} · {} · {}",
        ms(quantiles.p50),
        ms(quantiles.p99),
        ms(quantiles.max)
    )
}

fn conflicts(conflicts: u64) -> Option<String> {
    (conflicts > 0).then(|| {
        format!(
            "{} requests found their key changed, or not there yet, and were sent again",
            Quantity::Count(conflicts)
        )
    })
}

/// Returns what to know before comparing a load.
fn notes(load: &Load) -> Vec<String> {
    let mut notes = validity_notes(load);
    notes.extend(open_loop_note(load));
    if let Some(first) = load.first_object_ms.as_ref().and_then(|q| q.p50) {
        notes.push(format!(
            "first object after {} (p50)",
            Quantity::Milliseconds(first)
        ));
    }
    if let Some(gap) = load.longest_gap_ms.as_ref().and_then(|q| q.p50) {
        notes.push(format!(
            "longest time without an object after it {} (p50)",
            Quantity::Milliseconds(gap)
        ));
    }
    notes.extend(watcher_notes(load));
    if load.throttled > 0 {
        notes.push(format!(
            "the server put off {} requests (429), which were sent again",
            Quantity::Count(load.throttled)
        ));
    }
    notes.extend(conflicts(load.conflicts).filter(|_| load.kinds.is_empty()));
    if load.restarts > 0 {
        notes.push(format!(
            "begun again {} times after a compaction",
            load.restarts
        ));
    }
    if !load.measured {
        notes.push("runs with the others, not measured".to_owned());
    }
    notes
}

/// Returns why a load's metrics must not be ranked, and which requests failed.
fn validity_notes(load: &Load) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(load.invalid.iter().map(|why| format!("INVALID: {why}")));
    if load.saturated {
        notes.push("SATURATED: the target did not keep the rate".to_owned());
    }
    if load.errors > 0 {
        let first = load.error_samples.first().cloned().unwrap_or_default();
        notes.push(format!(
            "{} of {} failed: {first}",
            Quantity::Count(load.errors),
            Quantity::Count(load.requests)
        ));
    }
    notes
}

/// Returns the rate of an open loop, the latency from sending, and how late requests were sent.
fn open_loop_note(load: &Load) -> Option<String> {
    let offered = load.offered_per_s?;
    let p99 = |q: Option<&Quantiles>| {
        Quantity::or_absent(q.and_then(|q| q.p99).map(Quantity::Milliseconds))
    };
    Some(format!(
        "{} intended; p99 from sending {}, sent late by {} (p99)",
        Quantity::PerSecond(offered),
        p99(load.service_ms.as_ref()),
        p99(load.lag_ms.as_ref()),
    ))
}

/// Returns what watchers received, how much they differ, and how often they were interrupted.
fn watcher_notes(load: &Load) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(events) = load.events {
        notes.push(format!(
            "from a write's intended start to its event; {} events, each once and in order",
            Quantity::Count(events)
        ));
    }
    if load.foreign_events > 0 {
        notes.push(format!(
            "{} events of objects that were not the run's",
            Quantity::Count(load.foreign_events)
        ));
    }
    notes.extend(load.watchers.as_ref().and_then(watcher_spread));
    if let Some(cuts) = &load.cut_ms {
        notes.push(format!(
            "{} cuts, over after {} (the longest)",
            Quantity::Count(cuts.n),
            Quantity::or_absent(cuts.max.map(Quantity::Milliseconds))
        ));
    }
    if load.lost_streams > 0 {
        notes.push(format!(
            "{} of them not made by the load: the watchers went on where they were",
            Quantity::Count(load.lost_streams)
        ));
    }
    if load.relists > 0 {
        notes.push(format!(
            "{} watchers listed again, since what they were to go on with was compacted: {} events missed",
            Quantity::Count(load.relists),
            Quantity::Count(load.missed_events)
        ));
    }
    notes
}

/// Returns how much watchers differ, and which was the slowest; in a merged result only the
/// slowest.
fn watcher_spread(spread: &WatcherSpread) -> Option<String> {
    let slowest = spread.slowest.first()?;
    let mut reached = format!("the slowest event reached number {}", slowest.number);
    if let Some(generator) = slowest.generator {
        reached += &format!(" of generator {generator}");
    }
    let (what, of) = match (spread.p99_ms, spread.p50_ms) {
        (Some(p99), _) => ("p99", p99),
        (None, Some(p50)) => ("p50", p50),
        (None, None) => return slowest.generator.map(|_| reached),
    };
    Some(format!(
        "{what} of a watcher from {} over {} to {}; {reached}",
        Quantity::Milliseconds(of.min),
        Quantity::Milliseconds(of.p50),
        Quantity::Milliseconds(of.max),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Outcome, Spread, WatcherTimes};
    use workloads::strategy::Tier;

    #[test]
    fn a_mix_has_a_row_for_each_kind_and_says_what_to_know() {
        let mut case = Case::new("pods", "bench", Tier::Etcd, "mixed", Outcome::Measured);
        case.row = "mixed".to_owned();
        case.valid = true;
        let quantiles = Quantiles {
            n: 2_000,
            p50: Some(0.25),
            p99: Some(3.0),
            max: Some(9.0),
            ..Quantiles::default()
        };
        case.loads.push(Load {
            name: "small".to_owned(),
            operation: "get 4, update 1".to_owned(),
            arrivals: "1000-per-second".to_owned(),
            clients: 1,
            measured: true,
            requests: 2_000,
            conflicts: 3,
            offered_per_s: Some(1_000.0),
            latency_ms: Some(quantiles.clone()),
            service_ms: Some(quantiles),
            kinds: vec![LoadKind {
                operation: "update".to_owned(),
                requests: 400,
                conflicts: 3,
                ..LoadKind::default()
            }],
            ..Load::default()
        });
        let rows = rows([&case]);
        assert_eq!(rows.len(), 2);
        assert!(rows[0].counts);
        assert_eq!(rows[0].cells[7], "250 µs · 3.00 ms · 9.00 ms");
        assert!(rows[0].cells[8].contains("1,000/s intended; p99 from sending 3.00 ms"));
        assert_eq!(rows[1].cells[3], "– update");
        assert_eq!(rows[0].cells[8].matches("watcher").count(), 0);
        assert!(rows[1].cells[8].starts_with("3 requests found their key changed"));
    }

    #[test]
    fn watchers_that_fared_differently_are_told_apart() {
        let spread = WatcherSpread {
            p50_ms: Spread::of([0.4, 0.5, 9.0]),
            p99_ms: Spread::of([1.0, 2.0, 30.0]),
            slowest: vec![WatcherTimes {
                number: 17,
                max_ms: 50.0,
                ..WatcherTimes::default()
            }],
        };
        let text = watcher_spread(&spread).expect("three watchers");
        assert_eq!(
            text,
            "p99 of a watcher from 1.00 ms over 2.00 ms to 30.0 ms; the slowest event reached number 17"
        );
        let few = WatcherSpread {
            p99_ms: None,
            ..spread
        };
        let text = watcher_spread(&few).expect("three watchers");
        assert!(text.starts_with("p50 of a watcher from 400 µs"), "{text}");
        assert_eq!(watcher_spread(&WatcherSpread::default()), None);
        let merged = WatcherSpread {
            slowest: vec![WatcherTimes {
                number: 17,
                generator: Some(1),
                ..WatcherTimes::default()
            }],
            ..WatcherSpread::default()
        };
        let text = watcher_spread(&merged);
        assert_eq!(
            text.as_deref(),
            Some("the slowest event reached number 17 of generator 1")
        );
    }
}
