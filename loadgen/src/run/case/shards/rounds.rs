//! Rounds of all workers at once: each lists its shard at one revision, and all shards together are
//! compared with what the server must hold.

use std::time::{Duration, Instant};

use load::driver::closed::{Clients, Done, Job};
use load::record::LatencyHistogram;
use load::verify::{Contents, Expected, Listed};

use super::tally::{Set, Took};
use crate::progress::Counted;
use crate::run::case::lists::served_from;
use crate::run::case::meter::Meter;
use crate::run::case::{CaseRun, EarlyEnd, Measured};
use crate::to_result;

/// What all shards together must contain.
pub(super) enum Union<'r> {
    /// The objects that were written.
    Known(Expected),
    /// The objects that a client receives that lists everything.
    Listed(&'r Clients),
}

/// The rounds of all workers of a case.
pub(super) struct Rounds<'r> {
    pub(super) run: &'r CaseRun<'r>,
    pub(super) clients: &'r Clients,
    pub(super) union: Union<'r>,
}

impl Rounds<'_> {
    /// Runs one round. Returns the time until the last worker has its shard, and the result of each
    /// worker.
    async fn round(&self, job: Job) -> Result<(Duration, Vec<Done>), EarlyEnd> {
        self.run.rest().await?;
        let asked = self
            .run
            .unless_stopped(self.clients.ask(0, Job::Revision))
            .await?;
        let revision = asked.result?.map(|(listed, _)| listed.revision);
        let pin = Job::Pin(revision.unwrap_or_default());
        self.run.unless_stopped(self.clients.round(pin)).await?;
        let done = self.run.unless_stopped(self.clients.round(job)).await?;
        self.run.record_round(&done);
        let last = done.iter().map(|done| done.latency).max();
        Ok((asked.latency + last.unwrap_or_default(), done))
    }

    /// Runs the measured rounds, in which every object is verified.
    pub(super) async fn measured(
        &self,
        set: &mut Set,
        meter: &mut Meter,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let run = self.run;
        let title = format!("{}/{}: listing", run.target.name, run.spec.name());
        let phase = run
            .progress
            .phase(&title, u64::from(run.repeats()), Counted::Rounds);
        let list = async || {
            let (time, done) = self.round(Job::List).await?;
            for done in done {
                done.result?;
            }
            Ok(time)
        };
        run.warm_up(meter, measured, list).await?;
        if let Some(time) = run.lists_last(&measured.case) {
            meter.expect(time);
        }
        meter.begin().await?;
        let mut latency = LatencyHistogram::default();
        let begun = Instant::now();
        let mut outcome = Ok(());
        let mut unions = Vec::new();
        for _ in 0..run.repeats() {
            outcome = async {
                meter.begin_round()?;
                let (time, done) = self.round(Job::List).await?;
                latency.record(time);
                unions.push(take(set, done)?);
                Ok(())
            }
            .await;
            meter.end_of_round(outcome.is_ok()).await;
            phase.advance(1);
            if outcome.is_err() {
                break;
            }
        }
        let span = run.since(begun);
        let (bytes, rounds) = (set.bytes_of_one(), latency.n());
        meter.end(bytes, rounds, measured).await;
        // The shards are compared only now, since a list of everything to compare them with is not
        // part of their cost.
        for (listed, union) in unions {
            let compared = self.compare(&listed, &union).await;
            if compared.is_err() {
                outcome = outcome.and(compared);
                break;
            }
            set.found = Some(union);
        }
        let case = &mut measured.case;
        case.served_from = served_from(case.server.as_ref());
        case.requests = rounds;
        case.bytes = bytes;
        case.throughput_bytes_per_s =
            Some((bytes * rounds) as f64 / span.duration.as_secs_f64().max(f64::MIN_POSITIVE));
        case.verified = set.found.as_ref().map(to_result::verified);
        case.objects = case.verified.as_ref().map_or(0, |v| v.objects);
        if let Err(EarlyEnd::Failed(reason)) = &outcome {
            case.errors = 1;
            case.error_samples = vec![reason.clone()];
        }
        measured.keep_latency(span, latency);
        outcome?;
        phase.done(&format!("{rounds} times by {} workers", set.shards.len()));
        Ok(())
    }

    /// Compares all shards of a round together with everything.
    async fn compare(&self, listed: &Listed, union: &Contents) -> Result<(), EarlyEnd> {
        match &self.union {
            Union::Known(expected) => {
                let wrong = union.compare(listed, expected);
                wrong.map_err(|e| EarlyEnd::Failed(format!("all shards together: {e}")))
            }
            Union::Listed(unsharded) => {
                unsharded.ask(0, Job::Pin(listed.revision)).await.result?;
                self.run.rest().await?;
                let whole = self.run.unless_stopped(unsharded.ask(0, Job::List)).await?;
                self.run.record_round(std::slice::from_ref(&whole));
                let whole = whole.result?.and_then(|(_, found)| found);
                if whole.as_ref() != Some(union) {
                    let whole = whole.unwrap_or_default().fingerprint;
                    return Err(EarlyEnd::Failed(format!(
                        "all shards together are {}, and a list of the same revision is {whole}",
                        union.fingerprint
                    )));
                }
                Ok(())
            }
        }
    }

    /// Runs one round, verified or unchecked, and returns its time.
    pub(super) async fn timed(&self, job: Job) -> Result<Duration, EarlyEnd> {
        let (time, done) = self.round(job).await?;
        for done in done {
            done.result?;
        }
        Ok(time)
    }
}

/// Adds the results of the workers in one round. Returns all shards of the round together.
fn take(set: &mut Set, done: Vec<Done>) -> Result<(Listed, Contents), EarlyEnd> {
    let mut union = Contents::default();
    let mut revision = None;
    for (shard, done) in set.shards.iter_mut().zip(done) {
        let took = Took {
            latency: done.latency,
            cpu: done.cpu,
            memory: done.memory,
        };
        let Some((listed, Some(found))) = done.result? else {
            continue;
        };
        if *revision.get_or_insert(listed.revision) != listed.revision {
            let reason = "workers that asked for one revision were answered with several";
            return Err(EarlyEnd::Failed(reason.to_owned()));
        }
        shard.take(&listed, &found, took);
        union.merge(&found);
    }
    let listed = Listed {
        revision: revision.unwrap_or_default(),
        ..Listed::default()
    };
    Ok((listed, union))
}
