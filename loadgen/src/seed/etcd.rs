//! Loads a data set into an etcd: many puts a transaction, several connections, everything noted that was sent.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::{Error as EtcdError, Refusal};
use etcd_api::proto::etcdserverpb::request_op::Request as Op;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use workloads::{DataSet, Fingerprint};

use crate::progress::Phase;
use crate::target::silence::in_time;
use crate::verify::Expected;

/// Connections that write.
const CONNECTIONS: usize = 4;
/// Transactions in flight on each.
const IN_FLIGHT: usize = 2;
/// etcd's default `--max-txn-ops`.
const BATCH_OPS: u64 = 128;
/// A little less than etcd's default `--max-request-bytes` (1.5 MiB), which counts the encoded transaction.
const BATCH_BYTES: usize = 1_400_000;
/// What a put takes in a transaction besides key and value, at most.
const OP_OVERHEAD: usize = 32;

/// Which objects were sent, answered or not: what a clean-up must delete.
#[derive(Debug, Default)]
pub struct Written(Mutex<Vec<Range<u64>>>);

impl Written {
    /// Slices of the data set, in no order.
    pub fn take(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.0.lock())
    }

    fn note(&self, slice: Range<u64>) {
        self.0.lock().push(slice);
    }
}

/// Writes every object of `data` below `root`. Dropping the future stops writing.
///
/// # Errors
/// The first error of any connection; a transaction without an answer within 30 s is one.
pub async fn seed(
    config: &ClientConfig,
    data: &Arc<DataSet>,
    root: &str,
    written: &Arc<Written>,
    phase: &Phase,
) -> Result<Expected, EtcdError> {
    let next = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = in_time(Client::connect(config.clone())).await?;
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
    let mut all = Expected {
        fingerprint: Fingerprint::default(),
        revisions: Some(0),
        revision: 0,
    };
    while let Some(writer) = writers.join_next().await {
        // A writer that panics is a bug of ours; its message is on standard error already.
        let part = writer.map_err(|e| EtcdError::Protocol(format!("a writer ended: {e}")))??;
        all.fingerprint.merge(&part.fingerprint);
        let sums = all.revisions.zip(part.revisions);
        all.revisions = sums.map(|(all, part)| all.wrapping_add(part));
        all.revision = all.revision.max(part.revision);
    }
    Ok(all)
}

/// Deletes the objects of these slices, key by key: nothing else that may be below `root` by now. Answers how many were there.
///
/// # Errors
/// The first error, or transaction without an answer within 30 s; what remains is for the caller to name.
pub async fn unseed(
    config: &ClientConfig,
    data: &DataSet,
    root: &str,
    slices: &[Range<u64>],
    phase: &Phase,
) -> Result<u64, EtcdError> {
    let client = in_time(Client::connect(config.clone())).await?;
    let mut deleted = 0;
    for slice in slices {
        let mut from = slice.start;
        while from < slice.end {
            let to = slice.end.min(from + BATCH_OPS);
            let ops = (from..to).map(|i| {
                Op::RequestDeleteRange(DeleteRangeRequest {
                    key: stored_key(root, data, i).into(),
                    ..DeleteRangeRequest::default()
                })
            });
            let before = deleted;
            let response = in_time(client.kv().txn(transaction(ops))).await?;
            let response = response.into_inner();
            for op in response.responses {
                use etcd_api::proto::etcdserverpb::response_op::Response;
                if let Some(Response::ResponseDeleteRange(response)) = op.response {
                    deleted += u64::try_from(response.deleted).unwrap_or(0);
                }
            }
            phase.advance(deleted - before);
            from = to;
        }
    }
    Ok(deleted)
}

fn stored_key(root: &str, data: &DataSet, i: u64) -> Vec<u8> {
    let mut key = root.as_bytes().to_vec();
    data.write_key(i, &mut key);
    key
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

/// One task that writes batches until none is left.
struct Writer {
    client: Client,
    data: Arc<DataSet>,
    root: String,
    next: Arc<AtomicU64>,
    written: Arc<Written>,
    phase: Phase,
}

impl Writer {
    async fn run(self) -> Result<Expected, EtcdError> {
        let mut part = Expected {
            fingerprint: Fingerprint::default(),
            revisions: Some(0),
            revision: 0,
        };
        loop {
            let from = self.next.fetch_add(BATCH_OPS, Ordering::Relaxed);
            if from >= self.data.len() {
                return Ok(part);
            }
            let until = self.data.len().min(from + BATCH_OPS);
            // A stack of slices still to be sent: a server with lower limits makes us halve them.
            #[expect(
                clippy::single_range_in_vec_init,
                reason = "a stack of ranges is meant"
            )]
            let mut slices = vec![from..until];
            while let Some(slice) = slices.pop() {
                let (fits, rest) = self.split_by_bytes(slice);
                if !rest.is_empty() {
                    slices.push(rest);
                }
                match self.put(fits.clone(), &mut part).await {
                    Err(EtcdError::Refused(Refusal::TooManyOps | Refusal::RequestTooLarge))
                        if fits.end - fits.start > 1 =>
                    {
                        let middle = fits.start + (fits.end - fits.start) / 2;
                        slices.push(middle..fits.end);
                        slices.push(fits.start..middle);
                    }
                    other => other?,
                }
            }
        }
    }

    /// The first objects of a slice that fit into a request (at least one), and the rest.
    fn split_by_bytes(&self, slice: Range<u64>) -> (Range<u64>, Range<u64>) {
        let mut bytes = 0;
        let mut end = slice.start;
        while end < slice.end {
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
        let response = in_time(self.client.kv().txn(request)).await?.into_inner();
        part.fingerprint.merge(&fingerprint);
        let revision = response.header.map_or(0, |header| header.revision);
        // One transaction is one revision, so the sum of its objects' hashes is all that is needed.
        let product = fingerprint.sum.wrapping_mul(revision as u64);
        part.revisions = part.revisions.map(|sum| sum.wrapping_add(product));
        part.revision = part.revision.max(revision);
        self.phase.advance(slice.end - slice.start);
        Ok(())
    }
}
