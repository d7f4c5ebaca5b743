//! Writers that change objects, delete them and create them again at a steady rate. They keep a
//! ledger of their writes, which every watcher must have received.
//!
//! They write to etcd, as other apiservers do, or patch through the API. Several writers write at
//! the same time, each its own objects, one write after the other.

mod ledger;

use std::io;
use std::sync::Arc;
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
use workloads::DataSet;
use workloads::scenario::Writes;
use workloads::writes::{Effect, Write, WriterSequence};
use workloads::{Arrivals, Profile};

pub use self::ledger::{Acknowledged, Ledger};
use crate::clients::thread;
use crate::endpoint::TargetEndpoint;
use crate::operation::list::{ListCase, ListError};
use crate::operation::patch::Patcher;
use crate::operation::watch_worker::key_hash;
use crate::record::LatencyHistogram;
use crate::shards::inventory::{Entry, NoObject};
use crate::shards::{Inventory, Plan};

/// The number of concurrent writers.
const WRITERS: u64 = 8;

/// The settings of the writers.
#[derive(Debug, Clone)]
pub struct Writing {
    /// The etcd behind the Kubernetes tier.
    pub etcd: ClientConfig,
    /// The data set that the etcd holds.
    pub data: Arc<DataSet>,
    /// The prefix of its keys, as in `/registry/`.
    pub root: String,
    /// The field that decides which worker an object belongs to.
    pub key: ShardKey,
    /// The kinds of writes.
    pub writes: Writes,
    /// The mean number of writes per second, which arrive as a Poisson process.
    pub per_second: f64,
    /// The objects' case and the API's endpoint, if writes are patches through the API.
    pub api: Option<(ListCase, TargetEndpoint)>,
}

/// The failure of a write.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A put or a deletion failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// A patch through the API failed.
    #[error(transparent)]
    Patch(#[from] ListError),
    /// A value of the data set is no object that an API would accept.
    #[error("a value of the data set is no object of the API: {0}")]
    NoObject(#[from] NoObject),
    /// The response reports success, but nothing was written.
    #[error("a write of object {0} that did nothing")]
    Nothing(u64),
    /// No thread or runtime could be started for the writers.
    #[error("cannot start a writer thread: {0}")]
    Start(#[from] io::Error),
    /// The thread ended without a result.
    #[error("writer thread ended")]
    Ended,
}

/// The client of a writer.
enum WriterClient {
    Etcd(Box<Client>),
    Api(Box<Patcher>),
}

impl Writing {
    /// Writes for `duration`, or until `stop` is cancelled, in a thread of its own.
    ///
    /// # Errors
    /// The error of the first write that failed.
    pub async fn run(
        &self,
        duration: Duration,
        stop: &CancellationToken,
    ) -> Result<Ledger, WriteError> {
        let (writing, stop) = (self.clone(), stop.clone());
        let body = async move |result: oneshot::Sender<_>| {
            result.send(writing.write_all(duration, &stop).await).ok();
        };
        let ledger = thread::start("writers", WriteError::Start, body)?;
        ledger.await.unwrap_or(Err(WriteError::Ended))
    }

    /// Writes once more to one object of each worker. A worker that has received this write has
    /// received everything before it. Returns the revisions of these writes; 0 for workers without
    /// objects.
    ///
    /// # Errors
    /// The error of the first write that failed.
    pub async fn write_markers(
        &self,
        ledger: &mut Ledger,
        inventory: &Inventory,
        plan: &Plan,
    ) -> Result<Vec<i64>, WriteError> {
        let mut client = self.connect().await?;
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
            let done = self.write(&mut client, write, Instant::now()).await?;
            revisions.push(done.revision);
            ledger.writes.push(done);
        }
        Ok(revisions)
    }

    async fn write_all(
        &self,
        duration: Duration,
        stop: &CancellationToken,
    ) -> Result<Ledger, WriteError> {
        let writers = WRITERS.min(self.data.len());
        let clients = try_join_all((0..writers).map(|_| self.connect())).await?;
        let begun = Instant::now();
        let each = (0..writers).zip(clients);
        let each = each
            .map(|(writer, client)| self.write_as(client, writer, writers, begun, duration, stop));
        let mut ledger = Ledger::default();
        for (writes, lag) in try_join_all(each).await? {
            ledger.writes.extend(writes);
            ledger.lag.add(&lag);
        }
        ledger.elapsed = begun.elapsed();
        Ok(ledger)
    }

    async fn write_as(
        &self,
        mut client: WriterClient,
        writer: u64,
        writers: u64,
        begun: Instant,
        duration: Duration,
        stop: &CancellationToken,
    ) -> Result<(Vec<Acknowledged>, LatencyHistogram), WriteError> {
        let seed = self.data.spec().seed;
        let profile = Profile::Poisson(self.per_second);
        let arrivals = Arrivals::new(&profile, seed, 0, writer, writers);
        let writes = WriterSequence::new(seed, self.data.len(), writer, writers, self.writes);
        let (mut done, mut lag) = (Vec::new(), LatencyHistogram::default());
        for (due, write) in arrivals.zip(writes) {
            if due >= duration || stop.is_cancelled() {
                break;
            }
            let due = begun + due;
            let is_late = Instant::now() > due;
            sleep_until(due.into()).await;
            lag.record(due.elapsed());
            let its_begin = if is_late { due } else { Instant::now() };
            done.push(self.write(&mut client, write, its_begin).await?);
        }
        Ok((done, lag))
    }

    async fn connect(&self) -> Result<WriterClient, WriteError> {
        Ok(match &self.api {
            Some((case, endpoint)) => {
                WriterClient::Api(Patcher::connect(case, endpoint).await?.into())
            }
            None => WriterClient::Etcd(Client::connect(self.etcd.clone()).await?.into()),
        })
    }

    /// Performs a write, timed from `begun`.
    async fn write(
        &self,
        client: &mut WriterClient,
        write: Write,
        begun: Instant,
    ) -> Result<Acknowledged, WriteError> {
        match client {
            WriterClient::Etcd(client) => self.put(client, write, begun).await,
            WriterClient::Api(patcher) => self.patch(patcher, write, begun).await,
        }
    }

    async fn patch(
        &self,
        patcher: &mut Patcher,
        write: Write,
        begun: Instant,
    ) -> Result<Acknowledged, WriteError> {
        let key = self.data.key(write.object);
        let place = String::from_utf8_lossy(&key);
        let place = place.split_once('/').map_or("", |(_, place)| place);
        // A different value each time: a patch that changes nothing is not written.
        let value = format!("object-{}-change-{}", write.object, write.version.change);
        let (key, held) = patcher.patch(place, &value).await?;
        Ok(Acknowledged {
            write,
            revision: held.revision,
            begun,
            took: begun.elapsed(),
            key,
            entry: Entry {
                shard_hash: held.shard_hash,
                hash: held.hash,
                bytes: held.bytes,
            },
        })
    }

    async fn put(
        &self,
        client: &Client,
        write: Write,
        begun: Instant,
    ) -> Result<Acknowledged, WriteError> {
        let key = self.data.key(write.object);
        let mut value = Vec::with_capacity(self.data.value_len(write.object));
        self.data
            .write_version(write.object, write.version, &mut value);
        let entry = Entry::of(self.key, &key, &value)?;
        let stored = [self.root.as_bytes(), &key].concat();
        let header = if write.effect == Effect::Deleted {
            let request = DeleteRangeRequest {
                key: stored.into(),
                ..DeleteRangeRequest::default()
            };
            let response = client.kv().delete_range(request).await;
            let response = response.map_err(EtcdError::from)?.into_inner();
            response.header.filter(|_| response.deleted == 1)
        } else {
            let request = PutRequest {
                key: stored.into(),
                value: value.into(),
                ..PutRequest::default()
            };
            let response = client.kv().put(request).await;
            response.map_err(EtcdError::from)?.into_inner().header
        };
        let header = header.ok_or(WriteError::Nothing(write.object))?;
        Ok(Acknowledged {
            write,
            revision: header.revision,
            begun,
            took: begun.elapsed(),
            key: key_hash(&key),
            entry,
        })
    }
}
