//! Several generators that make one load together, and loads that begin at a moment.
//!
//! The first generator loads the objects and opens a meeting on the target; the others wait for it.
//! Each warms up its own share, says that it is ready, and all begin when `--start-at` says, by the
//! first generator's clock. What each measured is a result of its own, which `loadgen merge` adds
//! up.
//!
//! - [`mod@check`]: what can be shared, before anything is asked of a target
//! - [`meeting`]: where they meet; [`clock`]: how far apart their clocks are; [`keys`]: the keys
//!   that both use

mod check;
mod clock;
mod keys;
mod meeting;

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use etcd_api::client::config::ClientConfig;
use load::operation::leases::GrantedLeases;
use report::result::RunShard;
use workloads::{DataSet, GeneratorShard};

use super::case::Source;
use super::foreign::{Seeded, leases_left};
use super::target::{Target, unusable};
use super::{Run, both};
use crate::cli::{RunArgs, StartAt};
use crate::exit::Failure;
use crate::seed::revoke;
pub(super) use check::check;
use meeting::{Agreed, DONE_WITHIN, Meeting, MeetingError, Place, STOPPED_WITHIN};

/// Clocks that may differ by more are worth a line.
const CLOCKS_WORTH_A_LINE_MS: f64 = 50.0;

/// Which of several generators this is, and when they begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    pub(super) shard: GeneratorShard,
    pub(super) start_at: Option<SystemTime>,
    /// Whether `--shard` was given, which may name the only one: `0/1`.
    pub(super) is_shard: bool,
}

impl Together {
    /// Reads the command line, and the number of a pod of an Indexed Job from the environment.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 where the number is not there.
    pub(super) fn of(args: &RunArgs) -> Result<Self, Failure> {
        let index = std::env::var(crate::cli::INDEX_VARIABLE).ok();
        let shard = args.shard.map(|shard| shard.resolved(index.as_deref()));
        Ok(Self {
            shard: shard
                .transpose()
                .map_err(Failure::usage)?
                .unwrap_or(GeneratorShard::WHOLE),
            start_at: args.start_at.map(|StartAt(at)| at),
            is_shard: args.shard.is_some(),
        })
    }

    /// Returns what all generators of a run call it, and no other run: what they have in common.
    pub(super) fn run_id(self) -> Option<String> {
        let at = self.start_at.filter(|_| !self.shard.is_whole())?;
        let at = StartAt(at).to_string();
        let plain: String = at.chars().filter(char::is_ascii_alphanumeric).collect();
        Some(format!("{}-{}", plain.to_lowercase(), self.shard.count()))
    }

    /// As it stands in a result; `None` where nobody asked for it.
    pub(super) fn shown(self) -> Option<RunShard> {
        (self.is_shard || self.start_at.is_some()).then(|| RunShard {
            index: self.shard.index(),
            count: self.shard.count(),
            start_at: self.start_at.map(|at| StartAt(at).to_string()),
            ..RunShard::default()
        })
    }
}

/// When the measured time of the case begins, and what came of it.
pub(super) struct Beginning {
    at: SystemTime,
    meeting: Option<Meeting>,
    /// How late it began.
    late: OnceLock<Duration>,
    /// Why it did not.
    missed: OnceLock<String>,
}

impl Beginning {
    /// At a moment, with nobody else.
    pub(super) fn alone(at: SystemTime) -> Arc<Self> {
        Arc::new(Self {
            at,
            meeting: None,
            late: OnceLock::new(),
            missed: OnceLock::new(),
        })
    }

    fn with(at: SystemTime, meeting: Meeting) -> Arc<Self> {
        Arc::new(Self {
            at,
            meeting: Some(meeting),
            late: OnceLock::new(),
            missed: OnceLock::new(),
        })
    }

    /// Waits until all are ready; returns when the load begins. To be asked when everything else is
    /// done.
    ///
    /// # Errors
    /// Why it does not begin, in one line.
    pub(super) async fn ready(&self) -> Result<Instant, String> {
        let ready = match &self.meeting {
            Some(meeting) => meeting.ready().await,
            None => match self.at.duration_since(SystemTime::now()) {
                Ok(left) => Ok(Instant::now() + left),
                Err(late) => Err(MeetingError::Late {
                    late_ms: late.duration().as_secs_f64() * 1e3,
                    at: StartAt(self.at).to_string(),
                }),
            },
        };
        ready.map_err(|error| {
            let text = error.to_string();
            self.missed.get_or_init(|| text).clone()
        })
    }

    /// Notes that the load has begun, so long after it should.
    pub(super) fn begun(&self, late: Duration) {
        self.late.get_or_init(|| late);
    }

    /// Returns whether the load has begun.
    fn has_begun(&self) -> bool {
        self.missed.get().is_none() && self.late.get().is_some()
    }

    /// Adds what is known of the beginning.
    fn describe(&self, shard: &mut RunShard) {
        shard.late_ms = self.late.get().map(|late| late.as_secs_f64() * 1e3);
        let others = self.meeting.as_ref().filter(|_| shard.index > 0);
        shard.clock_ahead_ms = others.map(|meeting| meeting.clock().ahead_ms);
        shard.clock_within_ms = others.map(|meeting| meeting.clock().within_ms);
    }
}

impl Run<'_> {
    /// Notes what is known of the beginning.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 where the load did not begin when it should.
    pub(super) fn begun_in_time(&mut self) -> Result<(), Failure> {
        let Some(beginning) = &self.beginning else {
            return Ok(());
        };
        if let Some(shard) = &mut self.result.report.shard {
            beginning.describe(shard);
        }
        match beginning.missed.get() {
            Some(why) => Err(Failure::usage(anyhow::anyhow!("{why}"))),
            None => Ok(()),
        }
    }

    /// One generator's share of a load.
    pub(super) async fn share(
        &mut self,
        target: &Target,
        data: &Arc<DataSet>,
        at: SystemTime,
    ) -> Result<(), Failure> {
        let endpoints = ClientConfig::new(&target.spec.to_string());
        let config = ClientConfig {
            endpoints: endpoints.map_err(|e| unusable(target, e))?.endpoints,
            ..self.plan.launcher.connect.clone()
        };
        let prefix = format!("/loadgen/{}.meeting/", self.plan.run_id);
        let place = Place {
            config: &config,
            prefix: &prefix,
            shard: self.plan.together.shard,
            at,
        };
        let environment = &self.result.report.environment;
        let agreed = Agreed {
            build: format!("{}, {}", environment.program(), environment.profile),
            scenario: self.scenario.to_toml(),
        };
        match self.plan.together.shard.index() {
            0 => self.first_share(target, data, place, agreed).await,
            _ => self.other_share(target, data, place, agreed).await,
        }
    }

    /// That of the first, who loads the objects and removes everything.
    async fn first_share(
        &mut self,
        target: &Target,
        data: &Arc<DataSet>,
        place: Place<'_>,
        agreed: Agreed,
    ) -> Result<(), Failure> {
        let seeded = Seeded::create(self.plan, target, data, self.progress, self.stop);
        let Some(seeded) = seeded.await? else {
            self.result.report.interrupted = true;
            return Ok(());
        };
        let at = place.at;
        let opened = Meeting::open(place, agreed, &seeded.expected).await;
        let measured = match opened {
            Err(error) => Err(unusable(target, error)),
            Ok(meeting) => {
                self.begin_with(at, meeting);
                let source = Source::Seeded {
                    data: Arc::clone(data),
                    root: seeded.root.clone(),
                    expected: seeded.expected.clone(),
                    leases: Arc::clone(&seeded.leases),
                };
                self.only_case(target, source).await;
                let ended = self.end_meeting().await;
                ended.map_err(|error| unusable(target, error))
            }
        };
        let deleted = seeded.clean_up(self.plan.keep_data, self.progress).await;
        let deleted = deleted.map_err(|left| unusable(target, left));
        both(measured, deleted)
    }

    /// That of another, who waits for the first.
    async fn other_share(
        &mut self,
        target: &Target,
        data: &Arc<DataSet>,
        place: Place<'_>,
        agreed: Agreed,
    ) -> Result<(), Failure> {
        self.progress.say(&format!(
            "{target}: waiting for generator 0 to load the objects"
        ));
        let (at, config) = (place.at, place.config);
        let objects = Arc::clone(data);
        let fingerprint = move || objects.fingerprint(0..objects.len());
        let joined = async {
            // It takes as long as making every object does: seconds for gigabytes.
            let fingerprint = tokio::task::spawn_blocking(fingerprint).await;
            let fingerprint = fingerprint.map_err(|e| unusable(target, e))?;
            let joined = Meeting::join(place, &agreed, fingerprint).await;
            joined.map_err(|e| unusable(target, e))
        };
        let (meeting, expected) = tokio::select! {
            joined = joined => joined?,
            () = self.stop.cancelled() => {
                self.result.report.interrupted = true;
                return Ok(());
            }
        };
        let clock = meeting.clock();
        if clock.at_most_ms() > CLOCKS_WORTH_A_LINE_MS {
            self.progress.say(&format!(
                "{target}: the clock here is {:.0} ms ahead of generator 0's (± {:.1} ms); the load begins by that one",
                clock.ahead_ms, clock.within_ms
            ));
        }
        let beginning = self.begin_with(at, meeting);
        let leases: Arc<GrantedLeases> = Arc::default();
        let source = Source::Seeded {
            data: Arc::clone(data),
            root: self.plan.foreign_root(data),
            expected,
            leases: Arc::clone(&leases),
        };
        let (progress, stop) = (self.progress, self.stop);
        let stopping = async {
            let Some(meeting) = &beginning.meeting else {
                return pending().await;
            };
            // Before the beginning the load says itself that it cannot begin.
            meeting.stopped(|| beginning.has_begun()).await;
            progress.say(&format!(
                "{target}: generator 0 was interrupted and removes the objects; this one ends, too"
            ));
            stop.cancel();
            pending().await
        };
        tokio::select! {
            () = self.only_case(target, source) => {}
            never = stopping => match never {},
        }
        let Some(meeting) = &beginning.meeting else {
            return Ok(());
        };
        let revoked = revoke(config, leases.take()).await;
        let revoked = revoked.map_err(|error| unusable(target, leases_left(&error)));
        let done = meeting.done().await;
        both(revoked, done.map_err(|error| unusable(target, error)))
    }

    fn begin_with(&mut self, at: SystemTime, meeting: Meeting) -> Arc<Beginning> {
        let beginning = Beginning::with(at, meeting);
        Arc::clone(self.beginning.insert(beginning))
    }

    /// The only case that a shared scenario has.
    async fn only_case(&mut self, target: &Target, source: Source) {
        let case = self.scenario.cases.all().next();
        if let Some((tier, spec)) = case {
            self.case(target, tier, spec, source, None).await;
        }
    }

    /// Waits for the others, where they may still read the objects, and removes the meeting's keys.
    async fn end_meeting(&self) -> Result<(), MeetingError> {
        let Some(beginning) = &self.beginning else {
            return Ok(());
        };
        let Some(meeting) = &beginning.meeting else {
            return Ok(());
        };
        if beginning.has_begun() {
            meeting.done().await?;
            self.progress.say("waiting for the other generators");
            let missing = tokio::select! {
                missing = meeting.others_done(DONE_WITHIN) => missing?,
                () = self.stop.cancelled() => {
                    self.progress.say(
                        "interrupted: the other generators are told to end, and the objects removed",
                    );
                    meeting.stop_all().await?;
                    meeting.others_done(STOPPED_WITHIN).await?
                }
            };
            if !missing.is_empty() {
                self.progress.say(&format!(
                    "generators {missing:?} are not done, and what they read is removed now"
                ));
            }
        }
        meeting.close().await
    }
}
