//! Several generators that produce one load together, and loads that begin at a given time.
//!
//! The first generator loads the objects and opens a rendezvous on the target; the others wait for
//! it. Each generator warms up its own share and reports that it is ready. All begin at
//! `--start-at`, by the first generator's clock. Each generator writes a result of its own, and
//! `loadgen merge` adds them up.
//!
//! - [`mod@check`]: which cases can be shared, checked before any request to a target
//! - [`mod@share`]: a generator's share, from loading the objects to removing them
//! - [`rendezvous`]: how the generators synchronize; [`clock`]: the differences between their
//!   clocks; [`note_store`]: the notes on the target that both use

mod check;
mod clock;
mod note_store;
mod rendezvous;
mod share;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use report::result::RunShard;
use workloads::GeneratorShard;

use super::Run;
use crate::cli::{RunArgs, StartAt};
use crate::exit::Failure;
pub(super) use check::check;
use rendezvous::{Rendezvous, RendezvousError};

/// The number of this generator among several, and when they begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct GeneratorGroup {
    pub(super) shard: GeneratorShard,
    pub(super) start_at: Option<SystemTime>,
    /// Whether `--shard` was given, possibly as `0/1`, for a single generator.
    pub(super) is_shard: bool,
}

impl GeneratorGroup {
    /// Reads the command line, and the index of a pod of an Indexed Job from the environment.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 when the index is needed, and is missing or invalid.
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

    /// Returns the run id that all generators of this run share, and no other run: it is made of
    /// what they have in common.
    pub(super) fn run_id(self) -> Option<String> {
        let at = self.start_at.filter(|_| !self.shard.is_whole())?;
        let at = StartAt(at).to_string();
        let plain: String = at.chars().filter(char::is_ascii_alphanumeric).collect();
        Some(format!("{}-{}", plain.to_lowercase(), self.shard.count()))
    }

    /// Returns this share for the result; `None` if neither `--shard` nor `--start-at` was given.
    pub(super) fn shown(self) -> Option<RunShard> {
        (self.is_shard || self.start_at.is_some()).then(|| RunShard {
            index: self.shard.index(),
            count: self.shard.count(),
            start_at: self.start_at.map(|at| StartAt(at).to_string()),
            ..RunShard::default()
        })
    }
}

/// When the measured time of the case begins, and whether it did.
pub(super) struct StartTime {
    at: SystemTime,
    rendezvous: Option<Rendezvous>,
    /// How late it began.
    late: OnceLock<Duration>,
    /// Why it did not begin.
    missed: OnceLock<String>,
}

impl StartTime {
    /// Returns a start time without other generators.
    pub(super) fn alone(at: SystemTime) -> Arc<Self> {
        Arc::new(Self {
            at,
            rendezvous: None,
            late: OnceLock::new(),
            missed: OnceLock::new(),
        })
    }

    fn with(at: SystemTime, rendezvous: Rendezvous) -> Arc<Self> {
        Arc::new(Self {
            at,
            rendezvous: Some(rendezvous),
            late: OnceLock::new(),
            missed: OnceLock::new(),
        })
    }

    /// Waits until all generators are ready. Returns when the load begins. Call it when all other
    /// preparations are done.
    ///
    /// # Errors
    /// Why the load does not begin, in one line.
    pub(super) async fn ready(&self) -> Result<Instant, String> {
        let ready = match &self.rendezvous {
            Some(rendezvous) => rendezvous.ready().await,
            None => match self.at.duration_since(SystemTime::now()) {
                Ok(left) => Ok(Instant::now() + left),
                Err(late) => Err(RendezvousError::Late {
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

    /// Records that the load has begun, and how late.
    pub(super) fn begun(&self, late: Duration) {
        self.late.get_or_init(|| late);
    }

    /// Returns whether the load has begun.
    fn has_begun(&self) -> bool {
        self.missed.get().is_none() && self.late.get().is_some()
    }

    /// Adds the lateness and the clock difference to the result.
    fn describe(&self, shard: &mut RunShard) {
        shard.late_ms = self.late.get().map(|late| late.as_secs_f64() * 1e3);
        let others = self.rendezvous.as_ref().filter(|_| shard.index > 0);
        shard.clock_ahead_ms = others.map(|rendezvous| rendezvous.clock().ahead_ms);
        shard.clock_within_ms = others.map(|rendezvous| rendezvous.clock().within_ms);
    }
}

impl Run<'_> {
    /// Adds the lateness and the clock difference to the run's result.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 when the load did not begin on time.
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
}
