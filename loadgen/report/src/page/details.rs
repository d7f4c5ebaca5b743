//! The details below the tables: every metric of every case, what was received, the servers'
//! counters, and cases that do not count.

use serde::Serialize;

use crate::case_text::{CaseRow, TITLES};
use crate::quantity::Quantity;
use crate::result::{Case, DataSet, Outcome, Report};

use super::matrix;
use super::side_by_side::SideBySide;

/// The details of one data set.
#[derive(Debug, Serialize)]
pub(super) struct Details<'a> {
    name: &'a str,
    about: String,
    titles: [&'static str; TITLES.len()],
    rows: Vec<CaseRow>,
    gaps: Vec<[String; 5]>,
    verified: Vec<[String; 6]>,
    counters: Vec<(String, String)>,
}

impl<'a> Details<'a> {
    /// Returns the details of a data set and its cases.
    pub(super) fn of(report: &'a Report, data_set: &'a DataSet) -> Self {
        let cases = || {
            let cases = report.cases.iter();
            cases.filter(|case| case.data_set == data_set.name)
        };
        let counters = cases().flat_map(|case| {
            let counters = case.server.iter().flat_map(|server| &server.counters);
            counters.map(move |(name, count)| {
                (
                    format!("{}: {name}", short_name(case)),
                    Quantity::Count(*count).to_string(),
                )
            })
        });
        Self {
            name: &data_set.name,
            about: about(data_set),
            titles: TITLES,
            rows: cases().map(CaseRow::of).collect(),
            gaps: cases().filter_map(gaps).collect(),
            verified: cases()
                .filter_map(|case| verified(case, data_set))
                .collect(),
            counters: counters.collect(),
        }
    }
}

/// Returns the description of a data set, with what is needed to generate the same bytes again.
pub(super) fn about(data_set: &DataSet) -> String {
    let mut words = vec![matrix::about(data_set)];
    words.extend(data_set.seed.map(|seed| format!("seed {seed}")));
    let fingerprint = data_set.fingerprint.as_ref();
    words.extend(fingerprint.map(|of| format!("fingerprint {of}")));
    words.join(", ")
}

/// Returns the cases that do not count: their names, targets, outcome and reason. Cases and targets
/// with the same reason are combined.
pub(super) fn refused(cases: &SideBySide<'_>) -> Vec<Refused> {
    let mut found: Vec<Refused> = Vec::new();
    for (at, target) in cases.targets.iter().enumerate() {
        let mut of_target: Vec<Refused> = Vec::new();
        for work in &cases.works {
            let Some(case) = work.cases[at].filter(|case| !case.counts()) else {
                continue;
            };
            let (outcome, reason) = (outcome(case), case.refusal());
            let same = |it: &&mut Refused| it.reason == reason && it.outcome == outcome;
            match of_target.iter_mut().find(same) {
                Some(known) => known.cases.push(matrix::title(work)),
                None => of_target.push(Refused {
                    targets: vec![(*target).to_owned()],
                    outcome,
                    cases: vec![matrix::title(work)],
                    reason: reason.to_owned(),
                }),
            }
        }
        for refused in of_target {
            let same = |it: &&mut Refused| {
                it.cases == refused.cases
                    && it.reason == refused.reason
                    && it.outcome == refused.outcome
            };
            match found.iter_mut().find(same) {
                Some(known) => known.targets.extend(refused.targets),
                None => found.push(refused),
            }
        }
    }
    found
}

/// Cases that do not count, for the same reason.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Refused {
    targets: Vec<String>,
    outcome: &'static str,
    cases: Vec<String>,
    reason: String,
}

fn outcome(case: &Case) -> &'static str {
    match case.outcome {
        Outcome::NotApplicable { .. } => "N/A",
        Outcome::Failed { .. } => "FAILED",
        Outcome::Invalid { .. } => "INVALID",
        Outcome::Stopped { .. } => "stopped",
        Outcome::Interrupted => "interrupted",
        Outcome::Measured if case.valid => "profiled",
        Outcome::Measured => "not valid",
    }
}

fn short_name(case: &Case) -> String {
    format!(
        "{} {} {}",
        case.target,
        case.tier,
        crate::case_text::strategy(case)
    )
}

/// Returns a case's quantiles of the longest time in a list in which no object arrived.
fn gaps(case: &Case) -> Option<[String; 5]> {
    let gaps = case.longest_gap_ms.as_ref()?;
    let [p50, p99, max] = [gaps.p50, gaps.p99, gaps.max]
        .map(|ms| Quantity::or_absent(ms.map(Quantity::Milliseconds)));
    let lists = Quantity::Count(gaps.n).to_string();
    Some([short_name(case), lists, p50, p99, max])
}

fn verified(case: &Case, data_set: &DataSet) -> Option<[String; 6]> {
    let verified = case.verified.as_ref()?;
    let verdict = match &data_set.fingerprint {
        Some(expected) if *expected == verified.fingerprint => "as seeded",
        // A list with wrong contents makes its case fail, so this list was a part of the data set.
        Some(_) if case.counts() => "the part that was asked for, as seeded",
        Some(_) => "NOT as seeded",
        None => "nothing to hold it against",
    };
    // For a case of small requests, one list is made to check that all objects exist.
    let lists = case.requests_per_s.map_or(case.requests, |_| 1);
    Some([
        short_name(case),
        Quantity::Count(lists).to_string(),
        Quantity::Count(verified.objects).to_string(),
        Quantity::bytes(verified.bytes).to_string(),
        verified.fingerprint.clone(),
        verdict.to_owned(),
    ])
}

#[cfg(test)]
mod tests {
    use workloads::strategy::Tier;

    use super::*;
    use crate::page::fixture;

    #[test]
    fn one_reason_is_said_once_with_the_cases_that_it_holds_for() {
        let mut report = fixture::report(&[("bench", "unary", 1.0)]);
        let both = ["stream", "stream-big"];
        for (target, strategy) in ["etcd", "etcd-fsync"]
            .iter()
            .flat_map(|it| both.map(|s| (it, s)))
        {
            let reason = "no RangeStream".to_owned();
            let na = Outcome::NotApplicable { reason };
            report
                .cases
                .push(Case::new("pods", target, Tier::Etcd, strategy, na));
        }
        let refused = refused(&SideBySide::of(&report));
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(refused[0].cases, ["stream", "stream-big"]);
        assert_eq!(refused[0].targets, ["etcd", "etcd-fsync"]);
        assert_eq!(refused[0].outcome, "N/A");
    }
}
