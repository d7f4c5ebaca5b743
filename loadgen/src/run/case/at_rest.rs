//! Loads in rounds on the same servers, and what the servers hold at rest before the first round
//! and after each round.
//!
//! A round is the whole measured part of a case: new clients connect, warm up and are measured, and
//! the responses they received are checked. Then the objects that the round created are deleted,
//! history is compacted up to the latest revision, and loadgen waits until the servers are at rest.
//! What then grows from round to round is what the servers have not released.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::{Error as EtcdError, Refusal};
use etcd_api::keys::prefix_end;
use etcd_api::kubernetes::COMPACT_REV_KEY;
use etcd_api::proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseLeasesRequest, PutRequest, RangeRequest,
};
use load::verify::Verifier;
use measure::{MetricsClient, MetricsText, Process, settle};
use report::result::{AtRest, Held, HeldKind, LoadRound, Outcome, Verdict};
use tokio::time::sleep;
use workloads::scenario::LoadsSpec;

use super::object_source::created_root;
use super::{CaseRun, EarlyEnd, ListedData, Measured};
use crate::seed::revoke;
use crate::servers::running::Running;
use crate::timeouts::in_time;

/// How long a server may take to notice that its clients have disconnected.
const RETURN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a watch cache may take to notice that history was compacted: bench-server's checks
/// every 15 s.
const COMPACTION_TIMEOUT: Duration = Duration::from_secs(25);
/// Number of earlier readings with which a reading must agree to be taken as the first one at once.
/// Each takes seconds, since it waits until memory settles.
const STILL: usize = 2;
/// Pause between two readings.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The name of the Kubernetes tier's process.
const KUBE: &str = "kube";

/// What each process holds, by process name and kind.
type Reading = BTreeMap<(String, HeldKind), u64>;

/// The gauges from which the count of each kind is read: the first one that the server's metrics
/// contain.
const GAUGES: [(HeldKind, &[&str]); 3] = [
    (HeldKind::Connections, &["bench_server_connections_open"]),
    (HeldKind::Watchers, &["etcd_debugging_mvcc_watcher_total"]),
    (HeldKind::Tasks, &["bench_server_tasks", "go_goroutines"]),
];
/// Gauges of the Kubernetes tier with a value for each resource. A gauge without any value counts
/// as 0.
const KUBE_GAUGES: [(HeldKind, &str); 2] = [
    (HeldKind::Watchers, "apiserver_longrunning_requests"),
    (HeldKind::PastSnapshots, "bench_cache_snapshots"),
];

impl CaseRun<'_> {
    /// Runs the measured part of a case in rounds on the same servers. The measurements of the case
    /// are those of its last round.
    pub(super) async fn rounds_of_loads(
        &self,
        case: &LoadsSpec,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let rounds = case.rounds.map_or(1, NonZeroU32::get);
        let before = self.at_rest(&listed.verifier, running, None).await?;
        let mut readings = vec![before];
        let mut done = Vec::new();
        for round in 1..=rounds {
            measured.case.loads.clear();
            measured.histograms.clear();
            measured.profiles.clear();
            let begun = Instant::now();
            self.loads(case, listed, running, measured).await?;
            done.push(round_of(&measured.case.loads, begun.elapsed()));
            let reading = self
                .at_rest(&listed.verifier, running, readings.first())
                .await?;
            readings.push(reading);
            let at_rest = judged(&readings, &done);
            self.progress.say(&format!(
                "{}/{}: round {round} of {rounds}: at rest {}",
                self.target.name,
                self.spec.name(),
                shown(&at_rest)
            ));
            measured.case.at_rest = Some(at_rest);
        }
        let wrong = measured.case.at_rest.as_ref().and_then(AtRest::wrong);
        match wrong {
            Some((Verdict::CannotTell, reason)) => {
                measured.case.valid = false;
                measured.case.outcome = Outcome::Invalid { reason };
                Ok(())
            }
            Some((_, reason)) => Err(EarlyEnd::Failed(format!(
                "it does not return to what it held at rest: {reason}"
            ))),
            None => Ok(()),
        }
    }

    /// Deletes what a round created, waits until the servers are at rest, and reads what they hold.
    /// Also waits, up to a limit, while they hold more than in the `first` reading of a kind that
    /// must return to it.
    async fn at_rest(
        &self,
        verifier: &Verifier,
        running: &Running,
        first: Option<&Reading>,
    ) -> Result<Reading, EarlyEnd> {
        let mut etcd = Reading::new();
        if let Some(config) = &running.etcd {
            let created = created_root(&verifier.root);
            let has_tier = running.processes().iter().any(|child| child.name() == KUBE);
            let taken = take_back(config, &created, has_tier);
            let taken = self.unless_stopped(taken).await?;
            let [keys, leases] =
                taken.map_err(|e| EarlyEnd::Failed(format!("after a round: {e}")))?;
            let name = || running.processes().first().map(|it| it.name().to_owned());
            let name = name().unwrap_or_default();
            etcd.insert((name.clone(), HeldKind::Keys), keys);
            etcd.insert((name, HeldKind::Leases), leases);
        }
        let begun = Instant::now();
        let mut before: Vec<Reading> = Vec::new();
        loop {
            let mut reading = etcd.clone();
            for child in running.processes() {
                let process = Process::new(child.pid())?;
                let url = running.metrics_url(child.name());
                // One connection for all requests, since each connection counts among those that
                // the server holds.
                let mut client = url.and_then(|url| MetricsClient::new(&url).ok());
                self.unless_stopped(settle(&process, client.as_mut()))
                    .await??;
                let held = held(child.name(), &process, client.as_mut()).await?;
                let held = held.into_iter();
                reading.extend(held.map(|(kind, held)| ((child.name().to_owned(), kind), held)));
            }
            let within = match first {
                Some(first) => within(&above(first, &reading)),
                // It is not known yet what the server holds without clients, and the clients that
                // seeded it may still be connected.
                None if stands_still(&before, &reading) => Duration::ZERO,
                None => RETURN_TIMEOUT,
            };
            if begun.elapsed() >= within {
                return Ok(reading);
            }
            before.push(reading);
            self.unless_stopped(sleep(LOOK_EVERY)).await?;
        }
    }
}

/// Returns the kinds that are above the `first` reading, among those that must return to it. Pooled
/// memory, for example, need not.
fn above(first: &Reading, now: &Reading) -> Vec<HeldKind> {
    let of_clients = now.iter().filter(|((_, kind), _)| kind.must_equal());
    let above = of_clients.filter(|(key, held)| first.get(*key).is_some_and(|then| *held > then));
    above.map(|((_, kind), _)| *kind).collect()
}

/// Returns how long to wait for these kinds to return to what they were.
fn within(above: &[HeldKind]) -> Duration {
    match above {
        [] => Duration::ZERO,
        _ if above.contains(&HeldKind::PastSnapshots) => COMPACTION_TIMEOUT,
        _ => RETURN_TIMEOUT,
    }
}

/// Returns whether the kinds that must return were the same in the last [`STILL`] readings and now.
fn stands_still(before: &[Reading], now: &Reading) -> bool {
    let Some(last) = before.len().checked_sub(STILL) else {
        return false;
    };
    before[last..]
        .iter()
        .all(|reading| above(reading, now).is_empty() && above(now, reading).is_empty())
}

/// Deletes what loads created below a prefix, revokes all leases and compacts. Returns the numbers
/// of keys and leases that remain. etcd does not notify its clients of a compaction, so a
/// Kubernetes tier in front is notified as by another apiserver that has compacted: through the key
/// [`COMPACT_REV_KEY`].
async fn take_back(
    config: &ClientConfig,
    created: &str,
    has_tier: bool,
) -> Result<[u64; 2], EtcdError> {
    let client = in_time(Client::connect(config.clone())).await?;
    let delete = DeleteRangeRequest {
        range_end: prefix_end(created.as_bytes()).into(),
        key: created.to_owned().into(),
        ..DeleteRangeRequest::default()
    };
    in_time(client.kv().delete_range(delete)).await?;
    revoke(config, in_time(leases(&client)).await?).await?;
    let everything = RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        count_only: true,
        ..RangeRequest::default()
    };
    let counted = in_time(client.kv().range(everything)).await?.into_inner();
    let revision = counted.header.map_or(0, |header| header.revision);
    let mut keys = counted.count.cast_unsigned();
    if has_tier {
        let agreed = PutRequest {
            key: COMPACT_REV_KEY.into(),
            value: revision.to_string().into(),
            prev_kv: true,
            ..PutRequest::default()
        };
        let before = in_time(client.kv().put(agreed)).await?.into_inner().prev_kv;
        // That key is none of the objects.
        keys -= u64::from(before.is_some());
    }
    let compact = CompactionRequest {
        revision,
        physical: true,
    };
    match in_time(client.kv().compact(compact)).await {
        // Nothing was written since the last compaction.
        Ok(_) | Err(EtcdError::Refused(Refusal::Compacted)) => {}
        Err(error) => return Err(error),
    }
    let leases = in_time(leases(&client)).await?.len() as u64;
    Ok([keys, leases])
}

async fn leases(client: &Client) -> Result<Vec<i64>, EtcdError> {
    let all = client.lease().lease_leases(LeaseLeasesRequest {}).await?;
    let all = all.into_inner().leases.into_iter();
    Ok(all.map(|lease| lease.id).collect())
}

/// Returns what a process holds now, except for kinds that it does not report.
async fn held(
    name: &str,
    process: &Process,
    client: Option<&mut MetricsClient>,
) -> Result<Vec<(HeldKind, u64)>, EarlyEnd> {
    let page = match client {
        Some(client) => client.metrics().await,
        None => Ok(MetricsText::default()),
    };
    // An empty page in its place would count as nothing held.
    let page = page.map_err(|e| EarlyEnd::Failed(format!("what {name} holds at rest: {e}")))?;
    let handles = process.handles()?;
    let mut held = vec![
        (HeldKind::PrivateMemory, process.memory()?.anon),
        (HeldKind::Files, handles.files),
        (HeldKind::Sockets, handles.sockets),
        (HeldKind::Threads, handles.threads),
    ];
    held.extend(page.allocated().map(|bytes| (HeldKind::Allocated, bytes)));
    for (kind, names) in GAUGES {
        let count = names.iter().find_map(|name| page.sum(name));
        held.extend(count.map(|count| (kind, count as u64)));
    }
    if name == KUBE {
        let of_kube = KUBE_GAUGES.map(|(kind, name)| (kind, page.sum(name).unwrap_or(0.0) as u64));
        held.extend(of_kube);
    }
    Ok(held)
}

/// Returns the verdicts on everything that each reading contains.
fn judged(readings: &[Reading], rounds: &[LoadRound]) -> AtRest {
    let keys = readings.first().into_iter().flat_map(BTreeMap::keys);
    let held = keys.filter_map(|key| {
        let each = readings.iter().map(|reading| reading.get(key).copied());
        let at_rest = each.collect::<Option<Vec<u64>>>()?;
        Some(Held::judged(&key.0, key.1, at_rest))
    });
    AtRest {
        rounds: rounds.to_vec(),
        held: held.collect(),
    }
}

/// Returns the totals of a round.
fn round_of(loads: &[report::result::Load], elapsed: Duration) -> LoadRound {
    let is_watch = |load: &&report::result::Load| load.events.is_some();
    let requests = loads.iter().filter(|load| !is_watch(load));
    LoadRound {
        requests: requests.map(|load| load.requests).sum(),
        events: loads.iter().filter_map(|load| load.events).sum(),
        cuts: loads
            .iter()
            .filter_map(|load| load.cut_ms.as_ref())
            .map(|cuts| cuts.n)
            .sum(),
        elapsed_s: elapsed.as_secs_f64(),
    }
}

/// Returns what is held now, in one line.
fn shown(at_rest: &AtRest) -> String {
    let held = at_rest.held.iter().map(|held| {
        let now = held.at_rest.last().copied().unwrap_or(0);
        format!(
            "{} {} {}",
            held.process,
            held.kind,
            held.kind.quantity(now as f64)
        )
    });
    held.collect::<Vec<_>>().join(", ")
}
