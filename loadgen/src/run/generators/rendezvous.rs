//! The rendezvous of several generators, by notes on the target.
//!
//! `generator/I` exists once generator I has arrived. The note of the first generator says what all
//! generators must have in common and which objects it wrote. `clock/…` are used to compare clocks.
//! `ready/I` and `done/I` report the progress of generator I, and `stopped/0` that the first
//! generator was interrupted. Nothing is written before the first generator has written the
//! objects, and the first generator removes all notes.

use std::time::{Duration, Instant, SystemTime};

use load::verify::Expected;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use workloads::{Fingerprint, GeneratorShard};

use super::clock::{self, ClockDifference, ClockError};
use super::note_store::{FIRST, NoteStore, NoteStoreAddress, NoteStoreError};

/// How often the notes of the other generators are read.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long before the start time a generator must be ready, so that the others see its note in
/// time.
const READY_BEFORE: Duration = Duration::from_millis(500);
/// How long the first generator, when it is done, waits for the others before it removes the
/// objects that they may still read.
pub(super) const DONE_TIMEOUT: Duration = Duration::from_secs(180);
/// The same after an interruption: the other generators notice it and end at once.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the other generators check, while they measure, whether the first one was interrupted.
const STOPPED_EVERY: Duration = Duration::from_millis(500);
/// The largest allowed difference between clocks. If it is larger, a clock is not set, or the
/// target is too slow to compare them.
const CLOCKS_WITHIN_MS: f64 = 1_000.0;

/// The note that says that the first generator was interrupted.
const STOPPED: &str = "stopped/0";

/// What all generators of a run must have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct Agreed {
    /// Version, commit and profile of loadgen: results of different builds are not merged.
    pub(in crate::run) build: String,
    /// The scenario as it runs, with the changes from the command line.
    pub(in crate::run) scenario: String,
}

/// The contents of the first generator's note.
#[derive(Debug, Serialize, Deserialize)]
struct First {
    agreed: Agreed,
    /// The fingerprint of the data set as each generator creates it.
    fingerprint: String,
    /// The fingerprint of the objects as lists must contain them: a Kubernetes API adds to what it
    /// is sent.
    listed: FingerprintParts,
    /// As [`Expected::revisions`].
    revisions: Option<u64>,
    /// As [`Expected::revision`].
    revision: i64,
}

/// A [`Fingerprint`] that can be serialized.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct FingerprintParts {
    objects: u64,
    bytes: u64,
    sum: u64,
}

impl From<Fingerprint> for FingerprintParts {
    fn from(fingerprint: Fingerprint) -> Self {
        let Fingerprint {
            objects,
            bytes,
            sum,
        } = fingerprint;
        Self {
            objects,
            bytes,
            sum,
        }
    }
}

impl From<FingerprintParts> for Fingerprint {
    fn from(parts: FingerprintParts) -> Self {
        let FingerprintParts {
            objects,
            bytes,
            sum,
        } = parts;
        Self {
            objects,
            bytes,
            sum,
        }
    }
}

/// Why the generators did not synchronize, or not in time.
#[derive(Debug, thiserror::Error)]
pub(in crate::run) enum RendezvousError {
    /// The target failed.
    #[error("meeting the other generators: {0}")]
    Notes(#[from] NoteStoreError),
    /// Clocks could not be compared.
    #[error("comparing clocks: {0}")]
    Clocks(#[from] ClockError),
    /// The first generator did not arrive.
    #[error(
        "generator 0/{count} has not loaded the objects by {at}: it must run with the same --start-at and target, and --start-at leave it time for that"
    )]
    NoFirst {
        /// How many generators there are.
        count: u32,
        /// When the load was to begin.
        at: String,
    },
    /// Other generators were not ready.
    #[error("not begun: of {count} generators {} were not ready at {at}", numbers(.missing))]
    NotReady {
        /// Their numbers.
        missing: Vec<u32>,
        /// How many generators there are.
        count: u32,
        /// When the load was to begin.
        at: String,
    },
    /// This generator was not ready.
    #[error(
        "not begun: this generator was ready {late_ms:.0} ms after --start-at {at}, or less than {} ms before it: loading and warming up take longer",
        READY_BEFORE.as_millis()
    )]
    Late {
        /// How long after the start time it was ready, in ms; 0 if before.
        late_ms: f64,
        /// When the load was to begin.
        at: String,
    },
    /// The first generator has left.
    #[error("not begun: generator 0 ended before the load began; its own output says why")]
    Gone,
    /// Another generator has the same number.
    #[error("another generator runs as --shard {0} already")]
    Taken(GeneratorShard),
    /// The generators do not have everything in common.
    #[error("generator 0 has another {what} than this one: {hint}")]
    Differs {
        /// What differs.
        what: &'static str,
        /// How to fix it.
        hint: &'static str,
    },
    /// The first generator's note cannot be decoded.
    #[error("cannot decode the note of generator 0 (is it the same build?): {0}")]
    Garbage(#[from] serde_json::Error),
    /// A clock is not set.
    #[error(
        "the clock of this machine is {:.1} s {} that of generator 0, give or take {:.1} s: at most 1 s in all is allowed",
        .0.ahead_ms.abs() / 1e3,
        if .0.ahead_ms < 0.0 { "behind" } else { "ahead of" },
        .0.within_ms / 1e3
    )]
    Clock(ClockDifference),
}

/// Checks that two clocks are certainly close enough for a common start. The uncertainty of the
/// comparison counts, too.
fn near_enough(clock: ClockDifference) -> Result<(), RendezvousError> {
    match clock.at_most_ms() > CLOCKS_WITHIN_MS {
        true => Err(RendezvousError::Clock(clock)),
        false => Ok(()),
    }
}

/// Returns numbers as a list: `2, 5`.
fn numbers(all: &[u32]) -> String {
    let texts: Vec<_> = all.iter().map(u32::to_string).collect();
    texts.join(", ")
}

/// A rendezvous, and the number of this generator in it.
pub(in crate::run) struct Rendezvous {
    notes: NoteStore,
    shard: GeneratorShard,
    at: SystemTime,
    clock: ClockDifference,
    /// The first generator's task that responds with its time to the others, until the load begins.
    telling: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The place of a rendezvous, the number of this generator, and the start time.
#[derive(Clone, Copy)]
pub(in crate::run) struct Appointment<'a> {
    pub(in crate::run) place: &'a NoteStoreAddress,
    pub(in crate::run) shard: GeneratorShard,
    /// When the load begins, by the first generator's clock.
    pub(in crate::run) at: SystemTime,
}

impl Rendezvous {
    async fn connect(appointment: Appointment<'_>) -> Result<Self, RendezvousError> {
        Ok(Self {
            notes: appointment.place.connect().await?,
            shard: appointment.shard,
            at: appointment.at,
            clock: ClockDifference::default(),
            telling: Mutex::default(),
        })
    }

    /// Opens the rendezvous, as the first generator, which has loaded the objects. `fingerprint` is
    /// that of the data set as it is created; `expected` is what lists must contain.
    ///
    /// # Errors
    /// [`RendezvousError`].
    pub(in crate::run) async fn open(
        appointment: Appointment<'_>,
        agreed: Agreed,
        fingerprint: Fingerprint,
        expected: &Expected,
    ) -> Result<Self, RendezvousError> {
        let rendezvous = Self::connect(appointment).await?;
        let telling = clock::tell(&rendezvous.notes).await?;
        *rendezvous.telling.lock() = Some(telling);
        let first = First {
            agreed,
            fingerprint: fingerprint.to_string(),
            listed: expected.fingerprint.into(),
            revisions: expected.revisions,
            revision: expected.revision,
        };
        rendezvous.arrive(serde_json::to_string(&first)?).await?;
        Ok(rendezvous)
    }

    /// Waits for the first generator, checks that it runs the same scenario with the same objects,
    /// and compares clocks. Returns what lists must contain, with the rendezvous.
    ///
    /// # Errors
    /// [`RendezvousError`].
    pub(in crate::run) async fn join(
        appointment: Appointment<'_>,
        agreed: &Agreed,
        fingerprint: Fingerprint,
    ) -> Result<(Self, Expected), RendezvousError> {
        let mut rendezvous = Self::connect(appointment).await?;
        let first = loop {
            if let Some(value) = rendezvous.notes.get(FIRST).await? {
                break serde_json::from_slice::<First>(&value)?;
            }
            if SystemTime::now() + READY_BEFORE >= rendezvous.at {
                return Err(RendezvousError::NoFirst {
                    count: rendezvous.shard.count(),
                    at: rendezvous.at_text(),
                });
            }
            sleep(LOOK_EVERY).await;
        };
        if first.agreed.build != agreed.build {
            let hint = "all must be the same build of loadgen";
            return Err(RendezvousError::Differs {
                what: "build",
                hint,
            });
        }
        if first.agreed.scenario != agreed.scenario {
            let hint = "scenario, case and flags such as --objects and --rate must be the same";
            return Err(RendezvousError::Differs {
                what: "scenario",
                hint,
            });
        }
        if first.fingerprint != fingerprint.to_string() {
            let hint = "its objects are not those that this one makes of the same seed";
            return Err(RendezvousError::Differs {
                what: "data set",
                hint,
            });
        }
        rendezvous.arrive(String::from("{}")).await?;
        rendezvous.clock = clock::ask(&rendezvous.notes, rendezvous.shard.index()).await?;
        near_enough(rendezvous.clock)?;
        let expected = Expected {
            fingerprint: first.listed.into(),
            revisions: first.revisions,
            revision: first.revision,
        };
        Ok((rendezvous, expected))
    }

    /// Returns how far this clock is ahead of the first generator's.
    pub(in crate::run) fn clock(&self) -> ClockDifference {
        self.clock
    }

    /// Reports that this generator is ready, and waits until all are. Returns when the load begins.
    ///
    /// # Errors
    /// [`RendezvousError::Late`] if this generator is not ready in time,
    /// [`RendezvousError::NotReady`] if others are not, [`RendezvousError::Gone`] if the first one
    /// has left.
    pub(in crate::run) async fn ready(&self) -> Result<Instant, RendezvousError> {
        let at = self.clock.here(self.at);
        let left = at.duration_since(SystemTime::now());
        let left = left.unwrap_or_default();
        let begins = Instant::now() + left;
        if left < READY_BEFORE {
            let late = SystemTime::now().duration_since(at).unwrap_or_default();
            return Err(RendezvousError::Late {
                late_ms: late.as_secs_f64() * 1e3,
                at: self.at_text(),
            });
        }
        if !self.say("ready").await? {
            return Err(RendezvousError::Gone);
        }
        let until = begins - READY_BEFORE / 2;
        loop {
            let is_last = Instant::now() >= until;
            let missing = self.without("ready").await?;
            if missing.is_empty() {
                *self.telling.lock() = None;
                return Ok(begins);
            }
            if missing.contains(&self.shard.index()) {
                return Err(RendezvousError::Gone);
            }
            if is_last {
                return Err(RendezvousError::NotReady {
                    missing,
                    count: self.shard.count(),
                    at: self.at_text(),
                });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Reports that generator 0 was interrupted, so that the others end, too.
    ///
    /// # Errors
    /// Those of the target.
    pub(in crate::run) async fn stop_all(&self) -> Result<(), RendezvousError> {
        self.say("stopped").await.map(drop)
    }

    /// Waits until generator 0 was interrupted or has left. Reads the notes only while this
    /// generator is measuring. Errors of the target do not end the wait.
    pub(in crate::run) async fn stopped(&self, is_measuring: impl Fn() -> bool) {
        loop {
            sleep(STOPPED_EVERY).await;
            if !is_measuring() {
                continue;
            }
            let first = self.notes.get(FIRST).await;
            let stopped = self.notes.get(STOPPED).await;
            if matches!(first, Ok(None)) || matches!(stopped, Ok(Some(_))) {
                return;
            }
        }
    }

    /// Reports that this generator does not need the objects any more.
    ///
    /// # Errors
    /// Those of the target.
    pub(in crate::run) async fn done(&self) -> Result<(), RendezvousError> {
        // If the rendezvous is closed, the first generator has stopped waiting for this note.
        self.say("done").await.map(drop)
    }

    /// Waits until all generators are done, but not longer than `within`. Returns the numbers of
    /// those that are not done.
    ///
    /// # Errors
    /// Those of the target.
    pub(in crate::run) async fn others_done(
        &self,
        within: Duration,
    ) -> Result<Vec<u32>, RendezvousError> {
        let begun = Instant::now();
        loop {
            // An error is no reason to remove the objects that the others still read.
            match self.without("done").await {
                Ok(missing) if missing.is_empty() => return Ok(missing),
                looked if begun.elapsed() > within => return looked,
                Ok(_) | Err(_) => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Removes every note of the rendezvous. Shortly before the start time it waits for that time
    /// first, since the other generators must see which generator was not ready.
    ///
    /// # Errors
    /// Those of the target.
    pub(in crate::run) async fn close(&self) -> Result<(), RendezvousError> {
        drop(self.telling.lock().take());
        let left = self.at.duration_since(SystemTime::now());
        if let Some(left) = left.ok().filter(|left| *left < READY_BEFORE) {
            sleep(left).await;
        }
        self.notes.remove_all().await?;
        Ok(())
    }

    fn at_text(&self) -> String {
        humantime::format_rfc3339_millis(self.at).to_string()
    }

    /// Writes this generator's own note.
    async fn arrive(&self, value: String) -> Result<(), RendezvousError> {
        let arrived = match self.shard.index() {
            0 => self.notes.open(value).await?,
            index => self.notes.add(&format!("generator/{index}"), value).await?,
        };
        if arrived {
            return Ok(());
        }
        match self.notes.get(FIRST).await? {
            Some(_) => Err(RendezvousError::Taken(self.shard)),
            None => Err(RendezvousError::Gone),
        }
    }

    /// Writes the note `WHAT/I` of this generator, if the rendezvous is open. Returns whether it
    /// is.
    async fn say(&self, what: &str) -> Result<bool, RendezvousError> {
        let name = format!("{what}/{}", self.shard.index());
        Ok(self.notes.put(&name, String::from("1")).await?)
    }

    /// Returns the numbers of the generators without a note `WHAT/I`.
    async fn without(&self, what: &str) -> Result<Vec<u32>, RendezvousError> {
        Ok(self.notes.without(what, self.shard.count()).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_the_comparison_counts_as_a_difference() {
        let clock = |ahead_ms, within_ms| {
            near_enough(ClockDifference {
                ahead_ms,
                within_ms,
            })
        };
        assert!(clock(600.0, 300.0).is_ok() && clock(-999.0, 0.5).is_ok());
        let ahead = clock(600.0, 500.0).expect_err("they may be 1.1 s apart");
        let says = "0.6 s ahead of that of generator 0, give or take 0.5 s";
        assert!(ahead.to_string().contains(says), "{ahead}");
        let behind = clock(-600.0, 500.0).expect_err("likewise").to_string();
        assert!(behind.contains("0.6 s behind that"), "{behind}");
    }
}
