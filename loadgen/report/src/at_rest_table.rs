//! What servers held at rest, as text: the same cells for the terminal and the README.

use crate::quantity::Quantity;
use crate::result::{Case, Held, LoadRound, Verdict};

/// Titles of the cells, in order.
pub const TITLES: [&str; 8] = [
    "case",
    "target",
    "process",
    "what",
    "before",
    "after each round",
    "rise · allowed",
    "verdict",
];

/// The columns that contain numbers.
pub const NUMBERS: std::ops::RangeInclusive<usize> = 4..=6;

/// The maximal number of rounds that are shown. If there are more, the last ones are shown.
const SHOWN: usize = 6;

/// The cells of one row, in the order of [`TITLES`].
pub type AtRestRow = [String; TITLES.len()];

/// Returns the rows of all these cases; empty where no case repeats its loads on the same servers.
pub fn rows<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Vec<AtRestRow> {
    let mut rows = Vec::new();
    for case in cases {
        let Some(at_rest) = &case.at_rest else {
            continue;
        };
        let name = || [case.row.clone(), case.target.clone()];
        rows.extend(at_rest.held.iter().map(|held| of_held(name(), held)));
        rows.push(of_rounds(name(), &at_rest.rounds));
    }
    rows
}

fn of_held([case, target]: [String; 2], held: &Held) -> AtRestRow {
    let quantity = |held_then: &u64| held.kind.quantity(*held_then as f64).to_string();
    let (before, after) = held.at_rest.split_first().unwrap_or((&0, &[]));
    let mut shown: Vec<String> = after.iter().map(quantity).collect();
    if let Some(more) = shown.len().checked_sub(SHOWN).filter(|&more| more > 0) {
        shown.drain(..more);
        shown.insert(0, "…".to_owned());
    }
    let verdict = match held.verdict {
        Verdict::Returned if held.kind.must_equal() => "the same",
        Verdict::Returned => "no rise",
        Verdict::NotReturned if held.kind.must_equal() => "NOT THE SAME",
        Verdict::NotReturned => "RISES",
        Verdict::CannotTell => "cannot tell",
    };
    let rise = match held.kind.must_equal() {
        true => "must be equal".to_owned(),
        false => format!(
            "{} · {}",
            held.kind.quantity(held.growth),
            held.kind.quantity(held.allowed)
        ),
    };
    [
        case,
        target,
        held.process.clone(),
        held.kind.to_string(),
        quantity(before),
        shown.join(" "),
        rise,
        verdict.to_owned(),
    ]
}

/// Returns the row with the totals of requests, events and cuts of all rounds.
fn of_rounds([case, target]: [String; 2], rounds: &[LoadRound]) -> AtRestRow {
    let sum = |of: fn(&LoadRound) -> u64| Quantity::Count(rounds.iter().map(of).sum());
    let seconds: f64 = rounds.iter().map(|round| round.elapsed_s).sum();
    [
        case,
        target,
        String::new(),
        format!("in {} rounds", rounds.len()),
        Quantity::seconds(seconds).to_string(),
        format!("{} requests", sum(|round| round.requests)),
        format!("{} events", sum(|round| round.events)),
        format!("each once, {} cuts", sum(|round| round.cuts)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{AtRest, HeldKind, Outcome};
    use workloads::strategy::Tier;

    #[test]
    fn each_kind_has_a_row_and_the_rounds_one_below() {
        let mut case = Case::new("few", "bench", Tier::Etcd, "soak", Outcome::Measured);
        assert!(rows([&case]).is_empty());
        case.row = "soak".to_owned();
        let held = |kind, at_rest: &[u64]| Held::judged("etcd", kind, at_rest.to_vec());
        let rounds = (0..8).map(|_| LoadRound {
            requests: 1_000,
            events: 200,
            cuts: 3,
            elapsed_s: 10.0,
        });
        case.at_rest = Some(AtRest {
            rounds: rounds.collect(),
            held: vec![
                held(HeldKind::Watchers, &[0, 0, 0, 0, 0, 0, 0, 0, 1]),
                held(HeldKind::Threads, &[7, 9, 9, 9, 9, 9, 9, 9, 9]),
            ],
        });
        let rows = rows([&case]);
        assert_eq!(rows.len(), 3);
        assert_eq!(
            rows[0][3..],
            [
                "watchers",
                "0",
                "… 0 0 0 0 0 1",
                "must be equal",
                "NOT THE SAME"
            ]
        );
        assert_eq!(rows[1][4..], ["7", "… 9 9 9 9 9 9", "0 · 2", "no rise"]);
        assert_eq!(
            rows[2][3..],
            [
                "in 8 rounds",
                "80.0 s",
                "8,000 requests",
                "1,600 events",
                "each once, 24 cuts"
            ]
        );
    }
}
