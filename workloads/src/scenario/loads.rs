//! Cases of several loads, which run at the same time against one target.
//!
//! - `operation`: the operation of a load, or its mix of small requests
//! - `start`: the arrivals of a load: closed loop or a schedule
//! - `tiers`: the tiers that a load uses

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::network::Network;
use super::saturate::Saturate;
use super::units::{ByteSize, duration_text};
use crate::keys::Distribution;
use crate::mix::{Mix, SmallRequest};
use crate::strategy::{Driver, Strategy, Tier};
use crate::values::Values;

mod operation;
mod start;
mod tiers;

pub use self::operation::{Operation, OperationError};
pub use self::start::Start;

/// The minimum number of rounds that can distinguish growth from noise: that each of five values is
/// larger than the previous one happens by chance in one of 120 runs.
const MIN_ROUNDS: u32 = 5;

/// The flow-control windows that HTTP/2 allows, in bytes.
const WINDOW_BYTES: std::ops::RangeInclusive<u32> = 1..=2_047 << 20;

/// Returns whether a name has only characters allowed in scenario files.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    !name.is_empty() && name.bytes().all(plain)
}

/// A case of loads that run at the same time. Memory, CPU and counters are measured for the case;
/// latencies, rates and errors are measured for each load. Where a report has room for one load
/// only, the first measured load represents the case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadsSpec {
    /// Name, unique in its scenario; also in reports.
    pub name: String,
    /// The tier of the case's lists, for which servers are started. Small requests and watchers use
    /// etcd unless their load names a tier.
    #[serde(default = "etcd")]
    pub tier: Tier,
    /// Names of the data sets on which the case runs; all of the scenario's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_sets: Vec<String>,
    /// Measured time; the scenario's `duration` by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub duration: Option<Duration>,
    /// Time that the loads run before the measured time, with the same arrivals; 2 s by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub warm_up: Option<Duration>,
    /// The search for the highest rate that meets an objective, instead of one run: of the load
    /// that represents the case, whose quantile is judged. Other loads of small requests on a
    /// schedule keep their ratio to its rate; everything else stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturate: Option<Saturate>,
    /// Number of times that the loads run on the same server, each time with new clients; 1 by
    /// default. What the servers hold at rest between rounds (memory, threads, connections, leases
    /// and more) is compared. Requires servers that the run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<NonZeroU32>,
    /// Further flags of bench-server's Kubernetes tier, like `--watch-cache=false`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server: Vec<String>,
    /// The emulated network between clients and servers; the real one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The loads; never empty.
    pub load: Vec<LoadSpec>,
}

/// A load: an operation with its arrivals, clients and keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// Name, unique in its case.
    pub name: String,
    /// The operation.
    pub operation: Operation,
    /// The tier of small requests and watchers; etcd by default. Lists use the case's tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// The arrivals.
    #[serde(default, skip_serializing_if = "Start::is_default")]
    pub arrivals: Start,
    /// Closed loop: the number of clients, each of which waits for its response. Lists in an open
    /// loop: the maximum number of concurrent lists; further lists wait, and their latency includes
    /// the wait. Watchers: their number.
    #[serde(default = "one")]
    pub clients: NonZeroU32,
    /// Connections that small requests or watchers share. Each listing client has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// The keys of small requests; uniform by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Distribution>,
    /// The values that `create` writes; those of the data set's objects by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Values>,
    /// Whether keep-alives of leases share a stream; each has its own by default.
    #[serde(default, skip_serializing_if = "Streams::is_each")]
    pub streams: Streams,
    /// Watchers: intervals in which they read nothing; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// Watchers: the time between closing their connections. Each watcher then resumes from its
    /// last revision.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub cut_every: Option<Duration>,
    /// Watchers: flow-control window of a stream and its connection; the client's own by default.
    /// Events that a watcher does not read fill this window first, and are then held by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<ByteSize>,
    /// Start of the load, from the beginning of the measured time; 0 by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub start: Option<Duration>,
    /// End of the load, from the beginning of the measured time; the end of the case by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub stop: Option<Duration>,
    /// Whether the load is measured; false for a background load.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub measured: bool,
    /// Whether lists are checked object by object. Unchecked lists take less of the CPU that the
    /// generator may share with the server.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub checked: bool,
}

/// The streams on which keep-alives of leases are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Streams {
    /// Each keep-alive has its own stream, as with `KeepAliveOnce` of etcd's client.
    #[default]
    Each,
    /// All keep-alives of a connection share one stream, as with `KeepAlive` of etcd's client.
    One,
}

impl Streams {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
    fn is_each(&self) -> bool {
        *self == Self::Each
    }
}

/// Recurring intervals in which watchers read nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Duration of each interval without reading.
    #[serde(with = "duration_text")]
    pub read: Duration,
    /// Time from the end of one interval without reading to the end of the next.
    #[serde(with = "duration_text")]
    pub every: Duration,
}

impl Stall {
    fn check(self) -> Result<(), String> {
        match !self.read.is_zero() && self.read < self.every {
            true => Ok(()),
            false => Err(format!(
                "stall: {:?} without reading must be longer than 0s and shorter than every {:?}",
                self.read, self.every
            )),
        }
    }
}

fn etcd() -> Tier {
    Tier::Etcd
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_yes(is: &bool) -> bool {
    *is
}

impl LoadsSpec {
    /// Returns the measured time; `duration` is the scenario's.
    #[must_use]
    pub fn lasts(&self, duration: Duration) -> Duration {
        self.duration.unwrap_or(duration)
    }

    /// Returns the load that represents the case: the first measured one.
    #[must_use]
    pub fn headline(&self) -> &LoadSpec {
        let mut measured = self.load.iter().filter(|load| load.measured);
        measured.next().unwrap_or(&self.load[0])
    }

    /// Returns whether a load of the case watches what the other loads write.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        let mut loads = self.load.iter();
        loads.any(|load| load.operation == Operation::Watch)
    }

    /// Returns why the highest rate of the case cannot be searched for; `None` if it can.
    #[must_use]
    pub fn no_search(&self) -> Option<&'static str> {
        let headline = self.headline();
        let has_window = |load: &LoadSpec| load.start.is_some() || load.stop.is_some();
        if !matches!(headline.operation, Operation::Small(_)) || headline.streams == Streams::One {
            return Some("its first measured load is not of small requests with a stream each");
        }
        if self.rounds.is_some() {
            return Some("it has rounds");
        }
        let mut loads = self.load.iter();
        let is_windowed = loads.any(has_window);
        is_windowed.then_some("a load starts later or ends earlier than the case")
    }

    /// Returns the small requests of all loads.
    pub fn small_requests(&self) -> impl Iterator<Item = SmallRequest> {
        self.load.iter().flat_map(LoadSpec::small_requests)
    }

    /// Returns whether a load writes objects of the data set, which changes their revisions. Loads
    /// of the Kubernetes tier write other objects.
    #[must_use]
    pub fn rewrites_data(&self) -> bool {
        let of_etcd = |load: &&LoadSpec| load.tier() == Tier::Etcd;
        let mut requests = self
            .load
            .iter()
            .filter(of_etcd)
            .flat_map(LoadSpec::small_requests);
        requests.any(SmallRequest::rewrites_data)
    }

    /// Checks that all fields fit together; `duration` is the scenario's.
    pub(super) fn check(&self, duration: Duration) -> Result<(), String> {
        let Self { name, load, .. } = self;
        if !is_plain(name) {
            return Err(format!(
                "name `{name}` may hold only letters, digits, `-`, `_` and `.`"
            ));
        }
        if !load.iter().any(|load| load.measured) {
            return Err(format!("case `{name}` has no load that is measured"));
        }
        if let Some(rounds) = self.rounds
            && rounds.get() < MIN_ROUNDS
        {
            return Err(format!(
                "case `{name}`: rounds = {rounds} must be {MIN_ROUNDS} or more: fewer show no trend"
            ));
        }
        if self.tier == Tier::Etcd && !self.server.is_empty() {
            return Err(format!(
                "case `{name}`: `server` is for the Kubernetes tier: tier = \"kube\""
            ));
        }
        if let Some(network) = self.network {
            network
                .check()
                .map_err(|what| format!("case `{name}`: {what}"))?;
        }
        for (nth, one) in load.iter().enumerate() {
            one.check(self.tier, self.lasts(duration))
                .map_err(|what| format!("case `{name}`, load `{}`: {what}", one.name))?;
            if load[..nth].iter().any(|other| other.name == one.name) {
                return Err(format!("case `{name}` has two loads `{}`", one.name));
            }
        }
        if let Some(saturate) = self.saturate {
            if let Some(why) = self.no_search() {
                return Err(format!("case `{name}`: saturate: {why}"));
            }
            let checked = saturate.check(self.lasts(duration));
            checked.map_err(|why| format!("case `{name}`: {why}"))?;
        }
        self.check_watchers()?;
        Ok(())
    }
}

impl LoadSpec {
    /// Returns the load's small requests.
    pub fn small_requests(&self) -> impl Iterator<Item = SmallRequest> {
        let mix = match &self.operation {
            Operation::Small(mix) => Some(mix),
            Operation::List(_) | Operation::Watch => None,
        };
        mix.into_iter().flat_map(Mix::requests)
    }

    /// Returns the operation's name in reports. Keep-alives that share one stream have another name
    /// than those with a stream each.
    #[must_use]
    pub fn operation_text(&self) -> String {
        match self.streams {
            Streams::Each => self.operation.to_string(),
            Streams::One => format!("{} on one stream", self.operation),
        }
    }

    /// Returns the start and the end of the load in a case that lasts `duration`.
    #[must_use]
    pub fn window(&self, duration: Duration) -> (Duration, Duration) {
        (
            self.start.unwrap_or_default(),
            self.stop.unwrap_or(duration),
        )
    }

    /// Returns whether the load is constant throughout a case that lasts `duration`.
    #[must_use]
    pub fn is_steady(&self, duration: Duration) -> bool {
        let same_rate = match &self.arrivals {
            Start::Closed { .. } => true,
            Start::Open(profile) => profile.is_steady(),
        };
        same_rate && self.stall.is_none() && self.window(duration) == (Duration::ZERO, duration)
    }

    fn check(&self, tier: Tier, duration: Duration) -> Result<(), String> {
        if !is_plain(&self.name) {
            return Err("a name may hold only letters, digits, `-`, `_` and `.`".to_owned());
        }
        self.check_tier(tier)?;
        let (start, stop) = self.window(duration);
        if start >= stop || stop > duration {
            return Err(format!(
                "it runs from {start:?} to {stop:?}, and the case lasts {duration:?}"
            ));
        }
        if let Start::Closed { think } = self.arrivals
            && think >= duration
        {
            return Err(format!(
                "clients that think for {think:?} send one request each: the case lasts {duration:?}"
            ));
        }
        if let Start::Open(profile) = &self.arrivals {
            profile.check().map_err(|error| error.to_string())?;
        }
        if let Some(keys) = self.keys {
            keys.check().map_err(|error| error.to_string())?;
        }
        if let Some(value) = &self.value {
            value.check().map_err(|error| error.to_string())?;
            if !self.small_requests().any(|r| r == SmallRequest::Create) {
                return Err("`value` is what `create` writes, and it creates nothing".to_owned());
            }
        }
        if self.streams == Streams::One
            && !matches!(&self.operation, Operation::Small(mix) if mix.requests().eq([SmallRequest::LeaseKeepAlive]))
        {
            return Err(format!(
                "`streams` is for keep-alives of leases alone, and this is `{}`",
                self.operation
            ));
        }
        self.check_watcher_options()?;
        self.check_operation(tier)
    }

    /// Checks the options that only watchers take.
    fn check_watcher_options(&self) -> Result<(), String> {
        let of_watchers = [
            ("stall", self.stall.is_some()),
            ("cut_every", self.cut_every.is_some()),
            ("window", self.window.is_some()),
        ];
        if self.operation != Operation::Watch
            && let Some((field, _)) = of_watchers.iter().find(|(_, is_given)| *is_given)
        {
            return Err(format!("`{field}` is for watchers"));
        }
        self.stall.map_or(Ok(()), Stall::check)?;
        if self.cut_every.is_some_and(|every| every.is_zero()) {
            return Err("`cut_every` must be longer than 0s".to_owned());
        }
        if let Some(window) = self.window
            && !WINDOW_BYTES.contains(&window.0)
        {
            return Err(format!(
                "`window` = {window}: HTTP/2 windows are from 1B to 2047MiB"
            ));
        }
        Ok(())
    }

    /// Checks that the operation takes the given options, and that the tier supports it.
    fn check_operation(&self, tier: Tier) -> Result<(), String> {
        let refuse = |field: &str| Err(format!("`{}` does not take `{field}`", self.operation));
        match &self.operation {
            Operation::Small(_) => match (self.checked, &self.arrivals) {
                (false, _) => refuse("checked"),
                (true, Start::Open(_)) if self.clients.get() > 1 => Err(
                    "`clients` are of a closed loop: the schedule of an open one stands for any number"
                        .to_owned(),
                ),
                _ => Ok(()),
            },
            Operation::List(strategy) => {
                let is_list = strategy.driver() == Driver::List
                    && strategy.runs_on(tier)
                    && strategy.go_client().is_none()
                    && !matches!(strategy, Strategy::NoLists | Strategy::ReadYourWrite);
                match (is_list, self.keys, self.connections) {
                    (false, ..) => Err(format!(
                        "`{strategy}` is no list that a load of the {tier} tier can make"
                    )),
                    (_, Some(_), _) => refuse("keys"),
                    (.., Some(_)) => refuse("connections"),
                    _ => Ok(()),
                }
            }
            Operation::Watch => match (self.keys, &self.arrivals, self.checked) {
                (Some(_), ..) => refuse("keys"),
                (_, arrivals, _) if !arrivals.is_default() => refuse("arrivals"),
                (.., false) => refuse("checked"),
                _ if self.start.is_some() || self.stop.is_some() => {
                    Err("watchers watch for as long as the case lasts".to_owned())
                }
                _ => Ok(()),
            },
        }
    }
}
