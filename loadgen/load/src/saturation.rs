//! Searches for the highest rate at which a target meets an objective: decides which rate to try
//! next, and when to stop.
//!
//! No rate has an exact answer: the same rate passes and fails from trial to trial. Two rates are
//! therefore reported, as in RFC 9971 (MLRsearch): the largest that passed below every one that
//! failed, and the smallest that failed. The verdict of a rate is that of two trials that agree, of
//! three at most. The search doubles the rate with short trials until one fails. Short trials are
//! not reported. It then bisects the interval in between, in logarithms, with full trials.

/// The parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The first rate that is tried, per second.
    pub from: f64,
    /// The highest rate that is tried, per second.
    pub to: f64,
    /// The largest distance of the two bounds, as a fraction of the lower one.
    pub width: f64,
}

/// The length of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// A short trial, to bracket the rate.
    Short,
    /// A full trial, long enough to be reported.
    Full,
}

/// The result of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The objective was met.
    Kept,
    /// The objective was missed.
    Missed,
    /// The generator did not keep up with the rate, so the trial shows nothing about the target.
    GeneratorLate,
}

/// A completed trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// The rate, per second.
    pub rate: f64,
    /// The length of the trial.
    pub length: Length,
    /// The result of the trial.
    pub verdict: Verdict,
}

/// The next step of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Make this trial, and [`Search::record`] it.
    Try {
        /// The rate, per second.
        rate: f64,
        /// The length of the trial.
        length: Length,
    },
    /// The search has ended.
    Done(Outcome),
}

/// The outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// Both bounds were found.
    Between {
        /// The largest rate that passed, below every one that failed.
        lower: f64,
        /// The smallest rate that failed.
        upper: f64,
        /// Whether the upper rate failed because of the generator.
        generator: bool,
    },
    /// The highest rate passed.
    AboveAll {
        /// That rate.
        rate: f64,
    },
    /// The first rate failed.
    BelowAll {
        /// That rate.
        rate: f64,
        /// Whether it failed because of the generator.
        generator: bool,
    },
}

/// The number of trials of one rate that must agree.
const VOTES: usize = 2;

/// The state of a search: its goal and its trials. Costs O(trials) for each step.
#[derive(Debug, Clone)]
pub struct Search {
    goal: Goal,
    trials: Vec<Trial>,
}

impl Search {
    /// Returns a search that has tried nothing. `from` and `width` must be above 0, `to` at least
    /// `from`.
    #[must_use]
    pub fn new(goal: Goal) -> Self {
        Self {
            goal,
            trials: Vec::new(),
        }
    }

    /// Records the result of a trial.
    pub fn record(&mut self, trial: Trial) {
        self.trials.push(trial);
    }

    /// Returns all trials, in the order in which they were made.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Returns the next step. The search ends, because each rate takes at most three full trials,
    /// and each further rate halves the interval between the bounds.
    #[must_use]
    pub fn next(&self) -> Step {
        let Goal { from, to, width } = self.goal;
        if let Some(rate) = self.undecided() {
            return attempt(rate, Length::Full);
        }
        let missed = self.rates(|kept| !kept).min_by(f64::total_cmp);
        let below = |rate: &f64| missed.is_none_or(|missed| *rate < missed);
        let kept = self.rates(|kept| kept).filter(below);
        match (kept.max_by(f64::total_cmp), missed) {
            (None, None) => attempt(from, Length::Short),
            (Some(kept), None) if kept >= to => {
                self.confirmed(to, || Outcome::AboveAll { rate: to })
            }
            (Some(kept), None) => attempt((kept * 2.0).min(to), Length::Short),
            (None, Some(missed)) if missed > from => attempt(from, Length::Full),
            (None, Some(missed)) => self.confirmed(missed, || Outcome::BelowAll {
                rate: missed,
                generator: self.is_generators(missed),
            }),
            (Some(lower), Some(upper)) if upper <= lower * (1.0 + width) => {
                let done = || Outcome::Between {
                    lower,
                    upper,
                    generator: self.is_generators(upper),
                };
                match self.confirmed(lower, done) {
                    Step::Done(_) => self.confirmed(upper, done),
                    more => more,
                }
            }
            (Some(lower), Some(upper)) => attempt((lower * upper).sqrt(), Length::Full),
        }
    }

    /// Returns a rate whose full trials do not agree yet.
    fn undecided(&self) -> Option<f64> {
        let full = |trial: &&Trial| trial.length == Length::Full;
        let mut rates = self.trials.iter().filter(full).map(|trial| trial.rate);
        rates.find(|rate| self.full_verdict(*rate).is_none())
    }

    /// Returns `outcome` if the full trials of `rate` agree, or else one more of them.
    fn confirmed(&self, rate: f64, outcome: impl Fn() -> Outcome) -> Step {
        match self.full_verdict(rate) {
            Some(_) => Step::Done(outcome()),
            None => attempt(rate, Length::Full),
        }
    }

    /// Returns the rates with this verdict.
    fn rates(&self, is: impl Fn(bool) -> bool) -> impl Iterator<Item = f64> {
        let rates = self.trials.iter().map(|trial| trial.rate);
        rates.filter(move |rate| self.verdict(*rate).is_some_and(&is))
    }

    /// Returns whether a rate passes: by its full trials if there are any, or else by its short
    /// ones.
    fn verdict(&self, rate: f64) -> Option<bool> {
        match self.of(rate, Length::Full).next() {
            Some(_) => self.full_verdict(rate),
            None => {
                let mut short = self.of(rate, Length::Short);
                short.next().map(|verdict| verdict == Verdict::Kept)
            }
        }
    }

    fn full_verdict(&self, rate: f64) -> Option<bool> {
        let of = |is_kept| {
            let verdicts = self.of(rate, Length::Full);
            verdicts
                .filter(|verdict| (*verdict == Verdict::Kept) == is_kept)
                .count()
        };
        [true, false].into_iter().find(|kept| of(*kept) >= VOTES)
    }

    fn is_generators(&self, rate: f64) -> bool {
        let late = |verdict| verdict == Verdict::GeneratorLate;
        let late = self.of(rate, Length::Full).filter(|v| late(*v)).count();
        let missed = |verdict| verdict == Verdict::Missed;
        let missed = self.of(rate, Length::Full).filter(|v| missed(*v)).count();
        late > missed
    }

    fn of(&self, rate: f64, length: Length) -> impl Iterator<Item = Verdict> {
        let trials = self.trials.iter();
        trials
            .filter(move |trial| trial.length == length && trial.rate.total_cmp(&rate).is_eq())
            .map(|trial| trial.verdict)
    }
}

fn attempt(rate: f64, length: Length) -> Step {
    Step::Try { rate, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Goal = Goal {
        from: 1_000.0,
        to: 1_000_000.0,
        width: 0.05,
    };

    /// Runs a search against `server`. Returns its outcome and the number of trials.
    fn search(goal: Goal, mut server: impl FnMut(f64, Length) -> Verdict) -> (Outcome, usize) {
        let mut search = Search::new(goal);
        for _ in 0..200 {
            match search.next() {
                Step::Done(outcome) => return (outcome, search.trials().len()),
                Step::Try { rate, length } => {
                    assert!(rate >= goal.from && rate <= goal.to, "{rate}");
                    let verdict = server(rate, length);
                    search.record(Trial {
                        rate,
                        length,
                        verdict,
                    });
                }
            }
        }
        panic!("200 trials and no end: {:?}", search.trials());
    }

    fn up_to(capacity: f64) -> impl Fn(f64, Length) -> Verdict {
        move |rate, _| match rate <= capacity {
            true => Verdict::Kept,
            false => Verdict::Missed,
        }
    }

    #[test]
    fn the_bounds_close_in_on_a_sharp_capacity() {
        for capacity in [1_000.0, 1_500.0, 77_777.0, 999_999.0] {
            let (outcome, trials) = search(GOAL, up_to(capacity));
            let Outcome::Between {
                lower,
                upper,
                generator: false,
            } = outcome
            else {
                panic!("{outcome:?} at {capacity}");
            };
            assert!(lower <= capacity && capacity < upper, "{outcome:?}");
            assert!(upper <= lower * 1.05, "{outcome:?}");
            assert!(trials <= 26, "{trials} trials at {capacity}");
        }
    }

    #[test]
    fn an_objective_that_no_rate_keeps_or_every_rate_ends_at_once() {
        let (outcome, trials) = search(GOAL, up_to(10.0));
        let missed = Outcome::BelowAll {
            rate: 1_000.0,
            generator: false,
        };
        assert_eq!((outcome, trials), (missed, 3));
        let (outcome, _) = search(GOAL, up_to(f64::INFINITY));
        assert_eq!(outcome, Outcome::AboveAll { rate: 1_000_000.0 });
    }

    #[test]
    fn a_short_trial_that_lied_is_overruled() {
        // Short trials pass at twice the rate of full ones.
        let (outcome, _) = search(GOAL, |rate, length| match length {
            Length::Short => up_to(40_000.0)(rate, length),
            Length::Full => up_to(20_000.0)(rate, length),
        });
        let Outcome::Between { lower, upper, .. } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(lower <= 20_000.0 && upper > 20_000.0, "{outcome:?}");
        // The same if only short trials pass.
        let (outcome, _) = search(GOAL, |_, length| match length {
            Length::Short => Verdict::Kept,
            Length::Full => Verdict::Missed,
        });
        assert!(matches!(outcome, Outcome::BelowAll { .. }), "{outcome:?}");
    }

    #[test]
    fn the_lower_bound_is_below_every_rate_that_failed() {
        // A server that fails between two rates at which it passes: the safe side is reported.
        let (outcome, _) = search(GOAL, |rate, _| match rate {
            3_000.0..9_000.0 => Verdict::Missed,
            _ if rate < 50_000.0 => Verdict::Kept,
            _ => Verdict::Missed,
        });
        let Outcome::Between { lower, .. } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(lower < 3_000.0, "{outcome:?}");
    }

    #[test]
    fn a_generator_that_gives_out_is_named() {
        let (outcome, _) = search(GOAL, |rate, _| match rate <= 30_000.0 {
            true => Verdict::Kept,
            false => Verdict::GeneratorLate,
        });
        assert!(
            matches!(
                outcome,
                Outcome::Between {
                    generator: true,
                    ..
                }
            ),
            "{outcome:?}"
        );
    }

    #[test]
    fn noise_moves_the_bounds_by_little() {
        // Rates near the capacity pass with a probability that falls from 1 to 0 within 20 %.
        let mut state = 1_u64;
        let mut chance = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for _ in 0..100 {
            let (outcome, _) = search(GOAL, |rate, _| {
                let passes = ((55_000.0 - rate) / 10_000.0).clamp(0.0, 1.0);
                match chance() < passes {
                    true => Verdict::Kept,
                    false => Verdict::Missed,
                }
            });
            let Outcome::Between { lower, upper, .. } = outcome else {
                panic!("{outcome:?}");
            };
            assert!(lower > 40_000.0 && upper < 60_000.0, "{outcome:?}");
        }
    }
}
