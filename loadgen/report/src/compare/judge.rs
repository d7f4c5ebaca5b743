//! The comparison of two sides, case by case and metric by metric.

use clap::ValueEnum as _;

use super::comparability::{self, Condition, Difference};
use super::matching::{self, Gathered, Start};
use super::side::side;
use super::verdict::{Estimate, Reason, Verdict};
use super::warnings;
use super::{CompareError, Comparison, Line, Metric, Options, Sides, Unjudged};
use crate::result::SavedResult;

/// Compares two sides.
///
/// # Errors
/// When the sides did different work, ran on different machines, or have no case in common.
pub fn compare(sides: &Sides<'_>, options: &Options) -> Result<Comparison, CompareError> {
    let mut judge = Judge {
        sides,
        options,
        metrics: match options.metrics.as_slice() {
            [] => Metric::value_variants(),
            named => named,
        },
        lines: Vec::new(),
        notes: Vec::new(),
        not_comparable: Vec::new(),
        gone: Vec::new(),
    };
    judge.check_runs()?;
    let targets = judge.targets()?;
    let mut in_common = 0;
    for (base, new) in &targets {
        in_common += judge.targets_against(base, new);
    }
    if in_common == 0 {
        return Err(CompareError::NothingInCommon);
    }
    judge.finish(&targets)
}

/// The state of a comparison in progress.
struct Judge<'a> {
    sides: &'a Sides<'a>,
    options: &'a Options,
    metrics: &'a [Metric],
    lines: Vec<Line>,
    notes: Vec<String>,
    not_comparable: Vec<Unjudged>,
    gone: Vec<Unjudged>,
}

impl<'a> Judge<'a> {
    /// Rejects runs that must not be compared, and adds notes about other differences.
    fn check_runs(&mut self) -> Result<(), CompareError> {
        let Sides {
            base,
            new,
            is_paired,
            ..
        } = *self.sides;
        let (Some(first), Some(first_new)) = (base.first(), new.first()) else {
            return Err(CompareError::NoResult);
        };
        for (side, first) in [(base, first), (new, first_new)] {
            check_once(side)?;
            for result in &side[1..] {
                self.check_conditions(first, result)
                    .map_err(CompareError::Mixed)?;
            }
        }
        self.check_conditions(first, first_new)
            .map_err(CompareError::Different)?;
        for result in base.iter().skip(1).chain(new) {
            self.notes_once(warnings::of_environments(first, result));
        }
        if !is_paired {
            check_apart(base, new)?;
            for result in new {
                self.notes_once(warnings::of_servers(first, result));
            }
            self.notes_once(warnings::of_order(base, new));
        }
        for result in base.iter().chain(new) {
            self.notes_once(warnings::of_interruption(result));
        }
        Ok(())
    }

    fn check_conditions(
        &mut self,
        base: &SavedResult,
        new: &SavedResult,
    ) -> Result<(), Difference> {
        let (scenario, other) = (&base.report.scenario, &new.report.scenario);
        if scenario != other {
            return Err(Difference {
                condition: None,
                what: "the scenario".to_owned(),
                base: scenario.clone(),
                new: other.clone(),
            });
        }
        match self.forbidden(comparability::of_runs(base, new)).first() {
            Some(difference) => Err(difference.clone()),
            None => Ok(()),
        }
    }

    /// Returns the differences that are not allowed, and adds notes about those that are.
    fn forbidden(&mut self, differences: Vec<Difference>) -> Vec<Difference> {
        let allow = &self.options.allow;
        let is_allowed = |it: &Difference| it.condition.is_some_and(|it| allow.contains(&it));
        let (allowed, forbidden): (Vec<_>, Vec<_>) = differences.into_iter().partition(is_allowed);
        self.notes_once(allowed.iter().map(|it| format!("allowed: {it}")));
        forbidden
    }

    fn notes_once(&mut self, notes: impl IntoIterator<Item = String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Returns the pairs of targets that are compared.
    fn targets(&mut self) -> Result<Vec<(&'a str, &'a str)>, CompareError> {
        let (base, new) = (
            matching::targets(self.sides.base),
            matching::targets(self.sides.new),
        );
        let Some((named_base, named_new)) = self.sides.targets else {
            let pairs = matching::pairs_of_targets(&base, &new)?;
            let is_alone = |at: fn(&(&'a str, &'a str)) -> &'a str, target: &&&str| {
                !pairs.iter().any(|pair| at(pair) == **target)
            };
            let only_base = base.iter().filter(|it| is_alone(|pair| pair.0, it));
            let only_new = new.iter().filter(|it| is_alone(|pair| pair.1, it));
            let notes: Vec<String> = only_base
                .map(|target| format!("target {target} is only in the base"))
                .chain(only_new.map(|target| format!("target {target} is only in the new result")))
                .collect();
            self.notes_once(notes);
            return Ok(pairs);
        };
        let pair = (
            matching::target_named(&base, named_base)?,
            matching::target_named(&new, named_new)?,
        );
        match self.sides.is_paired && pair.0 == pair.1 {
            true => Err(CompareError::SameTarget(pair.0.to_owned())),
            false => Ok(vec![pair]),
        }
    }

    /// Compares two targets. Returns the number of cases that both have.
    fn targets_against(&mut self, base: &str, new: &str) -> usize {
        let (olds, news) = (
            matching::gather(self.sides.base, base, self.sides.base),
            matching::gather(self.sides.new, new, self.sides.base),
        );
        let mut in_common = 0;
        for old in &olds {
            match news.iter().find(|new| new.work == old.work) {
                Some(found) => {
                    in_common += 1;
                    self.case((base, old), (new, found));
                }
                None if old.starts.is_empty() && old.failed.is_empty() => {
                    self.notes_once([format!(
                        "{} is not measured in the base, and not in the new result: {}",
                        old.label(),
                        old.reasons()
                    )]);
                }
                // The case may have another name or may not have been requested, so the target is
                // not at fault.
                None => self.not_comparable.push(Unjudged {
                    case: old.label(),
                    reason: match old.starts.is_empty() {
                        true => format!("in the base: {}", old.reasons()),
                        false => format!("the new result of {new} has no such case"),
                    },
                }),
            }
        }
        for new in &news {
            if !olds.iter().any(|old| old.work == new.work) {
                self.notes_once([format!("{} is only in the new result", new.label())]);
            }
        }
        in_common
    }

    /// Compares a case that both sides have.
    fn case(
        &mut self,
        (base_target, base): (&str, &Gathered<'_>),
        (new_target, new): (&str, &Gathered<'_>),
    ) {
        let label = base.label();
        for (side, of) in [("base", base), ("new result", new)] {
            if of.is_profiled() {
                let reason = format!("in the {side}: {}", of.reasons());
                return self.not_comparable.push(Unjudged {
                    case: label,
                    reason,
                });
            }
        }
        if base.starts.is_empty() {
            // A case that the base does not support is not part of the comparison.
            if !new.starts.is_empty() {
                let why = base.reasons();
                self.notes_once([format!("{label} is not measured in the base: {why}")]);
            }
            return;
        }
        if !new.failed.is_empty() || new.starts.is_empty() {
            let unjudged = Unjudged {
                case: label,
                reason: new.reasons(),
            };
            // A run that the generator made invalid, or that was stopped, says nothing about the
            // target.
            let is_the_target_s = !new.failed.is_empty() || !new.not_applicable.is_empty();
            match is_the_target_s {
                true => self.gone.push(unjudged),
                false => self.not_comparable.push(unjudged),
            }
            return;
        }
        // The successful starts of a server that fails or refuses requests are not a fair sample.
        let of_base = base.failed.iter().chain(&base.refused);
        let of_base = of_base.map(|reason| ("base", reason));
        let mut no_samples = of_base.chain(new.refused.iter().map(|it| ("new result", it)));
        if let Some((side, reason)) = no_samples.next() {
            let reason = format!("in the {side}: {reason}");
            return self.not_comparable.push(Unjudged {
                case: label,
                reason,
            });
        }
        for (side, of) in [("base", base), ("new result", new)] {
            let (left_out, all) = (of.left_out.len(), of.left_out.len() + of.starts.len());
            let why = of.left_out.join("; ");
            self.notes_once((left_out > 0).then(|| {
                format!("{label}: {left_out} of {all} runs of the {side} left out: {why}")
            }));
        }
        let mut metrics = self.metrics.to_vec();
        for (reason, is_of_source) in self.differences(base, new) {
            if !is_of_source {
                return self.not_comparable.push(Unjudged {
                    case: label,
                    reason,
                });
            }
            metrics.retain(|metric| !metric.is_of_processes());
            self.not_comparable.push(Unjudged {
                case: format!("{label}: memory and CPU"),
                reason,
            });
        }
        self.notes_once(warnings::of_case(&label, "base", base));
        self.notes_once(warnings::of_case(&label, "new result", new));
        let lines = metrics.iter().filter_map(|&metric| {
            self.line(&label, metric, (base_target, base), (new_target, new))
        });
        let lines: Vec<Line> = lines.collect();
        let partial: Vec<String> = lines
            .iter()
            .filter_map(|line| missing_in_some(line, base, new))
            .collect();
        self.notes_once(partial);
        self.lines.extend(lines);
    }

    /// Returns the first difference that prevents a comparison of the whole case and the first that
    /// concerns only memory and CPU, in that order. Differences within a side and between the sides
    /// count. The flag is true for memory and CPU.
    fn differences(&mut self, base: &Gathered<'_>, new: &Gathered<'_>) -> Vec<(String, bool)> {
        let (Some(&first), Some(&first_new)) = (base.measured.first(), new.measured.first()) else {
            return Vec::new();
        };
        let mut found: Vec<(String, bool)> = Vec::new();
        let mut note = |reason: String, difference: &Difference| {
            let is_of_source = difference.condition == Some(Condition::Source);
            if !found.iter().any(|(_, known)| *known == is_of_source) {
                found.push((reason, is_of_source));
            }
        };
        for difference in self.forbidden(comparability::of_cases(first, first_new)) {
            note(difference.to_string(), &difference);
        }
        for (side, of, first) in [("base", base, first), ("new result", new, first_new)] {
            for other in &of.measured[1..] {
                for difference in self.forbidden(comparability::of_cases(first, *other)) {
                    let Difference {
                        what, base, new, ..
                    } = &difference;
                    let reason =
                        format!("{what} is {base} in one run of the {side}, {new} in another");
                    note(reason, &difference);
                }
            }
        }
        found.sort_by_key(|(_, is_of_source)| *is_of_source);
        found
    }

    /// Compares one metric; `None` where neither side has a value.
    fn line(
        &self,
        label: &str,
        metric: Metric,
        (base_target, base): (&str, &Gathered<'_>),
        (new_target, new): (&str, &Gathered<'_>),
    ) -> Option<Line> {
        let values = |of: &Gathered<'_>| -> Vec<f64> {
            let starts = of.starts.iter();
            starts
                .filter_map(|start| metric.of(&start.figures))
                .collect()
        };
        let (base_values, new_values) = (values(base), values(new));
        if base_values.is_empty() && new_values.is_empty() {
            return None;
        }
        let estimate = self.estimate(metric, base, new);
        let is_deciding = !self.options.metrics.is_empty() || Metric::DECIDING.contains(&metric);
        let limit = self.options.fail_above.filter(|_| is_deciding);
        let margin = self.options.margin.or(limit);
        let margin = margin.unwrap_or_else(|| metric.default_margin());
        let is_saturated = metric.is_latency() && base.is_saturated() && new.is_saturated();
        // The number of runs does not matter where all of them measured the same start.
        let is_of_one_start = !metric.is_exact() && (base.was_there() || new.was_there());
        let verdict = match &estimate {
            _ if base_values.is_empty() => Verdict::CannotTell(Reason::MissingInBase),
            _ if new_values.is_empty() => Verdict::CannotTell(Reason::MissingInNew),
            _ if is_saturated => Verdict::CannotTell(Reason::Saturated),
            _ if is_of_one_start => Verdict::CannotTell(Reason::OneStart),
            Some(estimate) => estimate.verdict(margin, metric.better()),
            // Both sides have values, but no pair has both.
            None => Verdict::CannotTell(Reason::NoPair),
        };
        let is_within = match (verdict, &estimate, limit) {
            (Verdict::CannotTell(Reason::Saturated | Reason::OneStart), ..) => None,
            (_, Some(estimate), Some(limit)) => estimate.is_within(limit, metric.better()),
            (Verdict::CannotTell(_), ..) => None,
            (verdict, ..) => Some(verdict != Verdict::Worse),
        };
        Some(Line {
            case: label.to_owned(),
            base_target: base_target.to_owned(),
            new_target: new_target.to_owned(),
            metric,
            base: base_values,
            new: new_values,
            estimate,
            margin,
            verdict,
            is_deciding,
            is_within,
        })
    }

    fn estimate(
        &self,
        metric: Metric,
        base: &Gathered<'_>,
        new: &Gathered<'_>,
    ) -> Option<Estimate> {
        let starts = || base.starts.iter().chain(&new.starts);
        let resolution = starts()
            .filter_map(|start| start.figures.rss_resolution)
            .max();
        let floor = metric.floor(resolution);
        let of = |start: &Start| metric.of(&start.figures).map(|value| value + floor);
        let values =
            |of_side: &Gathered<'_>| -> Vec<f64> { of_side.starts.iter().filter_map(of).collect() };
        if metric.is_exact() {
            return Estimate::exact(&values(base), &values(new));
        }
        if !self.sides.is_paired {
            return Estimate::unpaired(&values(base), &values(new));
        }
        let pairs: Vec<(f64, f64)> = base
            .starts
            .iter()
            .filter_map(|start| {
                let partner = new.starts.iter().find(|new| new.place == start.place)?;
                of(start).zip(of(partner))
            })
            .collect();
        match self.sides.is_sequential {
            true => Estimate::paired_any_time(&pairs),
            false => Estimate::paired(&pairs),
        }
    }

    fn finish(mut self, targets: &[(&str, &str)]) -> Result<Comparison, CompareError> {
        if self.lines.is_empty()
            && self.gone.is_empty()
            && let Some(first) = self.not_comparable.first()
        {
            let Unjudged { case, reason } = first;
            return Err(CompareError::NothingComparable(format!("{case}: {reason}")));
        }
        let named = self.options.metrics.iter();
        let is_absent = |metric: &&Metric| !self.lines.iter().any(|line| line.metric == **metric);
        let absent: Vec<Metric> = named.filter(is_absent).copied().collect();
        let deciding = self.lines.iter().filter(|line| line.is_deciding);
        let is_worse = |line: &Line| line.is_within == Some(false);
        self.notes_once(warnings::of_many_lines(
            deciding.clone().count(),
            deciding.filter(|line| is_worse(line)).count(),
        ));
        let names =
            |at: fn(&(&str, &str)) -> String| targets.iter().map(at).collect::<Vec<String>>();
        Ok(Comparison {
            base: side(self.sides.base, names(|pair| pair.0.to_owned())),
            new: side(self.sides.new, names(|pair| pair.1.to_owned())),
            fail_above: self.options.fail_above,
            lines: self.lines,
            notes: self.notes,
            not_comparable: self.not_comparable,
            gone: self.gone,
            absent,
        })
    }
}

/// Rejects a side that contains a run twice, whose starts would count twice.
fn check_once(side: &[SavedResult]) -> Result<(), CompareError> {
    let run = |result: &SavedResult| {
        let report = &result.report;
        (report.started.clone(), report.environment.host.clone())
    };
    let mut known = Vec::new();
    for result in side {
        let run = run(result);
        if known.contains(&run) {
            let (started, host) = run;
            return Err(CompareError::SameRun { started, host });
        }
        known.push(run);
    }
    Ok(())
}

/// Rejects a run that is on both sides, which would be compared with itself.
fn check_apart(base: &[SavedResult], new: &[SavedResult]) -> Result<(), CompareError> {
    let run = |result: &SavedResult| {
        let report = &result.report;
        (report.started.clone(), report.environment.host.clone())
    };
    let mut news = new.iter().map(run);
    match news.find(|new| base.iter().any(|base| run(base) == *new)) {
        Some((started, host)) => Err(CompareError::OnBothSides { started, host }),
        None => Ok(()),
    }
}

/// Returns a note that some starts of a side lack a value of a metric which others have.
fn missing_in_some(line: &Line, base: &Gathered<'_>, new: &Gathered<'_>) -> Option<String> {
    let of = |side: &str, values: &[f64], starts: &[Start]| {
        let (missing, all) = (starts.len() - values.len(), starts.len());
        let is_some = missing > 0 && missing < all;
        is_some.then(|| format!("{missing} of {all} starts of the {side}"))
    };
    let sides = [
        of("base", &line.base, &base.starts),
        of("new result", &line.new, &new.starts),
    ];
    let sides: Vec<String> = sides.into_iter().flatten().collect();
    let Line { case, metric, .. } = line;
    (!sides.is_empty()).then(|| format!("{case}: no {metric} in {}", sides.join(" and ")))
}
