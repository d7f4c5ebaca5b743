//! Small requests of one kind, made before they are sent and checked when they are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use etcd_api::client::calls::{CallConnection, Completion, Rpc, put_answer, range_answer};
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};
use workloads::keys::Picker;
use workloads::{DataSet, Distribution, Strategy};

/// Objects that requests are about, at most: more would only fill the generator's memory.
const OBJECTS: u64 = 10_000;
/// Requests outstanding while puts are read back.
const READ_AT_ONCE: usize = 100;

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
    /// A write that was acknowledged, and is not there.
    #[error(
        "a put of {key} was acknowledged at revision {acknowledged}, and the key is at {found}"
    )]
    Lost {
        /// Its key.
        key: String,
        /// Revision of the latest put of it.
        acknowledged: i64,
        /// Revision that was read afterwards.
        found: i64,
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

/// What a small request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Reads a single key.
    Get,
    /// Writes an object.
    Put,
}

impl Call {
    /// What the requests of a strategy do; `None` where it makes no small requests.
    #[must_use]
    pub fn of(strategy: Strategy) -> Option<Self> {
        match strategy {
            Strategy::Get => Some(Self::Get),
            Strategy::Put => Some(Self::Put),
            Strategy::Unary
            | Strategy::UnaryIncremental
            | Strategy::Stream
            | Strategy::FanOut
            | Strategy::Watch
            | Strategy::Paged(_)
            | Strategy::Cached
            | Strategy::Consistent
            | Strategy::Exact
            | Strategy::WatchList
            | Strategy::Selector(_)
            | Strategy::ReadYourWrite
            | Strategy::Sharded(_)
            | Strategy::ClientFiltered(_)
            | Strategy::WatchSharded(_)
            | Strategy::WatchClientFiltered(_)
            | Strategy::NoWatches
            | Strategy::NoLists
            | Strategy::GoClient(_) => None,
        }
    }
}

/// The requests of one row. Cheap to share between threads.
#[derive(Debug)]
pub struct Calls {
    requests: Requests,
    objects: Vec<(Bytes, Bytes)>,
    seed: u64,
    picker: Picker,
    /// Revision of the data before any of these requests.
    after: i64,
    /// Of each object, the latest revision that a put of it was answered with; 0 where none was.
    written: Vec<AtomicI64>,
}

#[derive(Debug)]
enum Requests {
    Get(Vec<RangeRequest>),
    Put(Vec<PutRequest>),
}

impl Calls {
    /// Makes requests for single keys of `data` below `root`, picked by `keys`. `after` is the
    /// revision that the data has.
    #[must_use]
    pub fn new(
        call: Call,
        data: &DataSet,
        root: &str,
        keys: Distribution,
        after: i64,
    ) -> Arc<Self> {
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
        let requests = match call {
            Call::Put => Requests::Put(
                all.map(|(key, value)| PutRequest {
                    key: key.clone(),
                    value: value.clone(),
                    ..PutRequest::default()
                })
                .collect(),
            ),
            Call::Get => Requests::Get(
                all.map(|(key, _)| RangeRequest {
                    key: key.clone(),
                    ..RangeRequest::default()
                })
                .collect(),
            ),
        };
        Arc::new(Self {
            requests,
            written: objects.iter().map(|_| AtomicI64::new(0)).collect(),
            objects,
            seed: data.spec().seed,
            picker: keys.over(data.spec().seed, count),
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
        self.picker.object_of(n) as usize
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
            Requests::Get(_) => self.read(object, message).map(drop),
            Requests::Put(_) => {
                let revision = put_answer(message).ok_or(CallError::Malformed)?;
                if revision <= self.after {
                    return Err(CallError::Stale {
                        revision,
                        after: self.after,
                    });
                }
                self.written[object].fetch_max(revision, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Reads every object that was put and checks that it is as new as the latest put of it that was acknowledged. Costs a
    /// request per object; bounding the wait is the caller's.
    ///
    /// # Errors
    /// [`CallError`] of the first that is not.
    pub async fn read_back(&self, config: &ClientConfig) -> Result<(), CallError> {
        let put: Vec<usize> = (0..self.objects.len())
            .filter(|&object| self.written[object].load(Ordering::Relaxed) > 0)
            .collect();
        let mut connection = CallConnection::connect(config, None).await?;
        for objects in put.chunks(READ_AT_ONCE) {
            for &object in objects {
                let get = RangeRequest {
                    key: self.objects[object].0.clone(),
                    ..RangeRequest::default()
                };
                connection.send(Rpc::Range, &get, object as u64)?;
            }
            let mut checked = Ok(());
            while connection.outstanding() > 0 {
                let check = &mut |done: Completion<'_>| {
                    if checked.is_ok() {
                        checked = self.check_written(done.token as usize, done);
                    }
                };
                connection.turn(check).await?;
            }
            checked?;
        }
        Ok(())
    }

    fn check_written(&self, object: usize, done: Completion<'_>) -> Result<(), CallError> {
        let found = self.read(object, done.answer?)?;
        let acknowledged = self.written[object].load(Ordering::Relaxed);
        if found < acknowledged {
            return Err(CallError::Lost {
                key: self.key(object),
                acknowledged,
                found,
            });
        }
        Ok(())
    }

    /// The revision of the object that an answer holds, which must be the one that was written.
    fn read(&self, object: usize, message: &[u8]) -> Result<i64, CallError> {
        let (key, value) = &self.objects[object];
        let answer = range_answer(message).ok_or(CallError::Malformed)?;
        match answer.object {
            Some(found)
                if answer.count == 1
                    && found.key == key.as_ref()
                    && found.value == value.as_ref() =>
            {
                Ok(found.mod_revision)
            }
            _ => Err(CallError::Altered {
                key: self.key(object),
            }),
        }
    }

    fn key(&self, object: usize) -> String {
        String::from_utf8_lossy(&self.objects[object].0).into_owned()
    }
}
