//! Small requests of one kind or of a mix: the request of each operation and the check of its
//! response.
//!
//! - `planned_request`: one request and its outcome
//! - `revisions`: the revisions of objects known from responses, shared by the loads of a case
//! - `read_back`: reads the objects before and after the requests
//! - `error`: the ways in which a small request can fail

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use etcd_api::client::pipelined::{
    Completion, PipelinedConnection, Rpc, parse_put_response, parse_range_response,
};
use etcd_api::error::{Error as EtcdError, Refusal};
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, PutRequest, RangeRequest,
};
use prost::Message as _;
use workloads::keys::Picker;
use workloads::values::ValueSource;
use workloads::{DataSet, Distribution, Mix, SmallRequest, Values};

use super::leases::GrantedLeases;
use super::own_keys::OwnKeys;
use super::request_api::RequestApi;
use super::{own_requests, transactions};
pub use error::CallError;
pub(crate) use planned_request::{Checked, PlannedRequest};
pub use revisions::Revisions;

mod error;
mod planned_request;
mod read_back;
mod revisions;
#[cfg(test)]
mod tests;

/// The largest number of objects that requests use. More would only fill the generator's memory.
const MAX_OBJECTS: u64 = 10_000;

/// The settings of the requests of a load.
#[derive(Debug, Clone, Copy)]
pub struct RequestConfig<'a> {
    /// The objects.
    pub data: &'a DataSet,
    /// The prefix of their keys.
    pub root: &'a str,
    /// The prefix of keys that requests create.
    pub own_root: &'a str,
    /// The distribution with which objects are picked.
    pub keys: Distribution,
    /// The revision of the data before the requests.
    pub after: i64,
    /// The seed from which operations and arrivals are derived.
    pub seed: u64,
    /// The values of created keys. Without them, created keys have the values of objects.
    pub values: Option<&'a Values>,
    /// The revisions known to the other loads of the same case, if there are any.
    pub revisions: Option<&'a Arc<Revisions>>,
    /// Where granted leases are recorded, if the endpoint outlives the run.
    pub leases: Option<&'a Arc<GrantedLeases>>,
}

impl<'a> RequestConfig<'a> {
    /// Returns settings for the objects of a data set below `root`, each with the same probability.
    #[must_use]
    pub fn new(data: &'a DataSet, root: &'a str) -> Self {
        Self {
            data,
            root,
            own_root: "/created/",
            keys: Distribution::Uniform,
            after: 0,
            seed: data.spec().seed,
            values: None,
            revisions: None,
            leases: None,
        }
    }
}

/// The requests of one load. Cheap to share between threads.
#[derive(Debug)]
pub struct EtcdRequests {
    mix: Mix,
    objects: Vec<Object>,
    revisions: Arc<Revisions>,
    /// The range of all objects, whose number of keys is `count`.
    all: RangeRequest,
    count: i64,
    own_root: String,
    values: Option<ValueSource>,
    seed: u64,
    picker: Picker,
    /// The revision of the data before any of these requests.
    after: i64,
    /// The revision that the next compaction compacts to: the store's revision at the last
    /// compaction.
    compact_at: AtomicI64,
    /// Whether writes are kept, to be compared with events.
    keeps_writes: bool,
    /// Where leases that must be revoked afterwards are recorded.
    leases: Option<Arc<GrantedLeases>>,
}

/// An object that requests use.
#[derive(Debug)]
struct Object {
    get: RangeRequest,
    put: PutRequest,
    /// The latest known revision of the object, with which updates compare; 0 if none is known.
    seen: AtomicI64,
}

impl EtcdRequests {
    /// Returns the requests of a mix.
    #[must_use]
    pub fn new(mix: impl Into<Mix>, about: RequestConfig<'_>) -> Self {
        let RequestConfig {
            data,
            root,
            own_root,
            keys,
            after,
            seed,
            values,
            revisions,
            leases,
        } = about;
        let count = objects_of(data);
        let objects = (0..count).map(|i| {
            // Spread over the whole set, instead of its first objects.
            let i = i * (data.len() / count);
            let mut key = root.as_bytes().to_vec();
            data.write_key(i, &mut key);
            Object::new(key.into(), data.value(i))
        });
        let prefix = format!("{root}{}", data.prefix()).into_bytes();
        let fresh = || Arc::new(Revisions::new(data));
        Self {
            mix: mix.into(),
            objects: objects.collect(),
            revisions: revisions.map_or_else(fresh, Arc::clone),
            all: RangeRequest {
                range_end: prefix_end(&prefix).into(),
                key: prefix.into(),
                count_only: true,
                ..RangeRequest::default()
            },
            count: data.len().cast_signed(),
            own_root: own_root.to_owned(),
            values: values.map(|values| values.over(seed)),
            seed,
            picker: keys.over(seed, count),
            after,
            compact_at: AtomicI64::new(after.max(1)),
            keeps_writes: false,
            leases: leases.cloned(),
        }
    }

    /// Returns these requests, set to keep what they write.
    #[must_use]
    pub fn keeping_writes(self) -> Self {
        Self {
            keeps_writes: true,
            ..self
        }
    }

    /// Returns the seed from which operations and arrivals are derived.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the prefix of this connection's keys and leases.
    fn own_root(&self, connection_number: u64) -> String {
        format!("{}{connection_number}/", self.own_root)
    }

    /// Returns the value with which this connection's key `number` is created.
    fn created_value(&self, connection_number: u64, number: u64) -> Bytes {
        if let Some(values) = &self.values {
            return values.value((connection_number << 40) + number);
        }
        let like = &self.objects[number as usize % self.objects.len()];
        like.put.value.clone()
    }

    /// Records the store's revision from the response to a compaction.
    fn compacted(&self, message: &[u8]) -> Result<Checked, CallError> {
        let response = CompactionResponse::decode(message).map_err(|_| CallError::Malformed)?;
        let header = response.header.ok_or(CallError::Malformed)?;
        self.compact_at
            .fetch_max(header.revision, Ordering::Relaxed);
        Ok(Checked::default())
    }

    /// Records that an object was written at this revision.
    fn note_written(&self, object: usize, revision: i64) -> Result<Checked, CallError> {
        if revision <= self.after {
            return Err(CallError::Stale {
                revision,
                after: self.after,
            });
        }
        self.revisions.wrote(object, revision);
        let seen = &self.objects[object].seen;
        seen.fetch_max(revision, Ordering::Relaxed);
        Ok(Checked {
            rewritten_at: Some(revision),
            ..Checked::default()
        })
    }

    /// Returns the revision of the object in a response, which must be the object that was written.
    fn read(&self, object: usize, message: &[u8]) -> Result<i64, CallError> {
        let PutRequest { key, value, .. } = &self.objects[object].put;
        let response = parse_range_response(message).ok_or(CallError::Malformed)?;
        match response.object {
            Some(found)
                if response.count == 1
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
        String::from_utf8_lossy(&self.objects[object].put.key).into_owned()
    }
}

impl RequestApi for EtcdRequests {
    type Connection = PipelinedConnection;
    type Error = EtcdError;
    type CompletedRequest<'a> = Completion<'a>;

    fn seed(&self) -> u64 {
        self.seed
    }

    fn is_mixed(&self) -> bool {
        self.mix.requests().nth(1).is_some()
    }

    fn keeps_writes(&self) -> bool {
        self.keeps_writes
    }

    fn operation(&self, n: u64, own: &mut OwnKeys) -> PlannedRequest {
        let request = self.mix.request_of(self.seed, n);
        match request {
            SmallRequest::Compact => {
                PlannedRequest::Compact(self.compact_at.load(Ordering::Relaxed))
            }
            _ if request.is_of_own_keys() => PlannedRequest::Own(own.next(request)),
            _ => {
                let object = self.picker.object_of(n) as usize;
                PlannedRequest::Object {
                    request,
                    object,
                    at_least: self.revisions.at_least(object),
                    n,
                }
            }
        }
    }

    fn send(
        &self,
        connection: &mut PipelinedConnection,
        planned: PlannedRequest,
        connection_number: u64,
        token: u64,
    ) -> Result<(), EtcdError> {
        let (request, object) = match planned {
            PlannedRequest::Object {
                request, object, ..
            } => (request, &self.objects[object]),
            PlannedRequest::Own(key) => {
                let value = || self.created_value(connection_number, key.number);
                let root = self.own_root(connection_number);
                if let Some(leases) = &self.leases
                    && key.request == SmallRequest::LeaseGrant
                {
                    // Recorded before there is a response, because a lease may be granted without
                    // one.
                    leases.granted(own_requests::lease(&root, key.number));
                }
                return own_requests::send(connection, key, &root, value, token);
            }
            PlannedRequest::Compact(revision) => {
                let request = CompactionRequest {
                    revision,
                    physical: false,
                };
                return connection.send(Rpc::Compact, &request, token);
            }
        };
        match request {
            SmallRequest::Get => connection.send(Rpc::Range, &object.get, token),
            SmallRequest::GetSerializable => {
                let get = RangeRequest {
                    serializable: true,
                    ..object.get.clone()
                };
                connection.send(Rpc::Range, &get, token)
            }
            SmallRequest::Count => connection.send(Rpc::Range, &self.all, token),
            SmallRequest::Put => connection.send(Rpc::Put, &object.put, token),
            // Requests that do not use an object have been sent above.
            _ => {
                let PutRequest { key, value, .. } = object.put.clone();
                let seen = object.seen.load(Ordering::Relaxed);
                connection.send(Rpc::Txn, &transactions::update(key, value, seen), token)
            }
        }
    }

    fn poll_completions(
        connection: &mut PipelinedConnection,
        cx: &mut Context<'_>,
        on: &mut impl FnMut(Completion<'_>),
    ) -> Poll<Result<(), EtcdError>> {
        connection.poll_drive(cx, on)
    }

    /// Checks a response: a read returns what was written, a write has a later revision, and a
    /// transaction did what its comparison demanded.
    fn check(
        &self,
        planned: PlannedRequest,
        connection_number: u64,
        done: Completion<'_>,
    ) -> Result<Checked, CallError> {
        let message = match done.response {
            Ok(message) => message,
            Err(error) => return after_refusal(planned, error),
        };
        let (request, object, at_least) = match planned {
            PlannedRequest::Object {
                request,
                object,
                at_least,
                ..
            } => (request, object, at_least),
            PlannedRequest::Own(key) => {
                let root = self.own_root(connection_number);
                let checked = own_requests::check(key, &root, message)?;
                if let Some(leases) = &self.leases
                    && key.request == SmallRequest::LeaseRevoke
                {
                    leases.revoked(own_requests::lease(&root, key.number));
                }
                return Ok(checked);
            }
            PlannedRequest::Compact(_) => return self.compacted(message),
        };
        match request {
            SmallRequest::Get => {
                let revision = self.read(object, message)?;
                if revision < at_least {
                    return Err(CallError::OldRead);
                }
                self.revisions.observe(object, revision);
                Ok(Checked::default())
            }
            // A member's own data may be old.
            SmallRequest::GetSerializable => {
                self.read(object, message)?;
                Ok(Checked::default())
            }
            SmallRequest::Count => {
                let found = parse_range_response(message)
                    .ok_or(CallError::Malformed)?
                    .count;
                match found == self.count {
                    true => Ok(Checked::default()),
                    false => Err(CallError::Miscounted {
                        found,
                        written: self.count,
                    }),
                }
            }
            SmallRequest::Put => {
                let revision = parse_put_response(message).ok_or(CallError::Malformed)?;
                self.note_written(object, revision)
            }
            _ => {
                let outcome = transactions::outcome(message).ok_or(CallError::Malformed)?;
                match (outcome.succeeded, outcome.found) {
                    (true, _) => self.note_written(object, outcome.revision),
                    (false, 0) => Err(CallError::Altered {
                        key: self.key(object),
                    }),
                    (false, found) => {
                        let seen = &self.objects[object].seen;
                        seen.fetch_max(found, Ordering::Relaxed);
                        self.revisions.observe(object, found);
                        Ok(Checked::conflict())
                    }
                }
            }
        }
    }

    async fn reconnect(connection: &mut PipelinedConnection) -> Result<(), EtcdError> {
        connection.reconnect().await
    }
}

impl Object {
    fn new(key: Bytes, value: Bytes) -> Self {
        Self {
            get: RangeRequest {
                key: key.clone(),
                ..RangeRequest::default()
            },
            put: PutRequest {
                key,
                value,
                ..PutRequest::default()
            },
            seen: AtomicI64::new(0),
        }
    }
}

/// Returns how many objects of a data set requests use.
fn objects_of(data: &DataSet) -> u64 {
    data.len().min(MAX_OBJECTS)
}

/// Returns the meaning of a refusal: an error, unless it is an expected one.
fn after_refusal(planned: PlannedRequest, error: EtcdError) -> Result<Checked, CallError> {
    match (planned, &error) {
        // Nothing was written since the last compaction.
        (PlannedRequest::Compact(_), EtcdError::Refused(Refusal::Compacted)) => {
            Ok(Checked::default())
        }
        // The revocation arrived before the server had granted the lease.
        (PlannedRequest::Own(key), EtcdError::Refused(Refusal::LeaseNotFound))
            if key.revision == 0 =>
        {
            Ok(Checked::conflict())
        }
        _ => Err(error.into()),
    }
}
