//! Removes a data set from an etcd, and checks that it is gone.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::RangeRequest;
use etcd_api::proto::etcdserverpb::request_op::Request as Op;
use etcd_api::proto::etcdserverpb::response_op::Response as Answer;
use workloads::DataSet;

use super::{BATCH_OPS, Pieces, delete, stored_key, transaction};
use crate::progress::Phase;
use crate::safety::count;
use crate::timeouts::in_time;

/// The number of keys that a message names.
const NAMED: usize = 3;

/// The reason why seeded keys still exist, or may exist.
#[derive(Debug)]
pub enum NotUnseeded {
    /// The endpoint did not respond, or refused a request.
    Etcd(EtcdError),
    /// These keys were deleted twice and still exist.
    Left(Vec<Bytes>),
}

impl fmt::Display for NotUnseeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd(error) => write!(f, "{error}"),
            Self::Left(keys) => {
                write!(f, "{} are there after they were deleted:", keys.len())?;
                for key in keys.iter().take(NAMED) {
                    write!(f, " {}", key.escape_ascii())?;
                }
                f.write_str(if keys.len() > NAMED { " …" } else { "" })
            }
        }
    }
}

impl From<EtcdError> for NotUnseeded {
    fn from(error: EtcdError) -> Self {
        Self::Etcd(error)
    }
}

/// Deletes the objects of these slices, key by key, so that no other key below `root` is deleted.
/// Then checks whether they are gone, and deletes those that are not once more, since a put without
/// a response may be executed after its delete. Returns the number of deleted keys.
///
/// # Errors
/// The first error, or transaction without a response within 30 s; [`NotUnseeded::Left`] if seeded
/// keys still exist.
pub async fn unseed(
    config: &ClientConfig,
    data: &DataSet,
    root: &str,
    slices: &[Range<u64>],
    phase: &Phase,
) -> Result<u64, NotUnseeded> {
    let client = in_time(Client::connect(config.clone())).await?;
    let ours = Ours { client, data, root };
    let mut deleted = 0;
    ours.each(slices, delete, |answer| {
        if let Answer::ResponseDeleteRange(answer) = answer {
            let of_this = u64::try_from(answer.deleted).unwrap_or(0);
            deleted += of_this;
            phase.advance(of_this);
        }
    })
    .await?;
    let late = ours.left(slices).await?.len() as u64;
    if late == 0 {
        return Ok(deleted);
    }
    // A key that was deleted and written late counts once.
    let sent: u64 = slices.iter().map(|slice| slice.end - slice.start).sum();
    deleted = sent.min(deleted + late);
    ours.each(slices, delete, |_| {}).await?;
    match ours.left(slices).await? {
        left if left.is_empty() => Ok(deleted),
        left => Err(NotUnseeded::Left(left)),
    }
}

fn look(key: Bytes) -> Op {
    Op::RequestRange(RangeRequest {
        key,
        keys_only: true,
        ..RangeRequest::default()
    })
}

/// The keys that a run may have written.
struct Ours<'a> {
    client: Client,
    data: &'a DataSet,
    root: &'a str,
}

impl Ours<'_> {
    /// Returns the keys of these slices that exist. Queries each only if any key exists below the
    /// root, since others may write there too.
    async fn left(&self, slices: &[Range<u64>]) -> Result<Vec<Bytes>, EtcdError> {
        let mut left = Vec::new();
        if in_time(count(&self.client, self.root.as_bytes())).await? > 0 {
            self.each(slices, look, |answer| {
                if let Answer::ResponseRange(found) = answer {
                    left.extend(found.kvs.into_iter().map(|kv| kv.key));
                }
            })
            .await?;
        }
        Ok(left)
    }

    /// Sends one operation for each key, many in a transaction.
    async fn each(
        &self,
        slices: &[Range<u64>],
        op: fn(Bytes) -> Op,
        mut answered: impl FnMut(Answer),
    ) -> Result<(), EtcdError> {
        for slice in slices {
            for from in (slice.start..slice.end).step_by(BATCH_OPS as usize) {
                let mut pieces = Pieces::of(from..slice.end.min(from + BATCH_OPS));
                while let Some(piece) = pieces.next() {
                    let ops = piece.clone();
                    let ops = ops.map(|i| op(stored_key(self.root, self.data, i).into()));
                    let sent = in_time(self.client.kv().txn(transaction(ops))).await;
                    if let Some(done) = pieces.settle(piece, sent)? {
                        let answers = done.into_inner().responses.into_iter();
                        answers
                            .filter_map(|answer| answer.response)
                            .for_each(&mut answered);
                    }
                }
            }
        }
        Ok(())
    }
}
