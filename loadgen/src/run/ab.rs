//! Measures two targets in pairs of fresh starts, until every deciding metric has a verdict or time
//! is up.
//!
//! A block is two pairs in opposite orders (base, new and new, base). A coin from the seed chooses
//! which order comes first, so that slow drift affects both sides alike. The verdicts are computed
//! again after each pair; the rule stays valid however often it is evaluated (`report::compare`,
//! `Method::Sequential`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use report::compare::{CompareError, Comparison, Metric, Options, Sides, compare};
use report::result::{AbTargets, Environment, Outcome, ResultFolder};
use tokio_util::sync::CancellationToken;
use workloads::{CaseSpec, DataSet, Scenario, Tier, coin};

use super::case::{CaseRun, Measured, ObjectSource};
use super::starts::Starts;
use super::{Finished, Plan, Run};
use crate::exit::Exit;
use crate::progress::Progress;

/// The most pairs of one case: the count is bounded as well as the time.
const MAX_PAIRS: u32 = 200;

/// The parameters of a comparison in pairs.
#[derive(Debug, Clone)]
pub struct Ab {
    /// The total time limit.
    pub within: Duration,
    /// The seed of the order of starts.
    pub seed: u64,
    /// The deciding metrics and their margins.
    pub options: Options,
}

/// A case of a comparison in pairs: data set, tier and case name.
pub type CaseKey = (String, Tier, String);

/// Cases with deciding metrics that are worse, and those metrics.
pub type Worse = HashMap<CaseKey, Vec<Metric>>;

/// The result of a comparison in pairs.
#[derive(Debug)]
pub struct Compared {
    /// The measurements and the exit code.
    pub finished: Finished,
    /// The comparison of both sides; `None` if nothing comparable was measured.
    pub comparison: Option<Comparison>,
    /// The cases that are worse.
    pub worse: Worse,
}

/// Measures two targets in pairs: all cases of the scenario, or only those of `again`. A case of
/// `again` ends when one of its metrics is worse again, or when nothing is left to decide.
#[allow(
    clippy::too_many_arguments,
    reason = "each is a part of the run that the caller made"
)]
pub async fn run(
    plan: &Plan,
    ab: &Ab,
    again: Option<&Worse>,
    scenario: &Scenario,
    environment: Environment,
    folder: &ResultFolder,
    progress: &Progress,
    stop: &CancellationToken,
) -> Compared {
    let mut run = Run::new(plan, scenario, environment, folder, progress, stop);
    let [base, new] = &plan.targets[..] else {
        unreachable!("a plan of two sides has two targets");
    };
    run.result.report.ab = Some(AbTargets {
        base: base.name.clone(),
        new: new.name.clone(),
    });
    let data_sets = scenario.data_sets.iter();
    let mut cases: Vec<_> = data_sets
        .flat_map(|spec| {
            let data = Arc::new(DataSet::new(spec));
            let cases = scenario.cases_on(&spec.name);
            cases.map(move |(tier, case)| CasePairs::new(Arc::clone(&data), tier, case))
        })
        .filter_map(|mut case| {
            if let Some(again) = again {
                case.suspects.clone_from(again.get(&case.key())?);
            }
            Some(case)
        })
        // A tier that neither side has cannot be compared.
        .filter(|case| {
            let mut targets = plan.targets.iter();
            targets.any(|target| target.spec.lacks(case.tier).is_none())
        })
        .collect();
    // Each case has an equal share of the time. Time that is left, because cases were decided early
    // or could not be measured, is divided among the cases that are still open.
    let begun = run.begun;
    let rest = || ab.within.saturating_sub(begun.elapsed());
    while cases.iter().any(|case| case.is_open) {
        let mut left = cases.iter().filter(|case| case.is_open).count() as u32;
        for case in cases.iter_mut().filter(|case| case.is_open) {
            let until = Instant::now() + rest() / left;
            left -= 1;
            run.pairs(ab, case, until).await;
        }
        if rest().is_zero() || stop.is_cancelled() {
            break;
        }
    }
    for case in cases.iter_mut().filter(|case| case.is_open) {
        run.take_case(case);
    }
    let worse = cases.iter().filter(|case| !case.worse.is_empty());
    let worse = worse.map(|case| (case.key(), case.worse.clone())).collect();
    let comparison = run.compared(ab);
    let mut finished = run.finish(None);
    if finished.exit == Exit::Done {
        finished.exit = match &comparison {
            Ok(comparison) => comparison.end().into(),
            Err(_) => Exit::Invalid,
        };
    }
    let comparison = match comparison {
        Ok(comparison) => Some(comparison),
        Err(error) => {
            progress.say(&format!("nothing to compare: {error}"));
            None
        }
    };
    Compared {
        finished,
        comparison,
        worse,
    }
}

/// The pairs of one case so far.
struct CasePairs<'a> {
    data: Arc<DataSet>,
    tier: Tier,
    spec: &'a CaseSpec,
    /// The starts of base and of new, one of each for every pair.
    sides: [Starts; 2],
    /// Whether another pair may decide more.
    is_open: bool,
    /// The deciding metrics that are worse.
    worse: Vec<Metric>,
    /// The metrics that were worse in an earlier comparison. If one of them is worse again, the
    /// case is decided.
    suspects: Vec<Metric>,
}

impl<'a> CasePairs<'a> {
    fn new(data: Arc<DataSet>, tier: Tier, spec: &'a CaseSpec) -> Self {
        Self {
            data,
            tier,
            spec,
            sides: Default::default(),
            is_open: true,
            worse: Vec::new(),
            suspects: Vec::new(),
        }
    }

    fn pairs(&self) -> u32 {
        self.sides[0].len() as u32
    }

    fn key(&self) -> CaseKey {
        let data_set = self.data.spec().name.clone();
        (data_set, self.tier, self.spec.name())
    }
}

impl Run<'_> {
    /// Adds pairs to a case until it has its verdicts or until `until`, but at least one pair if it
    /// has none. Records the result of a case that is decided.
    async fn pairs(&mut self, ab: &Ab, case: &mut CasePairs<'_>, until: Instant) {
        while case.is_open && (case.pairs() == 0 || Instant::now() < until) {
            if self.stop.is_cancelled() {
                return;
            }
            self.pair(ab, case).await;
        }
        if !case.is_open {
            self.take_case(case);
        }
    }

    /// Adds one pair to a case. An interrupted pair is left out.
    async fn pair(&mut self, ab: &Ab, case: &mut CasePairs<'_>) {
        let mut pair = Vec::new();
        for side in order(ab.seed, case.pairs()) {
            let measured = self.start_of(side, case).await;
            if measured.case.outcome == Outcome::Interrupted && case.pairs() > 0 {
                self.result.report.interrupted = true;
                return;
            }
            if !measured.case.counts() {
                // The starts before the failure are no fair sample of a server that fails.
                case.sides = Default::default();
                case.worse.clear();
                case.is_open = false;
                self.take(measured);
                return;
            }
            pair.push((side, measured));
        }
        for (side, measured) in pair {
            case.sides[side].push(measured);
        }
        case.is_open = case.pairs() < MAX_PAIRS;
        if let Some(comparison) = self.so_far(ab, &case.sides) {
            case.worse = comparison.worse().map(|line| line.metric).collect();
            case.is_open &= !self.tell(case.pairs(), &comparison);
            case.is_open &= !case.suspects.iter().any(|m| case.worse.contains(m));
        }
    }

    /// Adds the results of a case to the run's result.
    fn take_case(&mut self, case: &mut CasePairs<'_>) {
        for side in &mut case.sides {
            if let Some(measured) = side.middle() {
                self.take(measured);
            }
        }
    }

    /// Measures one start of one side.
    async fn start_of(&self, side: usize, case: &CasePairs<'_>) -> Measured {
        let run = CaseRun {
            plan: self.plan,
            scenario: self.scenario,
            target: &self.plan.targets[side],
            tier: case.tier,
            spec: case.spec,
            source: ObjectSource::Fresh(Arc::clone(&case.data)),
            data_set: case.data.spec().name.clone(),
            run_begun: self.begun,
            progress: self.progress,
            stop: self.stop,
            care: None,
            beginning: None,
            is_one_of_many: true,
        };
        run.measure().await
    }

    /// Compares the pairs of one case so far.
    fn so_far(&self, ab: &Ab, sides: &[Starts; 2]) -> Option<Comparison> {
        let mut result = self.result.clone();
        result.report.cases.clear();
        for side in sides {
            result.report.cases.push(side.case()?);
        }
        let [base, new] = &self.plan.targets[..] else {
            return None;
        };
        compare(
            &Sides::of_targets(&[result], &base.name, &new.name),
            &ab.options,
        )
        .ok()
    }

    /// Reports the verdicts after a pair. Returns whether it is certain, for every deciding metric,
    /// that it is within its margin or that it is not.
    fn tell(&self, pairs: u32, comparison: &Comparison) -> bool {
        let deciding: Vec<_> = comparison.deciding().collect();
        let said: Vec<String> = deciding
            .iter()
            .map(|line| {
                let ratio = line.estimate.map_or(f64::NAN, |estimate| estimate.ratio);
                format!("{} {ratio:.3} × {}", line.metric, line.verdict.name())
            })
            .collect();
        let case = deciding.first().map_or("", |line| line.case.as_str());
        self.progress
            .say(&format!("{case}: {pairs} pairs: {}", said.join(", ")));
        !deciding.is_empty() && deciding.iter().all(|line| line.is_within.is_some())
    }

    /// Compares both sides in all cases.
    fn compared(&self, ab: &Ab) -> Result<Comparison, CompareError> {
        let [base, new] = &self.plan.targets[..] else {
            unreachable!("a plan of two sides has two targets");
        };
        let results = std::slice::from_ref(&self.result);
        compare(
            &Sides::of_targets(results, &base.name, &new.name),
            &ab.options,
        )
    }
}

/// Returns the two sides in the order in which pair number `pair` starts them.
fn order(seed: u64, pair: u32) -> [usize; 2] {
    let begins = coin(seed, u64::from(pair / 2));
    let is_second = pair % 2 == 1;
    match begins ^ is_second {
        false => [0, 1],
        true => [1, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_both_orders_and_a_coin_says_which_is_first() {
        let orders: Vec<[usize; 2]> = (0..200).map(|pair| order(7, pair)).collect();
        let blocks: Vec<_> = orders.chunks(2).collect();
        assert!(blocks.iter().all(|block| block[0] != block[1]));
        let base_first = blocks.iter().filter(|block| block[0] == [0, 1]).count();
        // Five standard deviations of a hundred fair coins.
        assert!((25..=75).contains(&base_first), "{base_first}");
    }
}
