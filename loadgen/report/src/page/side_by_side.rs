//! The cases of a result side by side: one line for each work, one column for each target.

use crate::case_text;
use crate::result::{Case, Report, ServedFrom, targets_of};

/// The cases of a result, arranged for comparison.
#[derive(Debug)]
pub(super) struct SideBySide<'a> {
    /// The targets. The first one is the base of every ratio.
    pub(super) targets: Vec<&'a str>,
    /// The works, grouped by data set, in the order in which they ran.
    pub(super) works: Vec<Work<'a>>,
}

/// Work that targets did, independent of the target.
#[derive(Debug)]
pub(super) struct Work<'a> {
    /// [`Case::data_set`].
    pub(super) data_set: &'a str,
    /// [`Case::work`].
    key: String,
    /// The strategy and its clients, or the case's name where it runs several loads.
    pub(super) name: String,
    /// What else identifies the work: options, tier, encodings.
    pub(super) detail: String,
    /// The case of each target, in the order of [`SideBySide::targets`].
    pub(super) cases: Vec<Option<&'a Case>>,
}

impl<'a> SideBySide<'a> {
    /// Returns the cases of a report. Those that did the same on the same objects form one work.
    pub(super) fn of(report: &'a Report) -> Self {
        let targets = targets(report);
        let mut works: Vec<Work<'a>> = Vec::new();
        for case in &report.cases {
            let Some(at) = targets.iter().position(|target| *target == case.target) else {
                continue;
            };
            let key = case.work();
            let is_free = |work: &&mut Work<'_>| {
                work.data_set == case.data_set && work.key == key && work.cases[at].is_none()
            };
            if let Some(work) = works.iter_mut().find(is_free) {
                work.cases[at] = Some(case);
                continue;
            }
            let mut cases = vec![None; targets.len()];
            cases[at] = Some(case);
            works.push(Work {
                data_set: &case.data_set,
                key,
                name: String::new(),
                detail: String::new(),
                cases,
            });
        }
        let place = |work: &Work<'_>| {
            let mut data_sets = report.data_sets.iter();
            data_sets.position(|data_set| data_set.name == work.data_set)
        };
        works.sort_by_key(|work| place(work).unwrap_or(usize::MAX));
        let mut tiers = report.cases.iter().map(|case| case.tier);
        let first = tiers.next();
        let has_tiers = tiers.any(|tier| Some(tier) != first);
        for work in &mut works {
            work.name = work.name();
            work.detail = work.detail(has_tiers);
        }
        Self { targets, works }
    }

    /// Returns the works on one data set.
    pub(super) fn of_data_set(&self, name: &str) -> impl Iterator<Item = &Work<'a>> {
        self.works.iter().filter(move |work| work.data_set == name)
    }
}

impl<'a> Work<'a> {
    /// Returns the identity of the work without the data set.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the work's name in comparisons, which includes the data set.
    pub(super) fn label(&self) -> String {
        format!("{}/{}", self.data_set, self.key)
    }

    /// Returns a target's case if it counts, so that its values may be ranked.
    pub(super) fn counted(&self, target: usize) -> Option<&'a Case> {
        self.cases[target].filter(|case| case.counts())
    }

    /// Returns the existing cases, each with the index of its target.
    pub(super) fn present(&self) -> impl Iterator<Item = (usize, &'a Case)> {
        let cases = self.cases.iter().enumerate();
        cases.filter_map(|(at, case)| Some((at, (*case)?)))
    }

    fn name(&self) -> String {
        let case = self.present().next().map(|(_, case)| case);
        case.map_or_else(String::new, |case| match case.loads.is_empty() {
            false if !case.row.is_empty() => case.row.clone(),
            _ => case_text::strategy_and_clients(case),
        })
    }

    /// Returns what else identifies the work: tier, options, loads, and how the targets encoded
    /// their responses.
    fn detail(&self, has_tiers: bool) -> String {
        let Some((_, case)) = self.present().next() else {
            return String::new();
        };
        let mut words = Vec::new();
        words.extend(has_tiers.then(|| format!("{} tier", case.tier)));
        words.extend(case.options());
        words.extend(loads(case));
        let mut encodings: Vec<String> = Vec::new();
        for encoding in self.present().filter_map(|(_, case)| encoding(case)) {
            if !encodings.contains(&encoding) {
                encodings.push(encoding);
            }
        }
        words.extend((!encodings.is_empty()).then(|| encodings.join(" / ")));
        words.join(", ")
    }
}

/// Returns the load that the case's own times belong to, and the loads that ran with it.
fn loads(case: &Case) -> Option<String> {
    let timed = case.loads.iter().position(|load| load.measured)?;
    let others = case.loads.iter().enumerate().filter(|(at, _)| *at != timed);
    let others: Vec<&str> = others.map(|(_, load)| load.name.as_str()).collect();
    let name = &case.loads[timed].name;
    Some(match others.is_empty() {
        true => name.clone(),
        false => format!("times of {name}, beside {}", others.join(", ")),
    })
}

/// Returns how a target encoded its responses and whether they came from a cache, unless the case's
/// strategy or options contain that already.
fn encoding(case: &Case) -> Option<String> {
    let encoding = case.encoding.as_ref()?;
    let is_named = *encoding == case.strategy || case.kube_options.contains(encoding);
    let mut words = Vec::new();
    words.extend((!is_named).then(|| encoding.clone()));
    let is_cached = case.served_from == ServedFrom::WatchCache;
    words.extend(is_cached.then(|| "from the cache".to_owned()));
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the targets in the order of their first cases, but the base of an A/B run first.
fn targets(report: &Report) -> Vec<&str> {
    let base = report.ab.as_ref().map(|ab| ab.base.as_str());
    let mut targets = targets_of(&report.cases);
    // The sort is stable: the others keep their order.
    targets.sort_by_key(|target| Some(*target) != base);
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use crate::result::AbTargets;

    #[test]
    fn what_was_done_is_one_line_whoever_did_it() {
        let mut report = fixture::report(&[("bench", "unary", 500.0), ("bench", "stream", 400.0)]);
        report.cases.push(fixture::case("etcd", "stream", 1_600.0));
        report
            .cases
            .push(fixture::case("etcd", "paged:500", 5_000.0));
        let found = SideBySide::of(&report);
        assert_eq!(found.targets, ["bench", "etcd"]);
        let lines: Vec<(&str, Vec<bool>)> = found
            .works
            .iter()
            .map(|work| {
                let there = work.cases.iter().map(Option::is_some).collect();
                (work.name.as_str(), there)
            })
            .collect();
        let expected = [
            ("unary", vec![true, false]),
            ("stream", vec![true, true]),
            ("paged:500", vec![false, true]),
        ];
        assert_eq!(lines, expected);
        report.ab = Some(AbTargets {
            base: "etcd".to_owned(),
            new: "bench".to_owned(),
        });
        assert_eq!(SideBySide::of(&report).targets, ["etcd", "bench"]);
    }

    #[test]
    fn encodings_that_differ_are_both_named() {
        let mut report =
            fixture::report(&[("bench", "paged:500", 1.0), ("etcd", "paged:500", 2.0)]);
        report.cases[0].encoding = Some("incremental".to_owned());
        report.cases[1].encoding = Some("buffered".to_owned());
        assert_eq!(
            SideBySide::of(&report).works[0].detail,
            "incremental / buffered"
        );
        for case in &mut report.cases {
            case.encoding = Some("json".to_owned());
            case.kube_options = vec!["json".to_owned()];
            case.served_from = ServedFrom::WatchCache;
        }
        let detail = &SideBySide::of(&report).works[0].detail;
        assert_eq!(detail, "json, from the cache", "nothing is named twice");
    }
}
