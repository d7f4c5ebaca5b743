//! The summary of a result in one or two sentences, or a sentence that there is none.

use crate::compare::{Metric, Verdict};
use crate::quantity::{Quantity, three_digits};
use crate::result::{Case, Report, Threshold, targets_of};

use super::pairs::{Pairs, figure};
use super::side_by_side::{SideBySide, Work};

/// The value of a metric, and the case as sentences name it.
struct Found {
    value: f64,
    name: String,
}

/// Returns the sentences of the summary.
pub(super) fn sentences(report: &Report, cases: &SideBySide<'_>, pairs: &Pairs) -> Vec<String> {
    let has_counted = report.cases.iter().any(|case| case.counts());
    if !has_counted && report.cases.iter().any(Case::is_profiled) {
        let sentence = "Cases were profiled: see where the time went. What it took includes the profiler's cost.";
        return vec![sentence.to_owned()];
    }
    if !has_counted {
        return vec!["No case was measured to a valid end: no conclusion.".to_owned()];
    }
    let mut sentences: Vec<String> = match cases.targets.len() {
        1 => alone(cases).into_iter().collect(),
        targets => (1..targets)
            .flat_map(|target| against_first(cases, pairs, target))
            .collect(),
    };
    sentences.extend(saturation(report));
    sentences.extend(thresholds(&report.thresholds));
    sentences
}

/// Returns the comparison of a target with the first. If several cases were compared, only the
/// comparison of the second target names the cases with the extreme ratios.
fn against_first(cases: &SideBySide<'_>, pairs: &Pairs, target: usize) -> Vec<String> {
    let (base, name) = (cases.targets[0], cases.targets[target]);
    let mut ratios: Vec<Found> = Vec::new();
    for work in &cases.works {
        let Some(pair) = pairs.of_metric(work, target, Metric::P50) else {
            continue;
        };
        ratios.push(Found {
            value: pair.ratio,
            name: beside(cases, work, target, Metric::P50),
        });
    }
    ratios.sort_by(|a, b| a.value.total_cmp(&b.value));
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else {
        let nothing = format!(
            "No case has comparable times of both {name} and {base}: no conclusion about which is faster."
        );
        return vec![cache_fills(cases, target).unwrap_or(nothing)];
    };
    let longer = ratios.iter().filter(|found| found.value > 1.0).count();
    let all = ratios.len();
    let what = match longer {
        0 => format!("{name} took less time than {base}"),
        _ => format!("{name} took longer than {base}"),
    };
    let of_cases = match (longer, all) {
        (_, 1) => "in the one case that both measured".to_owned(),
        (0 | 2, 2) => "in both cases that both measured".to_owned(),
        (some, _) if some > 0 && some < all => {
            format!("in {some} of {all} cases that both measured")
        }
        _ => format!("in all {all} cases that both measured"),
    };
    let (lowest, highest) = (times(least.value), times(most.value));
    let range = match all {
        1 => format!("{lowest} ({})", least.name),
        _ if target > 1 => format!("{lowest} to {highest}"),
        _ => format!("{lowest} ({}) to {highest} ({})", least.name, most.name),
    };
    let memory = memory(cases, target).unwrap_or_default();
    let mut sentences = vec![format!("{what} {of_cases}, {range} the time{memory}.")];
    sentences.extend(certainty(pairs, target));
    sentences
}

/// Returns the highest memory above idle of both targets, over the cases that both have.
fn memory(cases: &SideBySide<'_>, target: usize) -> Option<String> {
    let most = |of: usize| {
        let has = |work: &Work<'_>, at| work.counted(at).is_some_and(|it| it.server.is_some());
        let both = cases.works.iter();
        let both = both.filter(|work| has(work, 0) && has(work, target));
        let servers = both.filter_map(|work| work.counted(of)?.server.as_ref());
        let most = servers.max_by_key(|server| server.peak_above_idle)?;
        let above = Quantity::bytes_within(most.peak_above_idle, most.rss_resolution);
        Some(above.to_string())
    };
    Some(format!(
        ", and its memory above idle peaked at {} ({}: {})",
        most(target)?,
        cases.targets[0],
        most(0)?
    ))
}

/// Returns how long it took to fill the watch caches of a target and of the first one.
fn cache_fills(cases: &SideBySide<'_>, target: usize) -> Option<String> {
    let seconds = |work: &Work<'_>, of| {
        let tier = work.counted(of)?.server.as_ref()?.kube.as_ref()?;
        tier.cache_fill_s.map(Quantity::seconds)
    };
    let beside = cases.works.iter().filter_map(|work| {
        let (own, first) = (seconds(work, target)?, seconds(work, 0)?);
        Some(format!("{own} and {first} (`{}`)", full_name(cases, work)))
    });
    let beside: Vec<String> = beside.collect();
    let [first, name] = [0, target].map(|at| cases.targets[at]);
    (!beside.is_empty()).then(|| {
        let beside = beside.join(", ");
        // The first two times include the targets' names.
        let named = beside.replacen(" and ", &format!(" and {first} "), 1);
        format!("Filling its watch cache took {name} {named}.")
    })
}

/// Returns the verdicts on the times, where there are several starts.
fn certainty(pairs: &Pairs, target: usize) -> Option<String> {
    let verdicts = pairs.verdicts(target, Metric::P50);
    let of = |is_so: fn(&Verdict) -> bool, word: &str| {
        let count = verdicts.iter().filter(|verdict| is_so(verdict)).count();
        (count > 0).then(|| format!("{word} in {count}"))
    };
    let words = [
        of(|it| *it == Verdict::Worse, "surely slower"),
        of(|it| *it == Verdict::Better, "surely faster"),
        of(|it| *it == Verdict::NoDifference, "no different"),
        of(|it| matches!(it, Verdict::CannotTell(_)), "cannot tell"),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| format!("Over several starts: {}.", words.join(", ")))
}

/// Returns the fastest and the slowest time of a single target: of whole lists by one client if
/// there are several of those, otherwise of all its cases.
fn alone(cases: &SideBySide<'_>) -> Option<String> {
    let counted = cases.works.iter();
    let counted = counted.filter_map(|work| Some((work, work.counted(0)?)));
    let timed = counted.filter(|(_, case)| !case.saturated && figure(case, Metric::P50).is_some());
    let timed: Vec<(&Work<'_>, &Case)> = timed.collect();
    let objects = timed.iter().map(|(_, case)| case.objects).max()?;
    let is_whole = |case: &Case| {
        let is_list = case.requests_per_s.is_none() && case.watchers.is_none();
        is_list && case.loads.is_empty() && case.clients == 1 && case.objects == objects
    };
    let whole: Vec<_> = timed.iter().filter(|(_, case)| is_whole(case)).collect();
    let (mut of, what) = match whole.len() {
        0 | 1 => (timed.iter().collect(), "cases".to_owned()),
        _ => {
            let objects = Quantity::Count(objects);
            (whole, format!("lists of {objects} objects by one client"))
        }
    };
    let time = |(_, case): &(&Work<'_>, &Case)| figure(case, Metric::P50).unwrap_or_default();
    of.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let (fastest, slowest) = of.first().zip(of.last())?;
    let [fast, slow] = [fastest, slowest].map(|found| Quantity::Milliseconds(time(found)));
    let name = |found: &(&Work<'_>, &Case)| full_name(cases, found.0);
    let mut sentence = match of.len() {
        1 => format!("`{}` took {} {fast}", name(fastest), cases.targets[0]),
        count => format!(
            "Of {count} {what} the fastest was `{}` with {fast}, the slowest `{}` with {slow}",
            name(fastest),
            name(slowest)
        ),
    };
    let servers = of
        .iter()
        .filter_map(|found| Some((found.1.server.as_ref()?, found)));
    if let Some((server, found)) = servers.max_by_key(|(server, _)| server.peak_above_idle) {
        let above = Quantity::bytes_within(server.peak_above_idle, server.rss_resolution);
        let of = match of.len() {
            1 => String::new(),
            _ => format!(" (`{}`)", name(found)),
        };
        sentence.push_str(&format!("; memory above idle peaked at {above}{of}"));
    }
    Some(sentence + ".")
}

/// Returns which targets did not achieve the rates that were offered.
fn saturation(report: &Report) -> Option<String> {
    let offered = |target: &str| {
        let of_target = report.cases.iter().filter(|case| case.target == target);
        let offered = of_target.filter(|case| {
            case.offered_per_s.is_some() || case.loads.iter().any(|it| it.offered_per_s.is_some())
        });
        let offered: Vec<bool> = offered.map(|case| case.saturated).collect();
        let kept = offered.iter().filter(|saturated| !**saturated).count();
        (!offered.is_empty()).then_some((kept, offered.len()))
    };
    let found = targets_of(&report.cases).into_iter();
    let found = found.filter_map(|target| Some((target, offered(target)?)));
    let found: Vec<(&str, (usize, usize))> = found.collect();
    let is_any_missed = found.iter().any(|(_, (kept, all))| kept < all);
    let words = found
        .iter()
        .map(|(target, (kept, all))| format!("{target} {kept} of {all}"));
    let words: Vec<String> = words.collect();
    is_any_missed.then(|| format!("Rates that were kept: {}.", words.join(", ")))
}

/// Returns how many thresholds are met, and which are missed.
///
/// Limits that others published, measured on other machines, are counted separately.
fn thresholds(thresholds: &[Threshold]) -> impl Iterator<Item = String> {
    let all = thresholds.iter();
    let (published, own): (Vec<_>, Vec<_>) = all.partition(|it| it.source.is_some());
    let own = counted(&own, ["threshold", "thresholds"]);
    let names = ["published figure of others", "published figures of others"];
    own.into_iter().chain(counted(&published, names))
}

/// Returns how many of the thresholds are met. The names are singular and plural.
fn counted(thresholds: &[&Threshold], [one, several]: [&str; 2]) -> Option<String> {
    const NAMED: usize = 3;
    if thresholds.is_empty() {
        return None;
    }
    let of = |met: Option<bool>| {
        thresholds
            .iter()
            .filter(move |threshold| threshold.met == met)
    };
    let met = of(Some(true)).count();
    let (undecided, unmeasured): (Vec<&Threshold>, Vec<&Threshold>) =
        of(None).partition(|threshold| threshold.value.is_some());
    let missed: Vec<&str> = of(Some(false))
        .map(|threshold| threshold.name.as_str())
        .collect();
    if met == thresholds.len() {
        return Some(match met {
            1 => format!("The {one} is met."),
            2 => format!("Both {several} are met."),
            _ => format!("All {met} {several} are met."),
        });
    }
    let mut sentence = format!("Of {} {several} {met} are met", thresholds.len());
    for (some, word) in [(undecided, "undecided"), (unmeasured, "not measured")] {
        if !some.is_empty() {
            sentence.push_str(&format!(", {} {word}", some.len()));
        }
    }
    if !missed.is_empty() {
        let named = missed[..missed.len().min(NAMED)].join("; ");
        let more = match missed.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        sentence.push_str(&format!(", {} missed ({named}{more})", missed.len()));
    }
    Some(sentence + ".")
}

/// Returns a case with the values of both targets: `` `stream`: 1.64 s against 505 ms ``.
fn beside(cases: &SideBySide<'_>, work: &Work<'_>, target: usize, metric: Metric) -> String {
    let of = |target: usize| {
        let value = work.counted(target).and_then(|case| figure(case, metric));
        Quantity::or_absent(value.map(|value| metric.quantity(value)))
    };
    let name = full_name(cases, work);
    format!("`{name}`: {} against {}", of(target), of(0))
}

/// Returns a case's name, with what distinguishes it from others of that name in the result.
fn full_name(cases: &SideBySide<'_>, work: &Work<'_>) -> String {
    let same_name = |other: &&Work<'_>| other.name == work.name;
    let same = || cases.works.iter().filter(same_name);
    let mut name = work.name.clone();
    let in_data_set: Vec<&Case> = same()
        .filter(|it| it.data_set == work.data_set)
        .filter_map(|it| it.present().next().map(|(_, case)| case))
        .collect();
    if let (Some((_, case)), true) = (work.present().next(), in_data_set.len() > 1) {
        let has_tiers = in_data_set.iter().any(|other| other.tier != case.tier);
        let mut words = vec![name];
        words.extend(has_tiers.then(|| format!("{} tier", case.tier)));
        words.extend(case.options());
        name = words.join(", ");
    }
    let in_data_set = in_data_set.len();
    if same().count() > in_data_set {
        name.push_str(&format!(" of {}", work.data_set));
    }
    name
}

fn times(ratio: f64) -> String {
    format!("{} ×", three_digits(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use crate::result::{SavedResult, TierMetrics};

    fn text(report: &Report) -> String {
        let result = SavedResult {
            report: report.clone(),
            histograms: Vec::new(),
            series: Vec::new(),
            load_intervals: Vec::new(),
            scenario_toml: String::new(),
        };
        let cases = SideBySide::of(report);
        sentences(report, &cases, &Pairs::of(&result, &cases)).join(" ")
    }

    #[test]
    fn two_targets_are_held_against_each_other_by_their_figures() {
        let mut report = fixture::report(&[
            ("bench", "unary", 500.0),
            ("etcd", "unary", 1_500.0),
            ("bench", "stream", 400.0),
            ("etcd", "stream", 2_000.0),
        ]);
        assert_eq!(
            text(&report),
            "etcd took longer than bench in both cases that both measured, 3.00 × \
             (`unary`: 1.50 s against 500 ms) to 5.00 × (`stream`: 2.00 s against 400 ms) the time, \
             and its memory above idle peaked at 1.95 GiB (bench: 500 MiB)."
        );
        report.cases[1].latency_ms.as_mut().expect("it has").p50 = Some(250.0);
        assert!(text(&report).starts_with("etcd took longer than bench in 1 of 2 cases"));
        report.cases[3].latency_ms.as_mut().expect("it has").p50 = Some(200.0);
        assert!(text(&report).starts_with("etcd took less time than bench in both cases"));
    }

    #[test]
    fn without_comparable_or_valid_cases_there_is_no_conclusion() {
        let mut report = fixture::report(&[("bench", "unary", 500.0), ("etcd", "stream", 1.0)]);
        assert!(
            text(&report).contains("no conclusion about which is faster"),
            "{}",
            text(&report)
        );
        for case in &mut report.cases {
            case.valid = false;
        }
        let none = "No case was measured to a valid end: no conclusion.";
        assert_eq!(text(&report), none);
    }

    #[test]
    fn caches_that_fill_are_held_against_each_other_where_nobody_lists() {
        let mut report = fixture::report(&[("bench", "no-lists", 1.0), ("other", "no-lists", 1.0)]);
        for (case, fill) in report.cases.iter_mut().zip([1.5, 4.5]) {
            case.latency_ms = None;
            let server = case.server.as_mut().expect("it has");
            server.kube = Some(TierMetrics {
                cache_fill_s: Some(fill),
                ..TierMetrics::default()
            });
        }
        assert_eq!(
            text(&report),
            "Filling its watch cache took other 4.50 s and bench 1.50 s (`no-lists`)."
        );
    }

    #[test]
    fn one_target_has_its_fastest_and_slowest_case() {
        let mut report = fixture::report(&[
            ("bench", "unary", 500.0),
            ("bench", "stream", 400.0),
            ("bench", "read-your-write", 1.0),
        ]);
        report.cases[..2]
            .iter_mut()
            .for_each(|case| case.objects = 1_000);
        assert_eq!(
            text(&report),
            "Of 2 lists of 1,000 objects by one client the fastest was `stream` with 400 ms, the slowest `unary` with 500 ms; \
             memory above idle peaked at 500 MiB (`unary`)."
        );
    }

    #[test]
    fn published_figures_of_others_are_counted_apart() {
        let threshold = |name: &str, source: Option<&str>, met| Threshold {
            name: name.to_owned(),
            source: source.map(str::to_owned),
            met,
            value: Some(1.0),
            ..Threshold::default()
        };
        let count = |all: &[Threshold]| thresholds(all).collect::<Vec<_>>().join(" ");
        let own = [
            threshold("a", None, Some(true)),
            threshold("b", None, Some(false)),
            threshold("c", None, None),
            Threshold {
                value: None,
                ..threshold("without a figure", None, None)
            },
        ];
        let published = [
            threshold("d", Some("KEP-2340"), Some(true)),
            threshold("e", Some("KEP-3157"), Some(true)),
        ];
        let of_own = "Of 4 thresholds 1 are met, 1 undecided, 1 not measured, 1 missed (b).";
        let of_published = "Both published figures of others are met.";
        assert_eq!(count(&own), of_own);
        assert_eq!(count(&published), of_published);
        let all = [&own[..], &published].concat();
        assert_eq!(count(&all), format!("{of_own} {of_published}"));
        assert_eq!(count(&[]), "");
    }
}
