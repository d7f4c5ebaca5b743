//! Writers that change objects, delete them and create them again at a steady rate, and keep a ledger of what they did: what
//! everybody who watches must have seen.
//!
//! They write to etcd, as other apiservers do, or patch through the API. Several lanes write at the same time, each its own objects,
//! one write after the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, PutRequest};
use futures::future::try_join_all;
use kube_api::shard_selector::ShardKey;
use tokio::sync::oneshot;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use workloads::operations::Arrivals;
use workloads::scenario::Writes;
use workloads::writes::{Effect, Lane, Write};
use workloads::{DataSet, Fingerprint, Version};

use crate::record::LatencyHistogram;
use crate::shards::inventory::Entry;
use crate::shards::proof::Written;
use crate::shards::{Inventory, Plan};
use crate::target::list::follow::key_hash;
use crate::target::list::patch::Patcher;
use crate::target::list::{ListError, Reach, Row};

/// Writes at the same time.
const LANES: u64 = 8;

/// What is written, and where.
#[derive(Debug, Clone)]
pub struct Writing {
    /// The etcd behind the Kubernetes tier.
    pub etcd: ClientConfig,
    /// What is there.
    pub data: Arc<DataSet>,
    /// What its keys begin with, as `/registry/`.
    pub root: String,
    /// The field that decides which worker an object belongs to.
    pub key: ShardKey,
    /// What writes do.
    pub writes: Writes,
    /// How many a second, by chance.
    pub per_second: f64,
    /// Where patches go: the objects' row, and how its API is reached.
    pub api: Option<(Row, Reach)>,
}

/// What a lane writes with.
enum Pen {
    Etcd(Box<Client>),
    Api(Box<Patcher>),
}

/// One acknowledged write.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledged {
    /// What it was.
    pub write: Write,
    /// Its revision.
    pub revision: i64,
    /// When it was sent.
    pub sent: Instant,
    /// Until it was acknowledged.
    pub took: Duration,
    /// Hash of its object's key.
    pub key: u64,
    /// The object: after the write, or what a deletion took away.
    pub entry: Entry,
}

/// Everything that was written.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Of each object in the order of its revisions; of different objects in no order.
    pub writes: Vec<Acknowledged>,
    /// From the intended start of a write to its sending.
    pub lag: LatencyHistogram,
    /// From the first intended start to the last answer.
    pub elapsed: Duration,
}

impl Ledger {
    /// What watchers must see; `owner` answers the worker that had an object of this hash at a revision.
    #[must_use]
    pub fn expected(&self, owner: impl Fn(i64, u64) -> usize) -> Vec<Written> {
        let writes = self.writes.iter();
        writes
            .map(|done| Written {
                revision: done.revision,
                effect: done.write.effect,
                worker: owner(done.revision, done.entry.shard_hash),
                key: done.key,
                hash: done.entry.hash,
                sent: done.sent,
            })
            .collect()
    }

    /// The last write of each object up to a revision.
    fn latest(&self, revision: i64) -> HashMap<u64, &Acknowledged> {
        let writes = self.writes.iter();
        let writes = writes.filter(|done| done.revision <= revision);
        writes.map(|done| (done.write.object, done)).collect()
    }

    /// What is there now, after it was `inventory`.
    #[must_use]
    pub fn result(&self, inventory: &Inventory) -> Fingerprint {
        self.result_at(inventory, i64::MAX)
    }

    /// What was there at a revision, after it was `inventory`.
    #[must_use]
    pub fn result_at(&self, inventory: &Inventory, revision: i64) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        let latest = self.latest(revision);
        for (object, seeded) in (0..).zip(inventory.entries()) {
            let entry = match latest.get(&object) {
                Some(done) if done.write.effect == Effect::Deleted => continue,
                Some(done) => done.entry,
                None => *seeded,
            };
            fingerprint.add_hashed(entry.hash, entry.bytes);
        }
        fingerprint
    }

    /// An object that is there for each worker that has one, with its version.
    fn one_of_each(&self, inventory: &Inventory, plan: &Plan) -> Vec<Option<(u64, Version)>> {
        let latest = self.latest(i64::MAX);
        let mut found = vec![None; plan.shards().len()];
        let mut missing = found.len();
        for (object, seeded) in (0..).zip(inventory.entries()) {
            let (entry, version) = match latest.get(&object) {
                Some(done) if done.write.effect == Effect::Deleted => continue,
                Some(done) => (done.entry, done.write.version),
                None => (*seeded, Version::default()),
            };
            let place = &mut found[plan.owner(entry.shard_hash)];
            if place.is_none() {
                *place = Some((object, version));
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        found
    }
}

impl Writing {
    /// Writes for `duration`, in a thread of its own, or until `stop` is cancelled.
    ///
    /// # Errors
    /// The first write's that failed.
    pub async fn run(
        &self,
        duration: Duration,
        stop: &CancellationToken,
    ) -> Result<Ledger, EtcdError> {
        let (writing, stop) = (self.clone(), stop.clone());
        let (answer, ledger) = oneshot::channel();
        let lost = |what: String| EtcdError::Protocol(what);
        thread::Builder::new()
            .name("writers".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let outcome = match runtime {
                    Ok(runtime) => runtime.block_on(writing.lanes(duration, &stop)),
                    Err(e) => Err(lost(format!("cannot start a runtime: {e}"))),
                };
                answer.send(outcome).ok();
            })
            .map_err(|e| lost(format!("cannot start a writer thread: {e}")))?;
        ledger
            .await
            .unwrap_or_else(|_| Err(lost("writer thread ended".to_owned())))
    }

    /// One more write for each worker, to one of its objects: who has seen it has seen everything before it. Answers its
    /// revision; 0 for workers without objects.
    ///
    /// # Errors
    /// The first write's that failed.
    pub async fn last_words(
        &self,
        ledger: &mut Ledger,
        inventory: &Inventory,
        plan: &Plan,
    ) -> Result<Vec<i64>, EtcdError> {
        let mut pen = self.pen().await?;
        let mut revisions = Vec::new();
        for object in ledger.one_of_each(inventory, plan) {
            let Some((object, mut version)) = object else {
                revisions.push(0);
                continue;
            };
            version.change += 1;
            let write = Write {
                object,
                version,
                effect: Effect::Changed,
            };
            let done = self.write(&mut pen, write).await?;
            revisions.push(done.revision);
            ledger.writes.push(done);
        }
        Ok(revisions)
    }

    async fn lanes(
        &self,
        duration: Duration,
        stop: &CancellationToken,
    ) -> Result<Ledger, EtcdError> {
        let lanes = LANES.min(self.data.len());
        let pens = try_join_all((0..lanes).map(|_| self.pen())).await?;
        let begun = Instant::now();
        let each = (0..lanes).zip(pens);
        let each = each.map(|(lane, pen)| self.lane(pen, lane, lanes, begun, duration, stop));
        let mut ledger = Ledger::default();
        for (writes, lag) in try_join_all(each).await? {
            ledger.writes.extend(writes);
            ledger.lag.add(&lag);
        }
        ledger.elapsed = begun.elapsed();
        Ok(ledger)
    }

    async fn lane(
        &self,
        mut pen: Pen,
        lane: u64,
        lanes: u64,
        begun: Instant,
        duration: Duration,
        stop: &CancellationToken,
    ) -> Result<(Vec<Acknowledged>, LatencyHistogram), EtcdError> {
        let seed = self.data.spec().seed;
        let arrivals = Arrivals::new(seed, lane, self.per_second / lanes as f64);
        let writes = Lane::new(seed, self.data.len(), lane, lanes, self.writes);
        let (mut done, mut lag) = (Vec::new(), LatencyHistogram::default());
        for (due, write) in arrivals.zip(writes) {
            if due >= duration || stop.is_cancelled() {
                break;
            }
            sleep_until((begun + due).into()).await;
            lag.record(begun.elapsed().saturating_sub(due));
            done.push(self.write(&mut pen, write).await?);
        }
        Ok((done, lag))
    }

    async fn pen(&self) -> Result<Pen, EtcdError> {
        let failed = |e: ListError| EtcdError::Protocol(e.to_string());
        Ok(match &self.api {
            Some((row, reach)) => {
                let patcher = Patcher::connect(row, reach).await;
                Pen::Api(patcher.map_err(failed)?.into())
            }
            None => Pen::Etcd(Client::connect(self.etcd.clone()).await?.into()),
        })
    }

    async fn write(&self, pen: &mut Pen, write: Write) -> Result<Acknowledged, EtcdError> {
        match pen {
            Pen::Etcd(client) => self.put(client, write).await,
            Pen::Api(patcher) => self.patch(patcher, write).await,
        }
    }

    async fn patch(&self, patcher: &mut Patcher, write: Write) -> Result<Acknowledged, EtcdError> {
        let key = self.data.key(write.object);
        let place = String::from_utf8_lossy(&key);
        let place = place.split_once('/').map_or("", |(_, place)| place);
        // Another value each time: a patch that changes nothing is not written.
        let value = format!("object-{}-change-{}", write.object, write.version.change);
        let sent = Instant::now();
        let patched = patcher.patch(place, &value).await;
        let (key, held) = patched.map_err(|e| EtcdError::Protocol(e.to_string()))?;
        Ok(Acknowledged {
            write,
            revision: held.revision,
            sent,
            took: sent.elapsed(),
            key,
            entry: Entry {
                shard_hash: held.shard_hash,
                hash: held.hash,
                bytes: held.bytes,
            },
        })
    }

    async fn put(&self, client: &Client, write: Write) -> Result<Acknowledged, EtcdError> {
        let key = self.data.key(write.object);
        let mut value = Vec::with_capacity(self.data.value_len(write.object));
        self.data
            .write_version(write.object, write.version, &mut value);
        let entry = Entry::of(self.key, &key, &value)
            .map_err(|e| EtcdError::Protocol(format!("an object that is none: {e}")))?;
        let stored = [self.root.as_bytes(), &key].concat();
        let sent = Instant::now();
        let header = if write.effect == Effect::Deleted {
            let request = DeleteRangeRequest {
                key: stored.into(),
                ..DeleteRangeRequest::default()
            };
            let answer = client.kv().delete_range(request).await?.into_inner();
            answer.header.filter(|_| answer.deleted == 1)
        } else {
            let request = PutRequest {
                key: stored.into(),
                value: value.into(),
                ..PutRequest::default()
            };
            client.kv().put(request).await?.into_inner().header
        };
        let header = header.ok_or_else(|| {
            EtcdError::Protocol(format!(
                "a write of object {} that did nothing",
                write.object
            ))
        })?;
        Ok(Acknowledged {
            write,
            revision: header.revision,
            sent,
            took: sent.elapsed(),
            key: key_hash(&key),
            entry,
        })
    }
}
