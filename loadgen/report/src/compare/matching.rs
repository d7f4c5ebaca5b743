//! Finds the cases of two results that did the same work, on any target.

use workloads::strategy::Tier;

use super::CompareError;
use crate::result::{Case, DataSet, Outcome, PROFILED, SavedResult, ServerStart, targets_of};

/// The work of a case, without the target.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Work {
    /// The case's name without its target.
    label: String,
    /// Name of the data set in the base, even if the new result has another name for the same
    /// objects.
    data_set: String,
    tier: Tier,
    strategy: String,
    name: String,
    clients: u32,
    connections: Option<u32>,
    watchers: Option<u32>,
    frame_bytes: Option<u32>,
    options: Vec<String>,
    network: Option<String>,
    offered_per_s: Option<f64>,
    arrivals: Option<String>,
    keys: Option<String>,
    beside: Vec<(String, String, u32, Option<f64>)>,
    /// Name, operation, arrivals and clients of each load, for a case of several loads.
    loads: Vec<(String, String, String, u32)>,
}

/// One case of one target in all results of a side, with every start that it was measured on.
#[derive(Debug, Clone)]
pub(super) struct Gathered<'a> {
    pub(super) work: Work,
    /// The cases that the starts belong to. Never empty where there are starts.
    pub(super) measured: Vec<Occurrence<'a>>,
    pub(super) starts: Vec<Start>,
    /// Why runs of the case failed because of the target.
    pub(super) failed: Vec<String>,
    /// Why runs have no such case: the target does not support it, or the machine or the setup of
    /// the run does not allow it.
    pub(super) not_applicable: Vec<String>,
    /// Why runs of the case have no number although they were measured to the end.
    pub(super) refused: Vec<String>,
    /// Why runs of the case do not count: they are invalid for a reason other than the target, or
    /// were not measured to the end.
    pub(super) left_out: Vec<String>,
    /// Whether any run of the case was profiled.
    is_profiled: bool,
}

/// A case in one result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occurrence<'a> {
    pub(super) case: &'a Case,
    pub(super) data_set: Option<&'a DataSet>,
    pub(super) result: &'a SavedResult,
}

/// One start, and the position by which its pair is found.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) figures: ServerStart,
    /// The index of the result and the number of the pair. Both starts of a pair have the same.
    pub(super) place: (usize, u32),
}

impl Work {
    fn of(case: &Case, data_set: &str) -> Self {
        let beside = case.background.iter().map(|load| {
            let (name, strategy) = (load.name.clone(), load.strategy.clone());
            (name, strategy, load.clients, load.offered_per_s)
        });
        let loads = case.loads.iter().map(|load| {
            let (name, operation) = (load.name.clone(), load.operation.clone());
            (name, operation, load.arrivals.clone(), load.clients)
        });
        Self {
            label: format!("{data_set}/{}", case.work()),
            data_set: data_set.to_owned(),
            tier: case.tier,
            strategy: case.strategy.clone(),
            name: case.row.clone(),
            clients: case.clients,
            connections: case.connections,
            watchers: case.watchers,
            frame_bytes: case.frame_bytes,
            options: case.kube_options.clone(),
            network: case.network.clone(),
            offered_per_s: case.offered_per_s,
            arrivals: case.arrivals.clone(),
            keys: case.keys.clone(),
            beside: beside.collect(),
            loads: loads.collect(),
        }
    }
}

impl Gathered<'_> {
    /// Returns the case's name without its target.
    pub(super) fn label(&self) -> String {
        self.work.label.clone()
    }

    /// Returns why the case has no starts, or fewer than there were runs.
    pub(super) fn reasons(&self) -> String {
        let all = [
            &self.failed,
            &self.not_applicable,
            &self.refused,
            &self.left_out,
        ];
        let mut reasons: Vec<&str> = Vec::new();
        for reason in all.into_iter().flatten() {
            if !reasons.contains(&reason.as_str()) {
                reasons.push(reason);
            }
        }
        reasons.join("; ")
    }

    /// Returns whether the case has no starts because its runs were profiled.
    pub(super) fn is_profiled(&self) -> bool {
        self.is_profiled && self.starts.is_empty() && self.failed.is_empty()
    }

    /// Returns whether a run did not start its servers, so that all runs measured one start.
    pub(super) fn was_there(&self) -> bool {
        self.measured.iter().any(|of| {
            let server = of.case.server.as_ref();
            server.is_none_or(|server| server.is_self_reported)
        })
    }

    /// Returns whether any of the runs offered more than the target can handle.
    pub(super) fn is_saturated(&self) -> bool {
        self.measured.iter().any(|of| of.case.saturated)
    }
}

/// Returns the names of a side's targets, in the order of the results.
pub(super) fn targets(results: &[SavedResult]) -> Vec<&str> {
    targets_of(results.iter().flat_map(|result| &result.report.cases))
}

/// Returns the target with this name, or the only one whose name begins with it. `etcd-3.7` matches
/// `etcd-3.7.1`, even if there also is an `etcd-3.7.1-fsync`.
///
/// # Errors
/// When no target matches, or several do.
pub(super) fn target_named<'a>(targets: &[&'a str], name: &str) -> Result<&'a str, CompareError> {
    if let Some(found) = targets.iter().find(|target| **target == name) {
        return Ok(found);
    }
    let only = |is_meant: &dyn Fn(&str) -> bool| {
        let mut meant = targets.iter().filter(|target| {
            let rest = target.strip_prefix(name);
            rest.is_some_and(is_meant)
        });
        meant.next().filter(|_| meant.next().is_none()).copied()
    };
    let is_patch_version = |rest: &str| {
        let digits = |c: char| c == '.' || c.is_ascii_digit();
        rest.starts_with('.') && rest.chars().all(digits)
    };
    only(&is_patch_version)
        .or_else(|| only(&|_| true))
        .ok_or_else(|| CompareError::NoTarget {
            name: name.to_owned(),
            targets: targets.join(", "),
        })
}

/// Returns the pairs of targets that are compared: those of the same name, or the only target of
/// each side.
///
/// # Errors
/// When no target of the base has a counterpart.
pub(super) fn pairs_of_targets<'a>(
    base: &[&'a str],
    new: &[&'a str],
) -> Result<Vec<(&'a str, &'a str)>, CompareError> {
    if let ([base], [new]) = (base, new) {
        return Ok(vec![(base, new)]);
    }
    let same = base.iter().filter(|target| new.contains(target));
    let same: Vec<_> = same.map(|target| (*target, *target)).collect();
    match same.is_empty() {
        false => Ok(same),
        true => Err(CompareError::NoTargetInCommon {
            base: base.join(", "),
            new: new.join(", "),
        }),
    }
}

/// Collects the cases of a target from all results of a side. `named_by` is the base, whose names
/// of data sets are used.
pub(super) fn gather<'a>(
    results: &'a [SavedResult],
    target: &str,
    named_by: &[SavedResult],
) -> Vec<Gathered<'a>> {
    let mut found: Vec<Gathered<'a>> = Vec::new();
    for (at, result) in results.iter().enumerate() {
        let of_target = result.report.cases.iter();
        for case in of_target.filter(|case| case.target == target) {
            let of = Occurrence {
                case,
                data_set: data_set_of(result, case),
                result,
            };
            let work = Work::of(case, name_in(named_by, of.data_set, &case.data_set));
            let known = found.iter().position(|gathered| gathered.work == work);
            let known = known.unwrap_or_else(|| {
                found.push(Gathered {
                    work,
                    measured: Vec::new(),
                    starts: Vec::new(),
                    failed: Vec::new(),
                    not_applicable: Vec::new(),
                    refused: Vec::new(),
                    left_out: Vec::new(),
                    is_profiled: false,
                });
                found.len() - 1
            });
            found[known].add(at, of);
        }
    }
    found
}

impl<'a> Gathered<'a> {
    fn add(&mut self, at: usize, of: Occurrence<'a>) {
        let case = of.case;
        let reason = || case.outcome.reason().unwrap_or("not valid").to_owned();
        let has_successes = case.requests > case.errors;
        match case.outcome {
            Outcome::NotApplicable { .. } => {
                self.not_applicable.push(format!("N/A: {}", reason()));
            }
            Outcome::Failed { .. } => self.failed.push(format!("FAILED: {}", reason())),
            Outcome::Invalid { .. } => self.left_out.push(format!("invalid: {}", reason())),
            Outcome::Stopped { .. } => self.left_out.push(format!("stopped: {}", reason())),
            Outcome::Interrupted => self.left_out.push(reason()),
            // A target that was offered more than it can handle may refuse everything. No number
            // describes it.
            Outcome::Measured if !has_successes => {
                self.refused.push("no request succeeded".to_owned());
            }
            Outcome::Measured if !case.valid => self.left_out.push(reason()),
            Outcome::Measured if case.is_profiled() => {
                self.is_profiled = true;
                self.left_out.push(PROFILED.to_owned());
            }
            Outcome::Measured => {
                self.measured.push(of);
                let before = self.starts.iter();
                let before = before.filter(|start| start.place.0 == at).count();
                for (figures, nth) in case.server_starts().into_iter().zip(before..) {
                    let pair = figures.pair.unwrap_or(nth as u32);
                    self.starts.push(Start {
                        figures,
                        place: (at, pair),
                    });
                }
            }
        }
    }
}

/// Returns the data set that a case listed.
fn data_set_of<'a>(result: &'a SavedResult, case: &Case) -> Option<&'a DataSet> {
    let mut data_sets = result.report.data_sets.iter();
    data_sets.find(|data_set| data_set.name == case.data_set)
}

/// Returns the base's name of these objects; `name` where the base has no data set with their
/// fingerprint.
fn name_in<'a>(base: &'a [SavedResult], data_set: Option<&DataSet>, name: &'a str) -> &'a str {
    let Some(fingerprint) = data_set.and_then(|data_set| data_set.fingerprint.as_ref()) else {
        return name;
    };
    let mut known = base.iter().flat_map(|result| &result.report.data_sets);
    let same = |data_set: &&DataSet| data_set.fingerprint.as_ref() == Some(fingerprint);
    // An equal name takes precedence where two data sets hold the same objects.
    match known
        .clone()
        .any(|known| same(&known) && known.name == name)
    {
        true => name,
        false => known.find(same).map_or(name, |data_set| &data_set.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_named_in_full_or_by_its_beginning() {
        let targets = ["bench", "etcd-3.6.5", "etcd-3.7.1", "etcd-3.7.1-fsync"];
        let named = |name| target_named(&targets, name).ok();
        assert_eq!(named("etcd-3.7.1"), Some("etcd-3.7.1"));
        assert_eq!(named("etcd-3.7"), Some("etcd-3.7.1"));
        assert_eq!(named("etcd-3.6"), Some("etcd-3.6.5"));
        assert_eq!(named("b"), Some("bench"));
        assert_eq!(named("etcd"), None, "three begin so");
        let error = target_named(&targets, "etdc").expect_err("there is none");
        assert_eq!(
            error.to_string(),
            "no single target `etdc`: there are bench, etcd-3.6.5, etcd-3.7.1, etcd-3.7.1-fsync"
        );
    }

    #[test]
    fn one_target_a_side_is_compared_whatever_its_name() {
        let pairs = pairs_of_targets(&["etcd-3.6.5"], &["etcd-3.7.1"]).expect("one and one");
        assert_eq!(pairs, [("etcd-3.6.5", "etcd-3.7.1")]);
        let pairs = pairs_of_targets(&["bench", "etcd-3.6.5"], &["bench", "etcd-3.7.1"]);
        assert_eq!(pairs.expect("one in common"), [("bench", "bench")]);
        let none = pairs_of_targets(&["a", "b"], &["c"]).expect_err("none in common");
        assert!(none.to_string().contains("--base"), "{none}");
    }
}
