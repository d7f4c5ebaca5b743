//! Small requests to a Kubernetes API: the request of each operation and the check of its response.
//!
//! The requests use objects that are created for the load outside of the data set, in its
//! namespaces and modelled on its objects. The expected contents of a list of the data set thus do
//! not change, and an apiserver may default, add and manage fields as it likes. `update` does what
//! a controller does: it sends the object as the server sent it last, with one annotation changed,
//! under its resourceVersion.
//!
//! - [`text`]: the JSON text of objects: what is sent, and what is read from a response
//! - [`channel`]: a connection with its outstanding requests
//! - [`setup`]: creates the objects before the load, and reads them back and deletes them
//!   afterwards

use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, StatusCode};
use kube_api::client::KubeError;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use twox_hash::XxHash3_64;
use workloads::keys::Picker;
use workloads::values::ValueSource;
use workloads::{Distribution, Mix, SmallRequest, Values};

use self::channel::{Call, KubeCompletion, Reply};
use self::text::{Prototype, Read};
use super::own_keys::{OwnKey, OwnKeys};
use super::request_api::RequestApi;
use super::requests::{CallError, Checked, PlannedRequest};

pub(crate) use self::channel::KubeChannel;

mod channel;
mod setup;
#[cfg(test)]
mod tests;
mod text;

/// The prefix of the names of objects that loads make. No object of a data set has it.
pub(crate) const MADE: &str = "loadgen-";

/// Returns the prefix of the names of objects that the loads of one run make, which no other run
/// shares.
#[must_use]
pub fn made_by(run: &str) -> String {
    format!("{MADE}{:012x}-", XxHash3_64::oneshot(run.as_bytes()) >> 16)
}

/// The settings of the requests of a load.
#[derive(Debug)]
pub struct KubeRequestConfig<'a> {
    /// The collection, as in `pods`.
    pub resource: &'a str,
    /// The kind of its objects, as in `Pod`.
    pub kind: &'static str,
    /// The objects that new ones are modelled on, in turn, each with its namespace. Never empty.
    pub like: Vec<Map<String, Value>>,
    /// The number of objects that `get`, `update` and `patch` use.
    pub objects: u64,
    /// The prefix of the names of the run's objects, from [`made_by`].
    pub made: String,
    /// Distinguishes the objects of this load from those of the run's other loads.
    pub load: String,
    /// The distribution with which objects are picked.
    pub keys: Distribution,
    /// The seed from which operations and arrivals are derived.
    pub seed: u64,
    /// The values of created objects. Without them, objects keep the values of their model.
    pub values: Option<&'a Values>,
}

/// The requests of one load to a Kubernetes API. Cheap to share between threads.
#[derive(Debug)]
pub struct KubeRequests {
    mix: Mix,
    seed: u64,
    picker: Picker,
    kind: &'static str,
    /// The prefix of the names of its objects, and the value of their label.
    tag: String,
    like: Vec<Prototype>,
    objects: Vec<Object>,
    values: Option<ValueSource>,
    keeps_writes: bool,
}

/// An object that `get`, `update` and `patch` use.
#[derive(Debug)]
struct Object {
    name: String,
    path: String,
    /// The object as the server sent it last.
    held: Mutex<StoredText>,
    /// The latest resourceVersion with which a write of it was acknowledged; 0 if there was none.
    written: AtomicI64,
}

/// An object as a server sent it.
#[derive(Debug, Clone, Default)]
pub(super) struct StoredText {
    /// Its resourceVersion; 0 if the object must be read first.
    revision: i64,
    text: Bytes,
}

impl KubeRequests {
    /// Returns the requests of a mix. Sends nothing.
    #[must_use]
    pub fn new(mix: impl Into<Mix>, about: KubeRequestConfig<'_>) -> Self {
        let mix = mix.into();
        // Names of objects have no upper case, but names of loads may have.
        let load = XxHash3_64::oneshot(about.load.as_bytes()) as u32;
        let tag = format!("{}{load:08x}", about.made);
        let is_valued = about.values.is_some();
        let (resource, kind) = (about.resource, about.kind);
        let like: Vec<Prototype> = about
            .like
            .into_iter()
            .map(|object| Prototype::new(object, resource, kind, &tag, is_valued))
            .collect();
        let count = match mix.requests().any(|request| !request.is_of_own_keys()) {
            true => about.objects.max(1),
            false => 0,
        };
        let objects = (0..count).map(|i| {
            let name = format!("{tag}-{i}");
            Object {
                path: format!("{}/{name}", like[i as usize % like.len()].collection),
                name,
                held: Mutex::default(),
                written: AtomicI64::new(0),
            }
        });
        Self {
            objects: objects.collect(),
            mix,
            seed: about.seed,
            picker: about.keys.over(about.seed, count.max(1)),
            kind: about.kind,
            tag,
            like,
            values: about.values.map(|values| values.over(about.seed)),
            keeps_writes: false,
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

    /// Returns the model of object `number`.
    fn like(&self, number: u64) -> &Prototype {
        &self.like[number as usize % self.like.len()]
    }

    /// Returns the name of this connection's object `number`.
    fn own_name(&self, connection_number: u64, number: u64) -> String {
        format!("{}-{connection_number}-{number}", self.tag)
    }

    /// Returns the value of this connection's object `number`, in letters; empty if the load sets
    /// no values.
    fn own_value(&self, connection_number: u64, number: u64) -> String {
        let Some(values) = &self.values else {
            return String::new();
        };
        let bytes = values.value((connection_number << 40) + number);
        // The encoding has at least as many letters as bytes, and is cut to that number.
        let mut letters = STANDARD.encode(&bytes);
        letters.truncate(bytes.len());
        letters
    }

    fn call(&self, planned: PlannedRequest, connection_number: u64) -> Call {
        match planned {
            PlannedRequest::Own(OwnKey {
                request: SmallRequest::Delete,
                number,
                ..
            }) => {
                let collection = &self.like(number).collection;
                let path = format!("{collection}/{}", self.own_name(connection_number, number));
                Call::simple(Method::DELETE, path, text::delete_options(), 0)
            }
            PlannedRequest::Own(OwnKey { number, .. }) => {
                let like = self.like(number);
                let body = like.text(
                    &self.own_name(connection_number, number),
                    &self.own_value(connection_number, number),
                );
                Call::simple(Method::POST, like.collection.clone(), body, 0)
            }
            PlannedRequest::Object {
                request, object, n, ..
            } => {
                let object = &self.objects[object];
                let path = object.path.clone();
                let held = object.held.lock().clone();
                let before = held.revision.max(object.written.load(Ordering::Relaxed));
                match request {
                    SmallRequest::Update => Call::update(path, held, n),
                    SmallRequest::Patch => Call::patch(path, text::merge_patch(n), before),
                    _ => Call::simple(Method::GET, path, Bytes::new(), before),
                }
            }
            // The Kubernetes tier has no compaction. Loads with one are refused.
            PlannedRequest::Compact(_) => {
                Call::simple(Method::GET, "/version".to_owned(), Bytes::new(), 0)
            }
        }
    }

    /// Checks the response to a request for one of the load's shared objects.
    fn check_object(
        &self,
        (request, object, n): (SmallRequest, &Object, u64),
        completion: &KubeCompletion,
        reply: &Reply,
    ) -> Result<Checked, CallError> {
        if request == SmallRequest::Update && reply.is(StatusCode::CONFLICT, "Conflict") {
            // The object was changed meanwhile and has another resourceVersion: it must be read
            // again.
            let mut held = object.held.lock();
            if held.revision <= completion.before {
                *held = StoredText::default();
            }
            return Ok(Checked::conflict());
        }
        let read = self.read(request, &object.name, reply, StatusCode::OK)?;
        let is_read = request == SmallRequest::Get;
        if read.revision < completion.before + i64::from(!is_read) {
            return Err(CallError::Version {
                request,
                found: read.revision,
                before: completion.before,
            });
        }
        if !is_read && read.change != text::change(n) {
            return Err(CallError::NotTheObject {
                request,
                reason: "it does not have the annotation that was written".to_owned(),
            });
        }
        object.hold(read.revision, &reply.body);
        if is_read {
            return Ok(Checked::default());
        }
        object.written.fetch_max(read.revision, Ordering::Relaxed);
        Ok(Checked {
            rewritten_at: Some(read.revision),
            ..Checked::default()
        })
    }

    /// Checks the response to a creation or a deletion.
    fn check_own(
        &self,
        key: OwnKey,
        connection_number: u64,
        reply: &Reply,
    ) -> Result<Checked, CallError> {
        let name = self.own_name(connection_number, key.number);
        if key.request != SmallRequest::Delete {
            let read = self.read(key.request, &name, reply, StatusCode::CREATED)?;
            return Ok(Checked {
                rewritten_at: Some(read.revision),
                created_at: Some(read.revision),
                ..Checked::default()
            });
        }
        // The deletion arrived before the server had created the object.
        if key.revision == 0 && reply.is(StatusCode::NOT_FOUND, "NotFound") {
            return Ok(Checked::conflict());
        }
        reply.expect(key.request, StatusCode::OK, &name)?;
        text::check_deletion(&reply.body, self.kind, &name)
            .map_err(|reason| CallError::NotTheObject {
                request: key.request,
                reason,
            })
            .map(|()| Checked::default())
    }

    /// Reads the object with this name from a response, which must have this status.
    fn read(
        &self,
        request: SmallRequest,
        name: &str,
        reply: &Reply,
        status: StatusCode,
    ) -> Result<Read, CallError> {
        reply.expect(request, status, name)?;
        Read::of(&reply.body, self.kind, name)
            .map_err(|reason| CallError::NotTheObject { request, reason })
    }
}

impl Object {
    /// Stores the object as the server sent it, unless a later version is stored already.
    fn hold(&self, revision: i64, text: &Bytes) {
        let mut held = self.held.lock();
        if revision > held.revision {
            *held = StoredText {
                revision,
                text: text.clone(),
            };
        }
    }
}

impl RequestApi for KubeRequests {
    type Connection = KubeChannel;
    type Error = KubeError;
    type CompletedRequest<'a> = KubeCompletion;

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
        match request.is_of_own_keys() {
            true => PlannedRequest::Own(own.next(request)),
            false => PlannedRequest::Object {
                request,
                object: self.picker.object_of(n) as usize,
                at_least: 0,
                n,
            },
        }
    }

    fn send(
        &self,
        connection: &mut KubeChannel,
        planned: PlannedRequest,
        connection_number: u64,
        token: u64,
    ) -> Result<(), KubeError> {
        connection.send(self.call(planned, connection_number), token)
    }

    fn poll_completions(
        connection: &mut KubeChannel,
        cx: &mut Context<'_>,
        on: &mut impl FnMut(KubeCompletion),
    ) -> Poll<Result<(), KubeError>> {
        connection.poll_completions(cx, on)
    }

    fn check(
        &self,
        planned: PlannedRequest,
        connection_number: u64,
        mut completion: KubeCompletion,
    ) -> Result<Checked, CallError> {
        let reply = completion.take_reply()?;
        match planned {
            PlannedRequest::Own(key) => self.check_own(key, connection_number, &reply),
            PlannedRequest::Object {
                request, object, n, ..
            } => self.check_object((request, &self.objects[object], n), &completion, &reply),
            PlannedRequest::Compact(_) => Err(CallError::Malformed),
        }
    }

    async fn reconnect(connection: &mut KubeChannel) -> Result<(), KubeError> {
        connection.reconnect().await
    }
}
