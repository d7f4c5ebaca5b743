//! Two targets in pairs of fresh starts, until every deciding metric has a verdict or time is up.
//!
//! A block is two pairs in opposite orders, base new and new base, and a coin from the seed says
//! which comes first: slow drift affects both alike. After
//! each pair the verdicts are taken anew; the rule holds however often one looks
//! (`report::compare`, `Method::Sequential`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use report::compare::{CompareError, Comparison, Metric, Options, Sides, compare};
use report::result::{AbTargets, Case, Environment, Outcome, ResultFolder, ServerStart};
use tokio_util::sync::CancellationToken;
use workloads::{CaseSpec, DataSet, Scenario, Tier, coin};

use super::case::{CaseRun, Measured, ObjectSource};
use super::{Finished, Plan, Run};
use crate::exit::Exit;
use crate::progress::Progress;

/// Pairs of a case, at most: bounded in count as well as in time.
const MOST_PAIRS: u32 = 200;

/// What is asked of a comparison in pairs.
#[derive(Debug, Clone)]
pub struct Ab {
    /// How long it may take in all.
    pub within: Duration,
    /// From which the order of starts follows.
    pub seed: u64,
    /// What decides, and by which margin.
    pub options: Options,
}

/// A case of a comparison in pairs: data set, tier, and case.
pub type CaseKey = (String, Tier, String);

/// Cases in which deciding metrics are worse, with those metrics.
pub type Worse = HashMap<CaseKey, Vec<Metric>>;

/// What came of a comparison in pairs.
#[derive(Debug)]
pub struct Compared {
    /// What was measured, and the end that it means.
    pub finished: Finished,
    /// How both sides compare; `None` where nothing was measured that could be compared.
    pub comparison: Option<Comparison>,
    /// What is worse.
    pub worse: Worse,
}

/// Measures two targets in pairs: all cases of the scenario, or those of `again`, each of these
/// until one of its metrics is worse again or nothing is left to decide.
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
    let data_sets = scenario
        .data_sets
        .iter()
        .map(|spec| Arc::new(DataSet::new(spec)));
    let mut cases: Vec<_> = data_sets
        .flat_map(|data| {
            let cases = scenario.cases.all();
            cases.map(move |(tier, case)| CasePairs::new(Arc::clone(&data), tier, case))
        })
        .filter_map(|mut case| {
            if let Some(again) = again {
                case.suspects.clone_from(again.get(&case.key())?);
            }
            Some(case)
        })
        // Of a tier that neither side has there is nothing to compare.
        .filter(|case| {
            let mut targets = plan.targets.iter();
            targets.any(|target| target.spec.lacks(case.tier).is_none())
        })
        .collect();
    // Each case has an equal share of the time. What is left over at the end, by cases that were
    // decided soon or that cannot be measured, is for those that are still open.
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

/// The starts of one case on one target so far.
#[derive(Default)]
struct Starts(Vec<Measured>);

impl Starts {
    /// Returns what they come to: the start whose median time is the middle one, with all starts in
    /// it.
    fn together(&mut self) -> Option<Measured> {
        let starts: Vec<ServerStart> = self
            .0
            .iter()
            .zip(0..)
            .map(|(m, pair)| start(m, pair))
            .collect();
        self.0
            .sort_by(|a, b| time(&a.case).total_cmp(&time(&b.case)));
        let middle = self.0.len().checked_sub(1)? / 2;
        let mut measured = self.0.swap_remove(middle);
        measured.case.starts = starts;
        Some(measured)
    }
}

/// The pairs of one case so far.
struct CasePairs<'a> {
    data: Arc<DataSet>,
    tier: Tier,
    spec: &'a CaseSpec,
    /// Starts of base and new, one of each pair.
    sides: [Starts; 2],
    /// Whether another pair may decide more.
    is_open: bool,
    /// The deciding metrics that are worse.
    worse: Vec<Metric>,
    /// The metrics that were worse before: one that is worse again decides the case.
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
        self.sides[0].0.len() as u32
    }

    fn key(&self) -> CaseKey {
        let data_set = self.data.spec().name.clone();
        (data_set, self.tier, self.spec.name())
    }
}

fn start(measured: &Measured, pair: u32) -> ServerStart {
    ServerStart {
        pair: Some(pair),
        ..ServerStart::of(&measured.case)
    }
}

fn time(case: &Case) -> f64 {
    let latency = case.latency_ms.as_ref();
    latency.and_then(|latency| latency.p50).unwrap_or(f64::MAX)
}

impl Run<'_> {
    /// Adds pairs to one case, until it has its verdicts or `until`; one at least, where it has
    /// none. What a case came to that is not open any longer is taken into the result.
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

    /// Adds a pair to one case; one that is interrupted is left out.
    async fn pair(&mut self, ab: &Ab, case: &mut CasePairs<'_>) {
        let mut pair = Vec::new();
        for side in order(ab.seed, case.pairs()) {
            let measured = self.start_of(side, case).await;
            if measured.case.outcome == Outcome::Interrupted && case.pairs() > 0 {
                self.result.report.interrupted = true;
                return;
            }
            if !measured.case.counts() {
                // What is left of a server that fails is no fair sample of it.
                case.sides = Default::default();
                case.worse.clear();
                case.is_open = false;
                self.take(measured);
                return;
            }
            pair.push((side, measured));
        }
        for (side, measured) in pair {
            case.sides[side].0.push(measured);
        }
        case.is_open = case.pairs() < MOST_PAIRS;
        if let Some(comparison) = self.so_far(ab, &case.sides) {
            case.worse = comparison.worse().map(|line| line.metric).collect();
            case.is_open &= !self.tell(case.pairs(), &comparison);
            case.is_open &= !case.suspects.iter().any(|m| case.worse.contains(m));
        }
    }

    /// Takes what came of a case into the result.
    fn take_case(&mut self, case: &mut CasePairs<'_>) {
        for side in &mut case.sides {
            if let Some(measured) = side.together() {
                self.take(measured);
            }
        }
    }

    /// One start of one side.
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

    /// How the pairs of one case compare.
    fn so_far(&self, ab: &Ab, sides: &[Starts; 2]) -> Option<Comparison> {
        let mut result = self.result.clone();
        result.report.cases.clear();
        for side in sides {
            let mut case = side.0.first()?.case.clone();
            let starts = side.0.iter().zip(0..);
            case.starts = starts
                .map(|(measured, pair)| start(measured, pair))
                .collect();
            result.report.cases.push(case);
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

    /// Says what is known after a pair; returns whether every deciding metric is surely within what
    /// is allowed, or surely not.
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

    /// Returns how both sides compare in all cases.
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

/// Returns which side is started first and which second, of pair number `pair`.
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
        // Of a hundred fair coins: five standard deviations.
        assert!((25..=75).contains(&base_first), "{base_first}");
    }
}
