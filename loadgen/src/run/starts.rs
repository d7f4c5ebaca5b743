//! One case on several fresh starts of a target's servers.
//!
//! Lists of one start share its memory layout, its threads and its minute. How far starts differ is
//! known only from several of them: `--starts` makes a fixed number, [`super::ab`] as many pairs as
//! a verdict needs.

use std::sync::Arc;

use report::result::{Case, Outcome, ServerStart};
use workloads::{CaseSpec, DataSet, Tier};

use super::Run;
use super::case::{Measured, ObjectSource};
use super::target::Target;

/// What one case measured on each start of one target, in the order of the starts.
#[derive(Default)]
pub(super) struct Starts(Vec<Measured>);

impl Starts {
    pub(super) fn push(&mut self, measured: Measured) {
        self.0.push(measured);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the case as the first start measured it, with the figures of all starts; `None`
    /// without any.
    pub(super) fn case(&self) -> Option<Case> {
        let mut case = self.0.first()?.case.clone();
        case.starts = self.figures();
        Some(case)
    }

    /// Returns the start whose median time is the middle one (the lower of two), with the figures
    /// of all starts; `None` without any. The other starts are dropped.
    pub(super) fn middle(&mut self) -> Option<Measured> {
        let figures = self.figures();
        let time = |measured: &Measured| {
            let latency = measured.case.latency_ms.as_ref();
            latency.and_then(|latency| latency.p50).unwrap_or(f64::MAX)
        };
        self.0.sort_by(|a, b| time(a).total_cmp(&time(b)));
        let middle = self.0.len().checked_sub(1)? / 2;
        let mut measured = self.0.swap_remove(middle);
        self.0.clear();
        measured.case.starts = figures;
        Some(measured)
    }

    fn figures(&self) -> Vec<ServerStart> {
        let starts = self.0.iter().zip(0..);
        starts
            .map(|(measured, number)| ServerStart {
                pair: Some(number),
                ..ServerStart::of(&measured.case)
            })
            .collect()
    }
}

/// The starts of one target that `--starts` asks for.
#[derive(Default)]
struct Side {
    starts: Starts,
    /// A start without figures: it failed, does not apply, or is not valid. No other follows, and
    /// those before it are not shown: the starts in which a server happens not to fail are no fair
    /// sample of it.
    uncounted: Option<Measured>,
}

impl Run<'_> {
    /// Measures a case on all targets that are started for it, [`super::Plan::starts`] times: in
    /// rounds over the targets, in turn from the first to the last and back, so that drift of the
    /// machine affects all of them alike. The result has the middle start of each.
    pub(super) async fn on_fresh_starts(
        &mut self,
        targets: &[&Target],
        data: &Arc<DataSet>,
        tier: Tier,
        spec: &CaseSpec,
    ) {
        let mut sides: Vec<Side> = targets.iter().map(|_| Side::default()).collect();
        let rounds = self.plan.starts.get();
        for round in 0..rounds {
            let is_last = round + 1 == rounds;
            for at in order(targets.len(), rounds - 1 - round) {
                let side = &mut sides[at];
                if side.uncounted.is_none() {
                    if rounds > 1 && !self.stop.is_cancelled() {
                        let case = format!("{}/{}", targets[at], spec.name());
                        let number = round + 1;
                        self.progress
                            .say(&format!("{case}: start {number} of {rounds}"));
                    }
                    self.start(targets[at], data, tier, spec, side).await;
                }
                if is_last && let Some(measured) = side.shown() {
                    self.take(measured);
                }
            }
        }
    }

    /// Adds a start to a side, unless the run is interrupted.
    async fn start(
        &mut self,
        target: &Target,
        data: &Arc<DataSet>,
        tier: Tier,
        spec: &CaseSpec,
        side: &mut Side,
    ) {
        if self.stop.is_cancelled() {
            self.result.report.interrupted = true;
            return;
        }
        let source = ObjectSource::Fresh(Arc::clone(data));
        if let Some(measured) = self.measure(target, tier, spec, source, None, None).await {
            self.result.report.interrupted |= measured.case.outcome == Outcome::Interrupted;
            side.add(measured);
        }
    }
}

impl Side {
    /// Returns what the result shows: the start without figures, else the middle one.
    fn shown(&mut self) -> Option<Measured> {
        let mut measured = self.uncounted.take().or_else(|| self.starts.middle())?;
        // The figures of an only start are those of the case.
        if measured.case.starts.len() == 1 {
            measured.case.starts.clear();
        }
        Some(measured)
    }

    fn add(&mut self, measured: Measured) {
        let is_cut_off = measured.case.outcome == Outcome::Interrupted && !self.starts.is_empty();
        match measured.case.counts() {
            true => self.starts.push(measured),
            // The run is interrupted; the starts before are complete.
            false if is_cut_off => {}
            false => self.uncounted = Some(measured),
        }
    }
}

/// Returns the order in which a round goes over the targets; the last one, which has none left
/// after it, goes forward.
fn order(targets: usize, left: u32) -> Vec<usize> {
    let forward = 0..targets;
    match left % 2 {
        0 => forward.collect(),
        _ => forward.rev().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_alternate_and_the_last_one_goes_forward() {
        assert_eq!(order(3, 2), [0, 1, 2]);
        assert_eq!(order(3, 1), [2, 1, 0]);
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(1, 1), [0]);
    }
}
