//! Where several generators meet: keys on the target, below a prefix of their own.
//!
//! `generator/I` is there from when generator I was, and that of the first says what all must have
//! in common and which objects it wrote; `clock/…` is how clocks are compared; `ready/I` and
//! `done/I` say how far generator I is. Nothing is written before the first generator found the
//! target empty, and the first removes all of it.

use std::time::{Duration, Instant, SystemTime};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use load::verify::Expected;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use workloads::{Fingerprint, GeneratorShard};

use super::clock::{self, ClockDifference};
use crate::timeouts::in_time;

/// How often the keys of the others are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long before the beginning a generator must be ready: the others must still see it.
const READY_BEFORE: Duration = Duration::from_millis(500);
/// How long the first generator waits for the others when it is done itself, before it removes what
/// they may still read.
const DONE_WITHIN: Duration = Duration::from_secs(180);
/// Clocks that differ by more are not set.
const CLOCKS_WITHIN_MS: f64 = 1_000.0;

/// What all generators of a run must have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct Agreed {
    /// Version of this program.
    pub(in crate::run) version: String,
    /// The scenario as it is run, with what the command line changes about it.
    pub(in crate::run) scenario: String,
}

/// What the first generator says.
#[derive(Debug, Serialize, Deserialize)]
struct First {
    agreed: Agreed,
    /// Of the objects that it wrote.
    fingerprint: String,
    /// As [`Expected::revisions`].
    revisions: Option<u64>,
    /// As [`Expected::revision`].
    revision: i64,
}

/// Why generators did not meet, or not in time.
#[derive(Debug, thiserror::Error)]
pub(in crate::run) enum MeetingError {
    /// The target failed.
    #[error("meeting the other generators: {0}")]
    Etcd(#[from] EtcdError),
    /// The first generator was not there.
    #[error(
        "generator 0/{count} has not loaded the objects by {at}: it must run with the same --start-at and target, and --start-at leave it time for that"
    )]
    NoFirst {
        /// How many generators there are.
        count: u32,
        /// When the load was to begin.
        at: String,
    },
    /// Others were not ready.
    #[error("not begun: of {count} generators {} were not ready at {at}", numbers(.missing))]
    NotReady {
        /// Which.
        missing: Vec<u32>,
        /// How many generators there are.
        count: u32,
        /// When the load was to begin.
        at: String,
    },
    /// This one was not ready.
    #[error(
        "not begun: this generator was ready {late_ms:.0} ms after --start-at {at}, or less than {} ms before it: loading and warming up take longer",
        READY_BEFORE.as_millis()
    )]
    Late {
        /// How long after it, in ms; 0 where before.
        late_ms: f64,
        /// When the load was to begin.
        at: String,
    },
    /// Another has its number.
    #[error("another generator is {0} already")]
    Taken(GeneratorShard),
    /// What they have not in common.
    #[error("generator 0 has another {what} than this one: {hint}")]
    Differs {
        /// What differs.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// What the first generator says is not understood.
    #[error("what generator 0 wrote is not understood: {0}")]
    Garbage(#[from] serde_json::Error),
    /// A clock is not set.
    #[error(
        "the clock of this machine is {:.1} s {} that of generator 0: at most 1 s is allowed",
        .ahead_ms.abs() / 1e3,
        if *.ahead_ms < 0.0 { "behind" } else { "ahead of" }
    )]
    Clock {
        /// How far it is ahead; negative where it is behind.
        ahead_ms: f64,
    },
}

/// Numbers as a list: `2, 5`.
fn numbers(all: &[u32]) -> String {
    let texts: Vec<_> = all.iter().map(u32::to_string).collect();
    texts.join(", ")
}

/// The keys of a meeting, and which generator this is.
pub(in crate::run) struct Meeting {
    client: Client,
    prefix: String,
    shard: GeneratorShard,
    at: SystemTime,
    clock: ClockDifference,
    /// The first generator tells the others its time, until the load begins.
    telling: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// Where and as whom to meet.
pub(in crate::run) struct Place<'a> {
    pub(in crate::run) config: &'a ClientConfig,
    /// Of keys that are nobody else's.
    pub(in crate::run) prefix: &'a str,
    pub(in crate::run) shard: GeneratorShard,
    /// When the load begins, by the first generator's clock.
    pub(in crate::run) at: SystemTime,
}

impl Meeting {
    async fn connect(place: Place<'_>) -> Result<Self, MeetingError> {
        Ok(Self {
            client: in_time(Client::connect(place.config.clone())).await?,
            prefix: place.prefix.to_owned(),
            shard: place.shard,
            at: place.at,
            clock: ClockDifference::default(),
            telling: Mutex::default(),
        })
    }

    /// Opens the meeting, as the first generator that has loaded the objects.
    ///
    /// # Errors
    /// [`MeetingError`].
    pub(in crate::run) async fn open(
        place: Place<'_>,
        agreed: Agreed,
        expected: &Expected,
    ) -> Result<Self, MeetingError> {
        let meeting = Self::connect(place).await?;
        let telling = clock::tell(&meeting.client, &meeting.prefix).await?;
        *meeting.telling.lock() = Some(telling);
        let first = First {
            agreed,
            fingerprint: expected.fingerprint.to_string(),
            revisions: expected.revisions,
            revision: expected.revision,
        };
        meeting.arrive(serde_json::to_string(&first)?).await?;
        Ok(meeting)
    }

    /// Waits for the first generator, checks that it runs the same over the same objects, and
    /// compares clocks. Returns what lists must hold.
    ///
    /// # Errors
    /// [`MeetingError`].
    pub(in crate::run) async fn join(
        place: Place<'_>,
        agreed: &Agreed,
        fingerprint: Fingerprint,
    ) -> Result<(Self, Expected), MeetingError> {
        let mut meeting = Self::connect(place).await?;
        let first = loop {
            if let Some(value) = meeting.get("generator/0").await? {
                break serde_json::from_slice::<First>(&value)?;
            }
            if SystemTime::now() + READY_BEFORE >= meeting.at {
                return Err(MeetingError::NoFirst {
                    count: meeting.shard.count(),
                    at: meeting.at_text(),
                });
            }
            sleep(LOOK_EVERY).await;
        };
        if first.agreed.version != agreed.version {
            let hint = "all must be the same build of loadgen";
            return Err(MeetingError::Differs {
                what: "version",
                hint,
            });
        }
        if first.agreed.scenario != agreed.scenario {
            let hint = "scenario, case and flags such as --objects and --rate must be the same";
            return Err(MeetingError::Differs {
                what: "scenario",
                hint,
            });
        }
        if first.fingerprint != fingerprint.to_string() {
            let hint = "its objects are not those that this one makes of the same seed";
            return Err(MeetingError::Differs {
                what: "data set",
                hint,
            });
        }
        meeting.arrive(String::from("{}")).await?;
        meeting.clock = clock::ask(&meeting.client, &meeting.prefix, meeting.shard.index()).await?;
        let ahead_ms = meeting.clock.ahead_ms;
        if ahead_ms.abs() > CLOCKS_WITHIN_MS {
            return Err(MeetingError::Clock { ahead_ms });
        }
        let expected = Expected {
            fingerprint,
            revisions: first.revisions,
            revision: first.revision,
        };
        Ok((meeting, expected))
    }

    /// How far the clock is ahead of the first generator's.
    pub(in crate::run) fn clock(&self) -> ClockDifference {
        self.clock
    }

    /// Says that this generator is ready and waits until all are. Returns when the load begins.
    ///
    /// # Errors
    /// [`MeetingError::Late`] and [`MeetingError::NotReady`] where one is not in time.
    pub(in crate::run) async fn ready(&self) -> Result<Instant, MeetingError> {
        let at = self.clock.here(self.at);
        let left = at.duration_since(SystemTime::now());
        let left = left.unwrap_or_default();
        let begins = Instant::now() + left;
        if left < READY_BEFORE {
            let late = SystemTime::now().duration_since(at).unwrap_or_default();
            return Err(MeetingError::Late {
                late_ms: late.as_secs_f64() * 1e3,
                at: self.at_text(),
            });
        }
        self.say("ready").await?;
        let until = begins - READY_BEFORE / 2;
        loop {
            let is_last = Instant::now() >= until;
            let missing = self.without("ready").await?;
            if missing.is_empty() {
                *self.telling.lock() = None;
                return Ok(begins);
            }
            if is_last {
                return Err(MeetingError::NotReady {
                    missing,
                    count: self.shard.count(),
                    at: self.at_text(),
                });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Says that this generator needs the objects no longer.
    ///
    /// # Errors
    /// The target's.
    pub(in crate::run) async fn done(&self) -> Result<(), MeetingError> {
        self.say("done").await
    }

    /// Waits until all generators are done, 180 s at most; returns those that are not.
    ///
    /// # Errors
    /// The target's.
    pub(in crate::run) async fn others_done(&self) -> Result<Vec<u32>, MeetingError> {
        let begun = Instant::now();
        loop {
            let missing = self.without("done").await?;
            if missing.is_empty() || begun.elapsed() > DONE_WITHIN {
                return Ok(missing);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Removes every key of the meeting.
    ///
    /// # Errors
    /// The target's.
    pub(in crate::run) async fn close(&self) -> Result<(), MeetingError> {
        drop(self.telling.lock().take());
        let request = DeleteRangeRequest {
            range_end: prefix_end(self.prefix.as_bytes()).into(),
            key: self.prefix.clone().into(),
            ..DeleteRangeRequest::default()
        };
        in_time(self.client.kv().delete_range(request)).await?;
        Ok(())
    }

    fn at_text(&self) -> String {
        humantime::format_rfc3339_millis(self.at).to_string()
    }

    /// Creates this generator's own key.
    async fn arrive(&self, value: String) -> Result<(), MeetingError> {
        let key = format!("generator/{}", self.shard.index());
        match self.put_if(&key, 0, &key, value).await? {
            true => Ok(()),
            false => Err(MeetingError::Taken(self.shard)),
        }
    }

    /// Puts `what/I`, if the meeting is still there.
    async fn say(&self, what: &str) -> Result<(), MeetingError> {
        let own = format!("generator/{}", self.shard.index());
        let key = format!("{what}/{}", self.shard.index());
        self.put_if(&own, 1, &key, String::from("1")).await?;
        Ok(())
    }

    /// Puts a key if another has been written so many times; whether it did.
    async fn put_if(
        &self,
        compared: &str,
        version: i64,
        key: &str,
        value: String,
    ) -> Result<bool, MeetingError> {
        let request = TxnRequest {
            compare: vec![Compare {
                result: CompareResult::Equal.into(),
                target: CompareTarget::Version.into(),
                key: format!("{}{compared}", self.prefix).into(),
                target_union: Some(TargetUnion::Version(version)),
                ..Compare::default()
            }],
            success: vec![RequestOp {
                request: Some(Request::RequestPut(PutRequest {
                    key: format!("{}{key}", self.prefix).into(),
                    value: value.into(),
                    ..PutRequest::default()
                })),
            }],
            failure: Vec::new(),
        };
        let response = in_time(self.client.kv().txn(request)).await?;
        Ok(response.into_inner().succeeded)
    }

    async fn get(&self, key: &str) -> Result<Option<bytes::Bytes>, MeetingError> {
        let request = RangeRequest {
            key: format!("{}{key}", self.prefix).into(),
            ..RangeRequest::default()
        };
        let response = in_time(self.client.kv().range(request)).await?;
        let kv = response.into_inner().kvs.into_iter().next();
        Ok(kv.map(|kv| kv.value))
    }

    /// The generators that have not said `what`.
    async fn without(&self, what: &str) -> Result<Vec<u32>, MeetingError> {
        let prefix = format!("{}{what}/", self.prefix);
        let request = RangeRequest {
            range_end: prefix_end(prefix.as_bytes()).into(),
            key: prefix.clone().into(),
            keys_only: true,
            ..RangeRequest::default()
        };
        let response = in_time(self.client.kv().range(request)).await?;
        let keys = response.into_inner().kvs;
        let said = |number: &u32| {
            let key = format!("{prefix}{number}");
            keys.iter().any(|kv| kv.key == key.as_bytes())
        };
        Ok((0..self.shard.count())
            .filter(|number| !said(number))
            .collect())
    }
}
