//! One run: servers, clients, watches and faults, and their history.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use history::{History, Nanoseconds};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use crate::faults::{self, Faults};
use crate::lies::Lie;
use crate::peer::Peer;
use crate::{client, expiry, members, watcher};

/// Number of clients that write and read.
const CLIENTS: u32 = 6;
/// Number of clients that watch.
const WATCHERS: u32 = 4;
/// Number of attempts of the last read: a server that was killed may still replay its log.
pub(crate) const LAST_READS: usize = 40;

/// The specification of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) peer: Peer,
    /// Number of servers; more than one are an etcd cluster.
    pub(crate) members: usize,
    pub(crate) flags: &'static [&'static str],
    pub(crate) faults: Faults,
    pub(crate) lie: Option<Lie>,
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
}

/// The result of a run.
pub(crate) struct Ran {
    pub(crate) history: History,
    /// Why the history is incomplete, if it is: a watch did not catch up.
    pub(crate) unfinished: Option<String>,
}

/// The state that clients, watches and faults share.
pub(crate) struct Shared {
    endpoints: Vec<Endpoint>,
    begun: Instant,
    length: Duration,
    pub(crate) lie: Option<Lie>,
    /// The highest revision that a client has seen.
    pub(crate) newest: AtomicI64,
    /// The revision that the log has reached. Compactions do not go beyond it.
    pub(crate) log_told: AtomicI64,
    /// The lease that puts use; 0 before one is granted.
    pub(crate) lease: AtomicI64,
    /// The lease that expires and that puts use; 0 before one is granted.
    pub(crate) short_lease: AtomicI64,
    /// The revision that every watch must reach before it ends; 0 while clients write.
    last: AtomicI64,
    last_known: std::sync::OnceLock<Instant>,
}

impl Shared {
    /// Returns a new connection to the server of a client. It connects with its first request, and
    /// reconnects when lost.
    pub(crate) fn channel(&self, client: u32) -> Channel {
        self.endpoints[client as usize % self.endpoints.len()].connect_lazy()
    }

    pub(crate) fn now(&self) -> Nanoseconds {
        u64::try_from(self.begun.elapsed().as_nanos()).expect("a run is short")
    }

    /// Returns the remaining time of the run.
    pub(crate) fn left(&self) -> Duration {
        self.length.saturating_sub(self.begun.elapsed())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns whether the last revision of the run is known and not above `revision`.
    pub(crate) fn is_told(&self, revision: i64) -> bool {
        let last = self.last.load(Ordering::Acquire);
        last > 0 && revision >= last
    }

    /// Returns the time since the last revision became known.
    pub(crate) fn since_last(&self) -> Duration {
        self.last_known
            .get()
            .map_or(Duration::ZERO, Instant::elapsed)
    }

    fn set_last(&self, revision: i64) {
        self.last.store(revision, Ordering::Release);
        self.last_known.get_or_init(Instant::now);
    }
}

/// Runs the servers, clients, watches and faults of `plan`.
///
/// # Errors
/// A message if the server does not start, or does not serve at the end.
pub(crate) fn run(plan: &Plan) -> Result<Ran, String> {
    let mut members = members::start(plan.peer, plan.flags, plan.members)?;
    let endpoint = |member: &members::Member| {
        let endpoint = Endpoint::from_shared(member.proxy.url()).expect("its own URL");
        endpoint.connect_timeout(Duration::from_millis(300))
    };
    let shared = Arc::new(Shared {
        endpoints: members.iter().map(endpoint).collect(),
        begun: Instant::now(),
        length: Duration::from_secs(plan.seconds),
        lie: plan.lie,
        newest: AtomicI64::new(1),
        log_told: AtomicI64::new(1),
        lease: AtomicI64::new(0),
        short_lease: AtomicI64::new(0),
        last: AtomicI64::new(0),
        last_known: std::sync::OnceLock::new(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    let seed = |nth: u32| plan.seed.rotate_left(32) ^ u64::from(nth);
    let mut clients = JoinSet::new();
    let mut watchers = JoinSet::new();
    for nth in 0..CLIENTS {
        clients.spawn_on(
            client::run(shared.clone(), nth, seed(nth)),
            runtime.handle(),
        );
    }
    for nth in 100..100 + WATCHERS {
        let watches = watcher::watches(shared.clone(), nth, seed(nth));
        watchers.spawn_on(watches, runtime.handle());
    }
    let log = runtime.spawn(watcher::log(shared.clone()));
    faults::run(plan.faults, &shared, &mut members, seed(1_000))?;
    runtime.block_on(async {
        let mut history = History::default();
        let mut add = |client: client::Recorded| {
            history.operations.extend(client.operations);
            history.leases.extend(client.leases);
        };
        clients.join_all().await.into_iter().for_each(&mut add);
        let (expired, still_there) = expiry::wait(shared.clone(), CLIENTS).await;
        add(expired);
        let mut last = None;
        for _ in 0..LAST_READS {
            let (operation, revision) = client::read_all(shared.clone(), CLIENTS).await;
            history.operations.push(operation);
            last = revision;
            if last.is_some() {
                break;
            }
        }
        // If the last revision is unknown, watches end at their time limit.
        shared.set_last(last.unwrap_or(i64::MAX));
        let (log, mut unfinished) = log.await.map_err(|e| e.to_string())?;
        unfinished = unfinished.or(still_there);
        history.log = log;
        for (watches, stuck) in watchers.join_all().await {
            history.watches.extend(watches);
            unfinished = unfinished.or(stuck);
        }
        Ok(Ran {
            history,
            unfinished,
        })
    })
}
