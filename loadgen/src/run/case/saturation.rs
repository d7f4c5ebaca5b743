//! Searches for the highest rate of small requests that meets an objective, by the trials that
//! `load::saturation` chooses.
//!
//! - [`trials`]: what is sent in a trial, for cases of one kind of request; `loads::trials`: for
//!   cases of several loads

use std::time::Duration;

use load::driver::run::Tally;
use load::record::LatencyHistogram;
use load::saturation::{Goal, Length, Outcome, Search, Step, Trial, Verdict};
use report::result::{self, RateSearch, RateTrial, Saturation, TrialVerdict, median};
use workloads::scenario::{Objective, Saturate};

use super::meter::Meter;
use super::requests::{describe, is_saturated, stall_of};
use super::times::Span;
use super::{CaseRun, EarlyEnd, Measured};
use crate::progress::Counted;
use crate::servers::running::Running;
use trials::{Sent, Trials};

pub(super) mod trials;

/// The duration of a short trial, as a fraction of a full one.
const SHORT: f64 = 0.4;
/// Before each trial, requests are sent at its rate for this fraction of its duration. They are not
/// counted.
const SETTLE: f64 = 0.2;

/// A trial and its measurements.
struct Tried {
    trial: Trial,
    tally: Tally,
}

/// How a search ended.
enum End {
    Found(Outcome),
    Stopped,
    /// A request had a wrong response, or the target cannot be reached any more.
    Failed(String),
}

impl From<EarlyEnd> for End {
    fn from(early: EarlyEnd) -> Self {
        match early {
            EarlyEnd::Interrupted => Self::Stopped,
            EarlyEnd::Failed(reason) | EarlyEnd::NotApplicable(reason) => Self::Failed(reason),
        }
    }
}

impl CaseRun<'_> {
    /// Searches for the highest rate. The latencies of the case are those of the full trials at the
    /// highest rate that each search found to meet the objective.
    pub(super) async fn saturate(
        &self,
        saturate: Saturate,
        trials: &mut impl Trials,
        duration: Duration,
        running: &Running,
        measured: &mut Measured,
    ) -> Result<Tally, EarlyEnd> {
        // An open loop does not wait for responses: its schedule stands for any number of clients.
        measured.case.clients = 1;
        let mut meter = self.settled(running, measured).await?;
        meter.load_changes();
        let title = format!("{}/{}", self.target.name, self.spec.name());
        let searches = u64::from(saturate.searches.get());
        let phase = self.progress.phase(&title, searches, Counted::Requests);
        meter.begin().await?;
        let start = self.run_begun.elapsed();
        let mut found = Saturation {
            objective: saturate.objective.to_string(),
            kept_per_s: None,
            searches: Vec::new(),
        };
        let mut kept = Tally::default();
        let mut requests = 0;
        let mut failure = None;
        for number in 0..saturate.searches.get() {
            let reconnected = match number {
                0 => Ok(()),
                _ => trials.reconnect().await,
            };
            let (end, tried) = match reconnected {
                Ok(()) => self.search(saturate, trials, duration, &mut meter).await?,
                Err(early) => (early.into(), Vec::new()),
            };
            let search = match end {
                End::Found(outcome) => Some(outcome),
                End::Stopped => None,
                End::Failed(why) => {
                    failure = Some(why);
                    None
                }
            };
            requests += tried.iter().map(|tried| tried.tally.requests).sum::<u64>();
            let search = described(saturate.objective, search, &tried);
            for tried in &tried {
                let is_reported = Some(tried.trial.rate) == search.lower_per_s
                    && tried.trial.length == Length::Full;
                if is_reported {
                    kept.add(&tried.tally);
                    kept.elapsed += tried.tally.elapsed;
                    kept.stall = kept.stall.max(tried.tally.stall);
                }
            }
            found.searches.push(search);
            if self.stop.is_cancelled() || failure.is_some() {
                break;
            }
        }
        meter.end(0, requests, measured).await;
        phase.done(&format!("{requests} requests"));
        found.kept_per_s = median(found.searches.iter().filter_map(|s| s.lower_per_s));
        measured.case.offered_per_s = found.kept_per_s;
        measured.case.saturation = Some(found);
        describe(&mut measured.case, &kept);
        let span = Span {
            start,
            duration: self.run_begun.elapsed().saturating_sub(start),
        };
        measured.keep_requests(span, &kept);
        match failure {
            Some(why) => Err(EarlyEnd::Failed(why)),
            None if self.stop.is_cancelled() => Err(EarlyEnd::Interrupted),
            None => Ok(kept),
        }
    }

    /// Runs one search. Returns the trials that were made until it ended, also if it ended early.
    async fn search(
        &self,
        saturate: Saturate,
        trials: &mut impl Trials,
        full: Duration,
        meter: &mut Meter,
    ) -> Result<(End, Vec<Tried>), EarlyEnd> {
        let Saturate {
            objective,
            from,
            to,
            width,
            ..
        } = saturate;
        let mut search = Search::new(Goal { from, to, width });
        let mut all = Vec::new();
        loop {
            let (rate, length) = match search.next() {
                Step::Done(outcome) => return Ok((End::Found(outcome), all)),
                Step::Try { rate, length } => (rate, length),
            };
            let duration = match length {
                Length::Full => full,
                // Long enough to have samples for its quantile.
                Length::Short => full
                    .mul_f64(SHORT)
                    .max(Duration::from_secs_f64(objective.samples() / rate))
                    .min(full),
            };
            let settling = trials.send(rate, duration.mul_f64(SETTLE), false);
            let Ok(settled) = self.unless_stopped(settling).await else {
                return Ok((End::Stopped, all));
            };
            if let Some(why) = settled.wrong(rate) {
                return Ok((End::Failed(why), all));
            }
            if settled.has_errors()
                && let Err(early) = trials.reconnect().await
            {
                return Ok((early.into(), all));
            }
            meter.begin_round()?;
            let sent = trials.send(rate, duration, true).await;
            let stopped = self.stop.is_cancelled();
            meter.end_of_round(!sent.has_errors() && !stopped).await;
            if stopped {
                return Ok((End::Stopped, all));
            }
            let (failure, has_errors) = (sent.wrong(rate), sent.has_errors());
            let verdict = match judge(objective, &sent.tally, duration) {
                Verdict::Kept if sent.others.is_some() => Verdict::Missed,
                verdict => verdict,
            };
            let Sent { tally, others, .. } = sent;
            let trial = Trial {
                rate,
                length,
                verdict,
            };
            let line = trial_line(&trial, objective, &tally);
            let others = others.map_or_else(String::new, |why| format!(" ({why})"));
            self.progress.say(&format!("{line}{others}"));
            search.record(trial);
            all.push(Tried { trial, tally });
            if let Some(why) = failure {
                return Ok((End::Failed(why), all));
            }
            // A late response would be mistaken for one of the next trial.
            if has_errors && let Err(early) = trials.reconnect().await {
                return Ok((early.into(), all));
            }
        }
    }
}

impl Measured {
    /// Sets the outcome of a case of requests or loads whose responses were right. `invalid` is why
    /// its measurements say nothing about the target, if that is so. Of a search in which no rate
    /// kept the objective, there are none, and only the generator can be the reason.
    pub(super) fn conclude(&mut self, invalid: Option<String>) {
        let found = self.case.saturation.as_ref();
        let invalid = match found.filter(|found| found.kept_per_s.is_none()) {
            None => invalid,
            Some(found) => {
                let mut searches = found.searches.iter();
                let gave_out = searches.any(|search| search.generator_gave_out);
                gave_out.then(|| "the generator did not keep the lowest rate".to_owned())
            }
        };
        match invalid {
            Some(reason) => self.case.outcome = result::Outcome::Invalid { reason },
            None => self.case.valid = true,
        }
    }
}

impl Sent {
    /// Returns why it is no evidence about a rate: requests of any load had wrong responses.
    fn wrong(&self, rate: f64) -> Option<String> {
        wrong(&self.tally, rate).or_else(|| self.others_wrong.clone())
    }
}

/// Returns why a trial is no evidence about a rate: requests had wrong responses.
fn wrong(tally: &Tally, rate: f64) -> Option<String> {
    let why = tally.reasons.most_wrong()?;
    let (wrong, requests) = (tally.reasons.wrong, tally.requests);
    Some(format!(
        "at {rate:.0}/s {wrong} of {requests} requests were answered wrongly: {why}"
    ))
}

/// Returns the verdict of a trial. Requests that were rejected, lost their connection or had no
/// response count as slower than any objective.
fn judge(objective: Objective, tally: &Tally, duration: Duration) -> Verdict {
    let may_miss = 1.0 - objective.quantile;
    let missing = |histogram: &LatencyHistogram| {
        let slow = above(histogram, objective.at_most) + tally.errors;
        slow as f64 / (tally.requests.max(1)) as f64
    };
    if tally.requests == 0 {
        return Verdict::GeneratorLate;
    }
    let is_saturated = is_saturated(tally, duration);
    if !is_saturated && missing(&tally.latency) <= may_miss {
        return Verdict::Kept;
    }
    // Latencies from sending meet the objective, so the time was lost in the generator.
    match stall_of(tally).is_some() || (!is_saturated && missing(&tally.service) <= may_miss) {
        true => Verdict::GeneratorLate,
        false => Verdict::Missed,
    }
}

/// Returns how many of the latencies are above `limit`.
fn above(histogram: &LatencyHistogram, limit: Duration) -> u64 {
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let within = histogram.histogram_ns().count_between(0, limit_ns);
    histogram.n().saturating_sub(within)
}

fn quantile_ms(histogram: &LatencyHistogram, quantile: f64) -> Option<f64> {
    let ns = histogram.histogram_ns().value_at_quantile(quantile);
    (histogram.n() > 0).then(|| ns as f64 / 1e6)
}

fn achieved(tally: &Tally) -> f64 {
    let answered = tally.requests.saturating_sub(tally.errors) as f64;
    answered / tally.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Returns one trial as a line of progress.
fn trial_line(trial: &Trial, objective: Objective, tally: &Tally) -> String {
    let verdict = match trial.verdict {
        Verdict::Kept => "kept",
        Verdict::Missed => "missed",
        Verdict::GeneratorLate => "the generator was late",
    };
    let length = match trial.length {
        Length::Short => "short trial",
        Length::Full => "trial",
    };
    let found = quantile_ms(&tally.latency, objective.quantile);
    let found = found.map_or_else(|| "no response".to_owned(), |ms| format!("{ms:.2} ms"));
    format!(
        "{length} at {:.0}/s: {:.0}/s achieved, p{} {found}: {objective} {verdict}",
        trial.rate,
        achieved(tally),
        objective.quantile * 100.0
    )
}

fn described(objective: Objective, outcome: Option<Outcome>, tried: &[Tried]) -> RateSearch {
    let (lower_per_s, upper_per_s, generator_gave_out) = match outcome {
        None => (None, None, false),
        Some(Outcome::Between {
            lower,
            upper,
            generator,
        }) => (Some(lower), Some(upper), generator),
        Some(Outcome::AboveAll { rate }) => (Some(rate), None, false),
        Some(Outcome::BelowAll { rate, generator }) => (None, Some(rate), generator),
    };
    RateSearch {
        lower_per_s,
        upper_per_s,
        generator_gave_out,
        trials: tried
            .iter()
            .map(|Tried { trial, tally }| RateTrial {
                offered_per_s: trial.rate,
                achieved_per_s: achieved(tally),
                full: trial.length == Length::Full,
                verdict: match trial.verdict {
                    Verdict::Kept => TrialVerdict::Kept,
                    Verdict::Missed => TrialVerdict::Missed,
                    Verdict::GeneratorLate => TrialVerdict::GeneratorLate,
                },
                requests: tally.requests,
                errors: tally.errors,
                latency_ms: quantile_ms(&tally.latency, objective.quantile),
                service_ms: quantile_ms(&tally.service, objective.quantile),
                p50_ms: quantile_ms(&tally.latency, 0.5),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use load::record::Class;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns a second of 1,000 requests, `slow` of which took 20 ms, all sent late by `late`.
    fn tally(slow: u64, late: Duration) -> Tally {
        let mut tally = Tally {
            requests: 1_000,
            elapsed: SECOND,
            ..Tally::default()
        };
        for n in 0..1_000 {
            let service = Duration::from_millis(if n < slow { 20 } else { 1 });
            tally.service.record(service);
            tally.latency.record(service + late);
        }
        tally
    }

    fn objective() -> Objective {
        "p99=10ms".parse().expect("an objective")
    }

    #[test]
    fn one_request_of_a_hundred_may_be_slow() {
        let judged = |slow| judge(objective(), &tally(slow, Duration::ZERO), SECOND);
        assert_eq!(judged(0), Verdict::Kept);
        assert_eq!(judged(10), Verdict::Kept);
        assert_eq!(judged(11), Verdict::Missed);
    }

    #[test]
    fn one_wrong_answer_ends_the_search() {
        let mut tally = tally(0, Duration::ZERO);
        tally.failed(1, Class::TimedOut, "no response within 10 s".to_owned());
        assert_eq!(wrong(&tally, 100.0), None);
        tally.failed(
            1,
            Class::Wrong,
            "a response that cannot be decoded".to_owned(),
        );
        let expected =
            "at 100/s 1 of 1002 requests were answered wrongly: a response that cannot be decoded";
        assert_eq!(wrong(&tally, 100.0).as_deref(), Some(expected));
    }

    #[test]
    fn failed_requests_are_slow_and_a_rate_that_is_not_reached_is_missed() {
        let mut failed = tally(0, Duration::ZERO);
        failed.failed(
            11,
            Class::Refused,
            "etcdserver: too many requests".to_owned(),
        );
        assert_eq!(judge(objective(), &failed, SECOND), Verdict::Missed);
        assert_eq!(wrong(&failed, 100.0), None);
        let mut behind = tally(0, Duration::ZERO);
        behind.elapsed = SECOND * 2;
        assert_eq!(judge(objective(), &behind, SECOND), Verdict::Missed);
    }

    #[test]
    fn lateness_of_the_generator_is_not_the_targets() {
        let late = tally(0, Duration::from_millis(15));
        assert_eq!(judge(objective(), &late, SECOND), Verdict::GeneratorLate);
        // A trial that is late and still meets the objective is kept.
        let little = tally(0, Duration::from_millis(5));
        assert_eq!(judge(objective(), &little, SECOND), Verdict::Kept);
        let nothing = Tally::default();
        assert_eq!(judge(objective(), &nothing, SECOND), Verdict::GeneratorLate);
    }
}
