//! One line about what was run, when and where, and a list of facts about the validity of the
//! results.

use serde::Serialize;

use workloads::scenario::Scenario;

use crate::machine::{DISTURBED, percent};
use crate::quantity::Quantity;
use crate::result::{Case, Outcome, PROFILED, Report};

/// How a fact affects the validity of the results. Each has a sign, since not every reader sees
/// colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Standing {
    /// As it should be.
    Good,
    /// The reader should know it before comparing results.
    Mind,
    /// Results are missing or wrong.
    Bad,
}

/// One fact in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Fact {
    pub(super) standing: Standing,
    pub(super) sign: &'static str,
    pub(super) text: String,
}

impl Fact {
    fn new(standing: Standing, text: impl Into<String>) -> Self {
        let sign = match standing {
            Standing::Good => "✓",
            Standing::Mind => "!",
            Standing::Bad => "✗",
        };
        Self {
            standing,
            sign,
            text: text.into(),
        }
    }
}

/// Returns a scenario's own summary; `None` for a scenario that this version cannot read.
pub(super) fn scenario_summary(scenario_toml: &str) -> Option<String> {
    let scenario = Scenario::parse(scenario_toml, "scenario.toml").ok()?;
    Some(scenario.summary).filter(|summary| !summary.is_empty())
}

/// Returns one line: the objects, when and where the scenario ran, and for how long.
pub(super) fn line(report: &Report) -> String {
    let data_sets = report.data_sets.iter().map(|data_set| {
        format!(
            "{} objects ({})",
            Quantity::Count(data_set.objects),
            Quantity::bytes(data_set.bytes)
        )
    });
    let data_sets: Vec<String> = data_sets.collect();
    let environment = &report.environment;
    let mut words = Vec::new();
    words.extend((!data_sets.is_empty()).then(|| data_sets.join(", ")));
    words.push(when(&report.started));
    words.push(format!(
        "{}: {} cores of {}, {}",
        environment.host,
        environment.cores,
        environment.cpu_model,
        Quantity::bytes(environment.memory_bytes)
    ));
    words.push(format!("{} in all", Quantity::seconds(report.elapsed_s)));
    words.join(" · ")
}

/// Returns a time without seconds: `2026-01-02 03:04 UTC`. Text that is not a time is returned
/// unchanged.
pub(super) fn when(started: &str) -> String {
    match started.split_once('T') {
        Some((date, time)) if time.len() >= 5 => format!("{date} {} UTC", &time[..5]),
        _ => started.to_owned(),
    }
}

/// Returns the facts that affect the validity of the results, the worst first.
pub(super) fn validity(report: &Report) -> Vec<Fact> {
    let cases = &report.cases;
    let mut facts = Vec::new();
    if report.interrupted {
        let text = "the run was interrupted: what was measured until then is here";
        facts.push(Fact::new(Standing::Bad, text));
    }
    if report.environment.profile == "debug" {
        let text = "the generator was a debug build: its figures say nothing about a target";
        facts.push(Fact::new(Standing::Bad, text));
    }
    facts.push(outcomes(cases));
    facts.extend(responses(cases));
    facts.push(machine(cases));
    facts.extend(warm_up(cases));
    facts.extend(starts(cases));
    for (of, text) in [
        (
            count(cases, |case| case.saturated),
            "did not keep its rate (saturated)",
        ),
        (
            count(cases, |case| case.client_limited),
            "limited by the client's checking",
        ),
    ] {
        let some = (of > 0).then(|| format!("{} {text}", of_cases(of)));
        facts.extend(some.map(|text| Fact::new(Standing::Mind, text)));
    }
    let rank = |fact: &Fact| match fact.standing {
        Standing::Bad => 0,
        Standing::Mind => 1,
        Standing::Good => 2,
    };
    facts.sort_by_key(rank);
    facts
}

/// Returns how many cases count, and the outcomes of the others.
fn outcomes(cases: &[Case]) -> Fact {
    let all = cases.len();
    let counted = count(cases, Case::counts);
    let of_kind = |name: &str| count(cases, |case| kind(&case.outcome) == Some(name));
    let mut text = format!("{counted} of {all} cases count");
    let profiled = count(cases, |case| case.refusal() == PROFILED);
    let mut standing = match (counted, profiled) {
        (0, 0) => Standing::Bad,
        (_, 0) => Standing::Good,
        // Profiles were requested, so there is nothing to rank.
        _ => Standing::Mind,
    };
    let mut named = profiled;
    if profiled > 0 {
        text.push_str(&format!(", {profiled} profiled"));
    }
    for name in ["failed", "invalid", "stopped", "interrupted", "N/A"] {
        let found = of_kind(name);
        named += found;
        if found > 0 {
            text.push_str(&format!(", {found} {name}"));
            standing = match name {
                "failed" => Standing::Bad,
                "N/A" => standing,
                _ if standing == Standing::Good => Standing::Mind,
                _ => standing,
            };
        }
    }
    if counted + named < all {
        text.push_str(&format!(", {} not valid", all - counted - named));
        standing = Standing::Bad;
    }
    Fact::new(standing, text)
}

/// Returns the outcome of a case without results.
fn kind(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Measured => None,
        Outcome::Failed { .. } => Some("failed"),
        Outcome::Invalid { .. } => Some("invalid"),
        Outcome::Stopped { .. } => Some("stopped"),
        Outcome::Interrupted => Some("interrupted"),
        Outcome::NotApplicable { .. } => Some("N/A"),
    }
}

/// Returns whether responses were valid. Saturated cases are skipped, since their errors may be
/// caused by the load; they are a fact of their own.
fn responses(cases: &[Case]) -> Option<Fact> {
    let measured = || {
        let measured = cases.iter();
        measured.filter(|case| !case.saturated && case.requests > 0)
    };
    let requests: u64 = measured().map(|case| case.requests).sum();
    let wrong: u64 = measured().map(|case| case.errors).sum();
    if requests == 0 {
        return None;
    }
    let requests = Quantity::Count(requests);
    Some(match wrong {
        0 => Fact::new(
            Standing::Good,
            format!("{requests} responses checked, none wrong"),
        ),
        _ => {
            let wrong = Quantity::Count(wrong);
            let text = format!("{wrong} of {requests} responses failed or were wrong");
            Fact::new(Standing::Bad, text)
        }
    })
}

/// Returns how much of the machine's CPU others used.
fn machine(cases: &[Case]) -> Fact {
    let parts = cases
        .iter()
        .filter_map(|case| case.machine?.others_cpu_part);
    let parts: Vec<f64> = parts.collect();
    let Some(most) = parts.iter().copied().reduce(f64::max) else {
        return Fact::new(Standing::Mind, "how quiet the machine was is not known");
    };
    let disturbed = parts.iter().filter(|part| **part > DISTURBED).count();
    match disturbed {
        0 => Fact::new(
            Standing::Good,
            format!(
                "machine quiet: others had {} of its CPU at most",
                percent(most)
            ),
        ),
        _ => Fact::new(
            Standing::Mind,
            format!(
                "machine not quiet in {}: others had up to {} of its CPU",
                of_cases(disturbed),
                percent(most)
            ),
        ),
    }
}

/// Returns whether time and memory were steady after the warm-up.
fn warm_up(cases: &[Case]) -> Option<Fact> {
    let warmed = cases.iter().filter_map(|case| case.warm_up?.stands_still);
    let warmed: Vec<bool> = warmed.collect();
    let restless = warmed.iter().filter(|stands_still| !**stands_still).count();
    (!warmed.is_empty()).then(|| match restless {
        0 => Fact::new(
            Standing::Good,
            "time and memory stood still before measuring",
        ),
        _ => Fact::new(
            Standing::Mind,
            format!("{} never stood still while warming up", of_cases(restless)),
        ),
    })
}

/// Returns how many starts of the servers were measured.
fn starts(cases: &[Case]) -> Option<Fact> {
    let counted = cases.iter().filter(|case| case.counts());
    let starts = counted.map(|case| case.starts.len().max(1));
    let (least, most) = starts.fold((usize::MAX, 0), |(least, most), starts| {
        (least.min(starts), most.max(starts))
    });
    match (least, most) {
        (_, 0) => None,
        (_, 1) => Some(Fact::new(
            Standing::Mind,
            "one start of each server: how much starts differ is not known",
        )),
        (least, most) if least == most => Some(Fact::new(
            Standing::Good,
            format!("{most} starts of each server"),
        )),
        (least, most) => Some(Fact::new(
            Standing::Good,
            format!("{least} to {most} starts of each server"),
        )),
    }
}

fn count(cases: &[Case], is_so: impl Fn(&Case) -> bool) -> usize {
    cases.iter().filter(|case| is_so(case)).count()
}

fn of_cases(count: usize) -> String {
    match count {
        1 => "1 case".to_owned(),
        _ => format!("{count} cases"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use crate::result::{CpuProfile, MachineLoad};

    fn facts_of(report: &Report) -> Vec<(Standing, String)> {
        let facts = validity(report).into_iter();
        facts.map(|fact| (fact.standing, fact.text)).collect()
    }

    #[test]
    fn a_good_run_has_no_bad_fact_and_a_failed_one_begins_with_it() {
        let mut report = fixture::report(&[("bench", "stream", 1.0), ("bench", "unary", 2.0)]);
        for case in &mut report.cases {
            case.machine = Some(MachineLoad {
                others_cpu_part: Some(0.01),
                ..MachineLoad::default()
            });
        }
        let facts = facts_of(&report);
        assert!(facts.contains(&(Standing::Good, "2 of 2 cases count".to_owned())));
        assert!(facts.contains(&(
            Standing::Good,
            "10 responses checked, none wrong".to_owned()
        )));
        assert!(facts.iter().all(|(standing, _)| *standing != Standing::Bad));
        let reason = "149,999 of 150,000 objects".to_owned();
        report.cases[1].outcome = Outcome::Failed { reason };
        report.cases[1].valid = false;
        report.cases[1].errors = 1;
        report.cases[0].machine = None;
        let facts = facts_of(&report);
        assert_eq!(
            facts[0],
            (Standing::Bad, "1 of 2 cases count, 1 failed".to_owned())
        );
        assert_eq!(facts[1].1, "1 of 10 responses failed or were wrong");
    }

    #[test]
    fn profiled_cases_have_figures_that_are_not_ranked_and_that_is_no_fault() {
        let mut report = fixture::report(&[("bench", "stream", 1.0), ("bench", "unary", 2.0)]);
        report.cases[0].profiles = vec![CpuProfile {
            sampled_s: 2.0,
            ..CpuProfile::default()
        }];
        let one = "1 of 2 cases count, 1 profiled".to_owned();
        assert!(facts_of(&report).contains(&(Standing::Mind, one)));
        report.cases[1].profiles = report.cases[0].profiles.clone();
        let both = "0 of 2 cases count, 2 profiled".to_owned();
        assert!(facts_of(&report).contains(&(Standing::Mind, both)));
        report.cases[1].valid = false;
        let invalid = "0 of 2 cases count, 1 profiled, 1 not valid".to_owned();
        assert!(facts_of(&report).contains(&(Standing::Bad, invalid)));
    }

    #[test]
    fn an_unknown_machine_is_no_quiet_one() {
        let report = fixture::report(&[("bench", "stream", 1.0)]);
        let unknown = "how quiet the machine was is not known".to_owned();
        assert!(facts_of(&report).contains(&(Standing::Mind, unknown)));
    }

    #[test]
    fn times_are_to_the_minute() {
        assert_eq!(when("2026-01-02T03:04:05.678Z"), "2026-01-02 03:04 UTC");
        assert_eq!(when("yesterday"), "yesterday");
    }
}
