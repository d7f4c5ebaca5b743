//! Small requests of one kind, made before they are sent and checked when they are answered.

use std::sync::Arc;

use bytes::Bytes;
use etcd_api::client::calls::{CallConnection, Completion, Rpc, put_answer, range_answer};
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};
use workloads::operations::object_of;
use workloads::{DataSet, Strategy};

/// Objects that requests are about, at most: more would only fill the generator's memory.
const OBJECTS: u64 = 10_000;

/// How a small request failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The answer is not one.
    #[error("an answer that cannot be read")]
    Malformed,
    /// The answer is not what is stored.
    #[error("the answer for {key} is not the object that was written")]
    Altered {
        /// Its key.
        key: String,
    },
    /// A write that did not get a later revision than the data before it.
    #[error("a put was answered with revision {revision}, and the data is at {after} already")]
    Stale {
        /// What was answered.
        revision: i64,
        /// What came before.
        after: i64,
    },
}

/// The requests of one row. Cheap to share between threads.
#[derive(Debug)]
pub struct Calls {
    requests: Requests,
    objects: Vec<(Bytes, Bytes)>,
    seed: u64,
    /// Revision of the data before any of these requests.
    after: i64,
}

#[derive(Debug)]
enum Requests {
    Get(Vec<RangeRequest>),
    Put(Vec<PutRequest>),
}

impl Calls {
    /// Makes the requests of a strategy: `put` writes, everything else reads single keys of `data` below `root`.
    /// `after` is the revision that the data has.
    #[must_use]
    pub fn new(strategy: Strategy, data: &DataSet, root: &str, after: i64) -> Arc<Self> {
        let count = data.len().min(OBJECTS);
        let objects: Vec<(Bytes, Bytes)> = (0..count)
            .map(|i| {
                // Spread over the whole set, not its beginning.
                let i = i * (data.len() / count);
                let mut key = root.as_bytes().to_vec();
                data.write_key(i, &mut key);
                (key.into(), data.value(i))
            })
            .collect();
        let all = objects.iter();
        let requests = if strategy == Strategy::Put {
            Requests::Put(
                all.map(|(key, value)| PutRequest {
                    key: key.clone(),
                    value: value.clone(),
                    ..PutRequest::default()
                })
                .collect(),
            )
        } else {
            Requests::Get(
                all.map(|(key, _)| RangeRequest {
                    key: key.clone(),
                    ..RangeRequest::default()
                })
                .collect(),
            )
        };
        Arc::new(Self {
            requests,
            objects,
            seed: data.spec().seed,
            after,
        })
    }

    /// Seed of the data set, from which operations and arrivals follow.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Which object operation `n` is about.
    #[must_use]
    pub fn object_of(&self, n: u64) -> usize {
        object_of(self.seed, n, self.objects.len() as u64) as usize
    }

    /// Queues the request about an object under `token`.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn send(
        &self,
        connection: &mut CallConnection,
        object: usize,
        token: u64,
    ) -> Result<(), EtcdError> {
        match &self.requests {
            Requests::Get(requests) => connection.send(Rpc::Range, &requests[object], token),
            Requests::Put(requests) => connection.send(Rpc::Put, &requests[object], token),
        }
    }

    /// Checks the answer about an object: what was read is what was written, a write has a later revision.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn check(&self, object: usize, done: Completion<'_>) -> Result<(), CallError> {
        let message = done.answer?;
        match &self.requests {
            Requests::Get(_) => {
                let (key, value) = &self.objects[object];
                let answer = range_answer(message).ok_or(CallError::Malformed)?;
                match answer.object {
                    Some(found)
                        if answer.count == 1
                            && found.key == key.as_ref()
                            && found.value == value.as_ref() =>
                    {
                        Ok(())
                    }
                    _ => Err(CallError::Altered {
                        key: String::from_utf8_lossy(key).into_owned(),
                    }),
                }
            }
            Requests::Put(_) => {
                let revision = put_answer(message).ok_or(CallError::Malformed)?;
                if revision > self.after {
                    return Ok(());
                }
                Err(CallError::Stale {
                    revision,
                    after: self.after,
                })
            }
        }
    }
}
