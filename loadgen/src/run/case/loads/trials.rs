//! The loads of a case in a search for the highest rate: of the load that represents the case.
//! Other loads of small requests on a schedule keep their ratio to its rate. Lists, watchers and
//! closed loops run in each trial as the case has them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use load::arrivals::Pace;
use load::record::Live;
use workloads::Profile;
use workloads::scenario::{LoadSpec, LoadsSpec, Operation, Saturate, Start};

use super::connect::Connector;
use super::load_result::LoadResult;
use super::outcome::WritesByTier;
use super::{ConnectedLoad, LoadClients, verifier_after};
use crate::run::case::saturation::trials::{Sent, Trials};
use crate::run::case::status::schedule;
use crate::run::case::{CaseRun, EarlyEnd, ListedData, Measured};
use crate::servers::running::Running;

/// The connected loads of a case, and what they have written in all trials.
struct LoadTrials<'c> {
    connector: &'c Connector<'c>,
    loads: Vec<ConnectedLoad<'c>>,
    /// The rate of each load over that of the load that represents the case; `None` for loads whose
    /// arrivals stay as they are.
    ratios: Vec<Option<f64>>,
    writes: WritesByTier,
}

impl CaseRun<'_> {
    /// Runs a search for the highest rate of the loads of a case.
    pub(in crate::run::case) async fn saturate_loads(
        &self,
        saturate: Saturate,
        case: &LoadsSpec,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let data = self.data_of_loads()?;
        let (endpoint, verifier) = (&listed.endpoint, verifier_after(case, listed));
        measured.idle = Some(self.settled_for_loads(case, running, measured).await?);
        let connector = Connector::new(self, case, &data, endpoint, &verifier);
        let begun = Instant::now();
        let mut trials = LoadTrials::connect(&connector).await?;
        let duration = case.lasts(self.scenario.duration);
        let kept = self.saturate(saturate, &mut trials, duration, running, measured);
        let kept = LoadResult::Small(Box::new(kept.await?));
        let missed = self.check_delivered(&mut trials, begun).await?;
        let invalid = trials.headline().to_report(&kept, duration).invalid;
        measured.conclude(invalid.or(missed));
        self.check_written(case, &trials.loads, endpoint).await?;
        self.list_once(endpoint, &verifier, measured).await
    }

    /// Checks that watchers received what was written in all trials. Returns why not all of it is
    /// known to have arrived, if that is so.
    async fn check_delivered(
        &self,
        trials: &mut LoadTrials<'_>,
        begun: Instant,
    ) -> Result<Option<String>, EarlyEnd> {
        let mut missed = None;
        for load in &mut trials.loads {
            let LoadClients::Watch(watchers) = &mut load.clients else {
                continue;
            };
            let Some(watchers) = watchers.take() else {
                continue;
            };
            let writes = trials.writes.of(load.spec.tier()).clone();
            let delivered = self.delivered(watchers, writes, begun).await?;
            let of_load = |why: String| format!("load {}: {why}", load.spec.name);
            if let LoadResult::Broken(why) = delivered {
                return Err(EarlyEnd::Failed(of_load(why)));
            }
            let invalid = load.to_report(&delivered, Duration::ZERO).invalid;
            missed = missed.or(invalid.map(of_load));
        }
        Ok(missed)
    }
}

impl<'c> LoadTrials<'c> {
    async fn connect(connector: &'c Connector<'c>) -> Result<Self, EarlyEnd> {
        Ok(Self {
            connector,
            loads: connector.loads().await?,
            ratios: ratios(connector.case, connector.run.scenario.duration),
            writes: WritesByTier::default(),
        })
    }

    /// Returns the load that represents the case.
    fn headline(&self) -> &ConnectedLoad<'c> {
        let headline = self.connector.case.headline();
        let mut loads = self.loads.iter();
        let found = loads.find(|load| std::ptr::eq(load.spec, headline));
        found.unwrap_or(&self.loads[0])
    }
}

impl Trials for LoadTrials<'_> {
    async fn reconnect(&mut self) -> Result<(), EarlyEnd> {
        for load in &mut self.loads {
            let reconnected = self.connector.reconnect(load);
            self.connector.run.unless_stopped(reconnected).await??;
        }
        Ok(())
    }

    async fn send(&mut self, rate: f64, duration: Duration, is_counted: bool) -> Sent {
        for (load, ratio) in self.loads.iter_mut().zip(&self.ratios) {
            if let Some(ratio) = ratio {
                let profile = Profile::Poisson(rate * ratio);
                if is_counted {
                    let due = schedule(&profile, 1.0, Duration::ZERO, duration);
                    load.live.keep_to(due);
                }
                load.pace = Pace::Open(profile);
            }
        }
        let running = self.loads.iter().map(|load| {
            let live: Arc<Live> = match is_counted {
                true => Arc::clone(load.live.counts()),
                false => Arc::default(),
            };
            load.run((Duration::ZERO, duration), live, self.connector.run.stop)
        });
        let results = join_all(running).await;
        let mut sent = Sent::default();
        let headline = self.connector.case.headline();
        for (load, result) in self.loads.iter().zip(results) {
            self.writes.add(load.spec.tier(), &result);
            match result {
                LoadResult::Small(tally) if std::ptr::eq(load.spec, headline) => {
                    sent.tally = *tally;
                }
                result => {
                    let of_load = |why: String| format!("load {}: {why}", load.spec.name);
                    let wrong = result.wrong().map(of_load);
                    sent.others_wrong = sent.others_wrong.take().or(wrong);
                    let error = result.first_error();
                    sent.others_failed |= error.is_some();
                    let is_behind = load.to_report(&result, duration).saturated;
                    let why = error.or_else(|| is_behind.then(|| "it fell behind".to_owned()));
                    sent.others = sent.others.take().or(why.map(of_load));
                }
            }
        }
        sent
    }
}

/// Returns the rate of each load over that of the load that represents the case, of those that a
/// search changes.
fn ratios(case: &LoadsSpec, duration: Duration) -> Vec<Option<f64>> {
    let duration = case.lasts(duration);
    let rate = |start: &Start| match start {
        Start::Open(profile) => Some(profile.mean_rate(duration)),
        Start::Closed { .. } => None,
    };
    let headline = case.headline();
    let ratio = |load: &LoadSpec| {
        if std::ptr::eq(load, headline) {
            return Some(1.0);
        }
        match load.operation {
            Operation::Small(_) => Some(rate(&load.arrivals)? / rate(&headline.arrivals)?),
            Operation::List(_) | Operation::Watch => None,
        }
    };
    case.load.iter().map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use workloads::Scenario;

    use super::*;

    #[test]
    fn only_small_requests_on_a_schedule_keep_their_ratio() {
        let text = r#"
name = "mix"
summary = "a mix"
repeats = 1

[[case]]
name = "all"
load = [
    { name = "closed", operation = "get", measured = false },
    { name = "updates", operation = "update", arrivals = { poisson = 200 } },
    { name = "gets", operation = "get", arrivals = { poisson = 50 } },
    { name = "lists", operation = { list = "stream" }, arrivals = { poisson = 1 } },
    { name = "watches", operation = "watch" },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 20
namespaces = 2
nodes = 2
seed = 1
"#;
        let scenario = Scenario::parse(text, "mix").expect("a scenario");
        let expected = [None, Some(1.0), Some(0.25), None, None];
        assert_eq!(ratios(&scenario.loads[0], Duration::from_secs(5)), expected);
    }
}
