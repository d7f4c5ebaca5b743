//! What is sent in the trials of a search for the highest rate.

use std::sync::Arc;
use std::time::Duration;

use load::arrivals::Pace;
use load::driver::calls::RequestClients;
use load::driver::run::Tally;
use workloads::Profile;

use crate::live::LiveLoad;
use crate::run::case::requests::RequestTarget;
use crate::run::case::status::schedule;
use crate::run::case::{CaseRun, EarlyEnd};

/// Sends the requests of trials.
pub(in crate::run::case) trait Trials {
    /// Opens new connections, after requests that may still get a response.
    async fn reconnect(&mut self) -> Result<(), EarlyEnd>;

    /// Sends at this rate for this time, or until the run is stopped. `is_counted` says whether
    /// `/metrics` counts the requests: those of a trial, but not those before it.
    async fn send(&mut self, rate: f64, duration: Duration, is_counted: bool) -> Sent;
}

/// What was sent at a rate.
#[derive(Debug, Default)]
pub(in crate::run::case) struct Sent {
    /// The requests whose quantile is judged.
    pub(in crate::run::case) tally: Tally,
    /// Whether other loads of the case had errors.
    pub(in crate::run::case) others_failed: bool,
    /// Why the target did not keep up with other loads of the case: errors, or rates that were not
    /// reached.
    pub(in crate::run::case) others: Option<String>,
    /// A wrong response to another load of the case.
    pub(in crate::run::case) others_wrong: Option<String>,
}

impl Sent {
    /// Returns whether requests failed. Some may still get a response.
    pub(in crate::run::case) fn has_errors(&self) -> bool {
        self.tally.errors > 0 || self.others_failed
    }
}

/// The requests of a case of one kind of request.
pub(in crate::run::case) struct RequestTrials<'a> {
    run: &'a CaseRun<'a>,
    target: RequestTarget<'a>,
    clients: RequestClients,
    live: LiveLoad,
}

impl<'a> RequestTrials<'a> {
    /// Opens the connections of the case.
    pub(in crate::run::case) async fn connect(
        run: &'a CaseRun<'a>,
        target: RequestTarget<'a>,
    ) -> Result<Self, EarlyEnd> {
        let strategy = run.spec.strategy_text();
        Ok(Self {
            run,
            target,
            clients: run.callers(target.config, target.calls).await?,
            live: run.live(&strategy, &strategy),
        })
    }
}

impl Trials for RequestTrials<'_> {
    async fn reconnect(&mut self) -> Result<(), EarlyEnd> {
        let RequestTarget { config, calls } = self.target;
        self.clients = self.run.callers(config, calls).await?;
        Ok(())
    }

    async fn send(&mut self, rate: f64, duration: Duration, is_counted: bool) -> Sent {
        let profile = Profile::Poisson(rate);
        let counts = match is_counted {
            true => {
                let due = schedule(&profile, 1.0, Duration::ZERO, duration);
                self.live.keep_to(due);
                Arc::clone(self.live.counts())
            }
            false => Arc::default(),
        };
        let pace = Pace::Open(profile);
        let sent = self
            .clients
            .run_counted(pace, duration, self.run.stop, counts);
        Sent {
            tally: sent.await,
            ..Sent::default()
        }
    }
}
