//! Seeds a data set into an etcd: many puts per transaction, the last objects one by one, over
//! several connections, with a record of everything that was sent.
//!
//! - [`fill_log()`]: writes entries without effect, for a server that keeps a log and was given few
//!   objects
//! - [`unseed()`]: removes the data set; [`remove_created()`], [`revoke()`]: remove what loads
//!   created besides

mod remove_created;
mod unseed;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::{Error as EtcdError, Refusal};
use etcd_api::proto::etcdserverpb::request_op::Request as Op;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use load::verify::Expected;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use workloads::{DataSet, Fingerprint};

use crate::progress::Phase;
use crate::timeouts::in_time;
pub use remove_created::{remove_created, revoke};
pub use unseed::{NotUnseeded, unseed};

/// The number of connections that write.
const CONNECTIONS: usize = 4;
/// The number of transactions in flight on each connection.
const IN_FLIGHT: usize = 2;
/// etcd's default `--max-txn-ops`.
const BATCH_OPS: u64 = 128;
/// The number of last objects that are put one by one, as Kubernetes writes them: more entries than
/// etcd keeps of its raft log in memory, a snapshot's 10,000 (`--snapshot-count`) and 5,000 before
/// it (`--snapshot-catchup-entries`). etcd counts entries, not bytes, and 1,172 batches of 128
/// would leave 150,000 objects there, in the heap of a restarted server as well.
pub const ONE_BY_ONE: u64 = 16_000;
/// The number of entries without effect in flight.
const WITHOUT_EFFECT_IN_FLIGHT: usize = 200;
/// The name of a key below a data set's root that does not exist. Deleting it adds an entry to the
/// log, and no revision.
const NO_KEY: &str = "\0no-key";
/// The largest batch, in bytes: a little less than etcd's default `--max-request-bytes` (1.5 MiB),
/// which counts the encoded transaction.
const BATCH_BYTES: usize = 1_400_000;
/// The most bytes that a put takes in a transaction besides key and value.
const OP_OVERHEAD: usize = 32;

/// The objects that a clean-up must delete: those that were sent and not refused for their size,
/// whether or not there was a response.
#[derive(Debug, Default)]
pub struct SeededSlices {
    slices: Mutex<Vec<Range<u64>>>,
    stop: CancellationToken,
}

impl SeededSlices {
    /// Takes the slices of the data set that were sent, in no order and without overlap.
    pub fn take(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.slices.lock())
    }

    /// Ends [`seed`] once the requests in flight have their responses.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    fn note(&self, slice: Range<u64>) {
        self.slices.lock().push(slice);
    }

    fn forget(&self, slice: &Range<u64>) {
        let mut slices = self.slices.lock();
        if let Some(at) = slices.iter().rposition(|noted| noted == slice) {
            slices.swap_remove(at);
        }
    }
}

/// Writes every object of `data` below `root`, or those until [`SeededSlices::stop`]. When it
/// returns, with an error or not, no transaction is in flight, except those without a response.
/// Dropping the future stops writing at once and leaves transactions in flight.
///
/// # Errors
/// The first error of any connection. A transaction without a response within 30 s is an error.
pub async fn seed(
    config: &ClientConfig,
    data: &Arc<DataSet>,
    root: &str,
    written: &Arc<SeededSlices>,
    phase: &Phase,
) -> Result<Expected, EtcdError> {
    let mut all = nothing();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let connected = in_time(Client::connect(config.clone()));
        match written.stop.run_until_cancelled(connected).await {
            Some(client) => clients.push(client?),
            None => return Ok(all),
        }
    }
    let next = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for client in clients {
        for _ in 0..IN_FLIGHT {
            let writer = Writer {
                client: client.clone(),
                data: Arc::clone(data),
                root: root.to_owned(),
                next: Arc::clone(&next),
                written: Arc::clone(written),
                phase: phase.clone(),
            };
            writers.spawn(writer.run());
        }
    }
    let mut first_error = None;
    while let Some(writer) = writers.join_next().await {
        // A writer ends by itself only if it panics; the message is on standard error already.
        let part = writer
            .map_err(|e| EtcdError::Client(format!("a seeding task ended unexpectedly: {e}")))
            .flatten();
        let part = match part {
            Ok(part) => part,
            Err(error) => {
                // The other writers end too, once their requests in flight are done, so that none
                // of them interferes with the clean-up.
                written.stop();
                first_error.get_or_insert(error);
                continue;
            }
        };
        all.fingerprint.merge(&part.fingerprint);
        let sums = all.revisions.zip(part.revisions);
        all.revisions = sums.map(|(all, part)| all.wrapping_add(part));
        all.revision = all.revision.max(part.revision);
    }
    first_error.map_or(Ok(all), Err)
}

/// Writes [`ONE_BY_ONE`] entries without effect after a data set of fewer `objects`, in a second or
/// two. So the data set is not in the part of the raft log that etcd keeps in memory, as it would
/// not be in production after millions of entries.
///
/// # Errors
/// The first error. A transaction without a response within 30 s is an error.
pub async fn fill_log(config: &ClientConfig, objects: u64, root: &str) -> Result<(), EtcdError> {
    if objects >= ONE_BY_ONE {
        return Ok(());
    }
    let client = in_time(Client::connect(config.clone())).await?;
    let request = transaction([delete(format!("{root}{NO_KEY}").into())].into_iter());
    let sent = (0..ONE_BY_ONE).map(|_| {
        let (client, request) = (&client, request.clone());
        async move { in_time(client.kv().txn(request)).await.map(drop) }
    });
    let sent = stream::iter(sent).buffer_unordered(WITHOUT_EFFECT_IN_FLIGHT);
    sent.try_collect::<()>().await
}

fn nothing() -> Expected {
    Expected {
        fingerprint: Fingerprint::default(),
        revisions: Some(0),
        revision: 0,
    }
}

/// The slices of the data set that are still to be sent. A server with lower limits makes the
/// writer halve them.
struct Pieces(Vec<Range<u64>>);

impl Pieces {
    fn of(slice: Range<u64>) -> Self {
        Self(vec![slice])
    }

    fn next(&mut self) -> Option<Range<u64>> {
        self.0.pop()
    }

    fn put_back(&mut self, slice: Range<u64>) {
        if !slice.is_empty() {
            self.0.push(slice);
        }
    }

    /// Returns the response for a slice; `None` if it was refused for its size, and its halves have
    /// been put back.
    fn settle<T>(
        &mut self,
        slice: Range<u64>,
        sent: Result<T, EtcdError>,
    ) -> Result<Option<T>, EtcdError> {
        if !is_too_large(&sent) || slice.end - slice.start <= 1 {
            return sent.map(Some);
        }
        let middle = slice.start + (slice.end - slice.start) / 2;
        self.put_back(middle..slice.end);
        self.put_back(slice.start..middle);
        Ok(None)
    }
}

/// Returns whether a server refused a transaction for its size, and so has executed nothing of it.
fn is_too_large<T>(sent: &Result<T, EtcdError>) -> bool {
    matches!(
        sent,
        Err(EtcdError::Refused(
            Refusal::TooManyOps | Refusal::RequestTooLarge
        ))
    )
}

fn stored_key(root: &str, data: &DataSet, i: u64) -> Vec<u8> {
    let mut key = root.as_bytes().to_vec();
    data.write_key(i, &mut key);
    key
}

fn delete(key: Bytes) -> Op {
    Op::RequestDeleteRange(DeleteRangeRequest {
        key,
        ..DeleteRangeRequest::default()
    })
}

fn transaction(ops: impl Iterator<Item = Op>) -> TxnRequest {
    TxnRequest {
        success: ops
            .map(|request| RequestOp {
                request: Some(request),
            })
            .collect(),
        ..TxnRequest::default()
    }
}

/// A task that writes batches until none is left.
struct Writer {
    client: Client,
    data: Arc<DataSet>,
    root: String,
    next: Arc<AtomicU64>,
    written: Arc<SeededSlices>,
    phase: Phase,
}

impl Writer {
    async fn run(self) -> Result<Expected, EtcdError> {
        let mut part = nothing();
        loop {
            let from = self.next.fetch_add(BATCH_OPS, Ordering::Relaxed);
            if from >= self.data.len() {
                return Ok(part);
            }
            let mut pieces = Pieces::of(from..self.data.len().min(from + BATCH_OPS));
            while let Some(piece) = pieces.next() {
                if self.written.stop.is_cancelled() {
                    return Ok(part);
                }
                let (fits, rest) = self.split(piece);
                pieces.put_back(rest);
                let put = self.put(fits.clone(), &mut part).await;
                pieces.settle(fits, put)?;
            }
        }
    }

    /// Returns the objects of a slice that fit into one transaction, at least the first, and the
    /// rest.
    fn split(&self, slice: Range<u64>) -> (Range<u64>, Range<u64>) {
        let last_batch = self.data.len().saturating_sub(ONE_BY_ONE);
        let last = slice.end.min(last_batch.max(slice.start + 1));
        let mut bytes = 0;
        let mut end = slice.start;
        while end < last {
            bytes += self.data.value_len(end) + self.root.len() + 128 + OP_OVERHEAD;
            if bytes > BATCH_BYTES && end > slice.start {
                break;
            }
            end += 1;
        }
        (slice.start..end, end..slice.end)
    }

    async fn put(&self, slice: Range<u64>, part: &mut Expected) -> Result<(), EtcdError> {
        let mut fingerprint = Fingerprint::default();
        let ops = slice.clone().map(|i| {
            let key = stored_key(&self.root, &self.data, i);
            let value = self.data.value(i);
            fingerprint.add(&key[self.root.len()..], &value);
            Op::RequestPut(PutRequest {
                key: key.into(),
                value,
                ..PutRequest::default()
            })
        });
        let request = transaction(ops);
        self.written.note(slice.clone());
        let response = in_time(self.client.kv().txn(request)).await;
        if is_too_large(&response) {
            self.written.forget(&slice);
        }
        let response = response?.into_inner();
        part.fingerprint.merge(&fingerprint);
        let revision = response.header.map_or(0, |header| header.revision);
        // One transaction has one revision, so the sum of its objects' hashes is sufficient.
        let product = fingerprint.sum.wrapping_mul(revision as u64);
        part.revisions = part.revisions.map(|sum| sum.wrapping_add(product));
        part.revision = part.revision.max(revision);
        self.phase.advance(slice.end - slice.start);
        Ok(())
    }
}
