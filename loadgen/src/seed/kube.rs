//! Seeds a data set through a Kubernetes API, into namespaces that are created for it and removed
//! again.
//!
//! A server does not store exactly what it is sent: it sets UIDs and times, fills in defaults, and
//! admission may change the object. So lists are compared with the response to each POST, object by
//! object, and not with the data set.
//!
//! - [`object`]: the form in which an object is sent
//! - [`namespaces`]: creates the namespaces, refuses existing ones, and removes them
//! - [`client`]: one connection that repeats requests which a server puts off

mod client;
mod namespaces;
mod object;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Method, StatusCode};
use kube_api::client::{KubeAccess, KubeError};
use kube_api::envelope::{self, MEDIA_TYPE};
use kube_api::media_type::JSON;
use kube_api::shard_selector::ShardKey;
use kube_api::{ApiResource, GroupVersionResource};
use load::operation::list::ItemDecoder;
use load::shards::Inventory;
use load::shards::inventory::Entry;
use load::verify::{Check, Contents, Expected, InvalidResponse};
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use workloads::{DataSet, Fingerprint, Selector};

use crate::progress::Phase;
pub(crate) use client::{Client, Reply};
pub use namespaces::{Left, Namespaces};

/// The number of requests in flight, each on a connection of its own. An apiserver permits 400
/// changes at once by default, for all clients together.
const WRITERS: usize = 16;
/// The prefix of stored keys, as apiservers have it by default.
const ROOT: &str = "/registry/";

/// An error while seeding, after which nothing or not everything is seeded.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The API refused a request, or could not be reached.
    #[error(transparent)]
    Api(#[from] KubeError),
    /// A namespace with a name of the run's own exists already.
    #[error("namespace `{0}` exists, and this generator has not made it: nothing is written to it")]
    NamespaceExists(String),
    /// An object that this run did not write is in a namespace of the run.
    #[error("{0} is there already, and this run has not written it")]
    ObjectExists(String),
    /// An object cannot be encoded, or the response to it is not an object.
    #[error("{key}: {reason}")]
    Object {
        /// The path of the object.
        key: String,
        /// The cause.
        reason: String,
    },
    /// A writer panicked; the message is on standard error.
    #[error("a task that seeds ended by itself: {0}")]
    Writer(#[from] tokio::task::JoinError),
}

/// An API to write to.
#[derive(Debug, Clone)]
pub struct Api {
    /// `http[s]://HOST[:PORT]`.
    pub url: String,
    /// The credentials.
    pub access: KubeAccess,
}

impl Api {
    /// Returns a client with a connection of its own, which is not open yet.
    pub(crate) fn client(&self) -> Result<Client, KubeError> {
        Client::new(&self.url, &self.access)
    }
}

/// Returns the kind of a data set's objects, as `Pod`.
#[must_use]
pub fn kind_of(data: &DataSet) -> &'static str {
    object::kind(data).0
}

/// Returns the resource type of a data set's objects.
#[must_use]
pub fn resource_of(data: &DataSet) -> ApiResource {
    ApiResource::core(data.prefix().trim_end_matches('/'), kind_of(data))
}

/// Returns copies of `count` objects spread over the data set, in the form in which they are sent
/// in JSON to the namespaces that `namespace_of` returns.
///
/// # Errors
/// The error of an object that does not fit the schema, which no object of a data set has.
pub fn objects_like(
    data: &DataSet,
    count: u64,
    namespace_of: impl Fn(u64) -> String,
) -> Result<Vec<Map<String, Value>>, String> {
    spread_over(data, count)
        .map(|i| object::json_object(data, i, &namespace_of(i)))
        .collect()
}

/// Returns the numbers of `count` objects that are spread over the data set.
pub fn spread_over(data: &DataSet, count: u64) -> impl Iterator<Item = u64> + use<> {
    let step = data.len() / count.max(1);
    (0..count).map(move |i| i * step)
}

/// The objects that were seeded, with which lists are compared.
#[derive(Debug)]
pub struct SeededObjects {
    data: Arc<DataSet>,
    namespaces: Arc<Namespaces>,
    /// The prefix of the names of all its namespaces, and of no others.
    pub names_begin: String,
    /// The namespace, if there is only one.
    pub only_namespace: Option<String>,
    /// The expected contents of a list of all seeded objects.
    pub expected: Expected,
    /// Every object as the server returned it, by number, with the hash of its UID for shards.
    /// `None` if another generator has seeded the objects.
    entries: Option<Vec<Entry>>,
}

impl SeededObjects {
    /// Returns the objects that another generator seeded into these namespaces, as it reports them.
    /// Whole lists can be checked; the response for each object is unknown here.
    #[must_use]
    pub fn by_another(
        data: &Arc<DataSet>,
        namespaces: &Arc<Namespaces>,
        expected: Expected,
    ) -> Self {
        Self::new(data, namespaces, expected, None)
    }

    fn new(
        data: &Arc<DataSet>,
        namespaces: &Arc<Namespaces>,
        expected: Expected,
        entries: Option<Vec<Entry>>,
    ) -> Self {
        Self {
            data: Arc::clone(data),
            namespaces: Arc::clone(namespaces),
            names_begin: namespaces.names_begin().to_owned(),
            only_namespace: namespaces.only().map(str::to_owned),
            expected,
            entries,
        }
    }

    /// Returns the namespace of object `i` of the data set.
    #[must_use]
    pub fn namespace_of(&self, i: u64) -> &str {
        self.namespaces.name(self.data.namespace_of(i))
    }

    /// Returns the data set that the objects were made from.
    #[must_use]
    pub fn data(&self) -> &Arc<DataSet> {
        &self.data
    }

    /// Returns the objects as they are stored, for shards by this field; `None` if another
    /// generator has seeded them.
    #[must_use]
    pub fn inventory(&self, by: ShardKey) -> Option<Inventory> {
        let entries = self.entries.as_ref()?;
        let entries = entries.iter().zip(0..).map(|(entry, i)| match by {
            ShardKey::Uid => *entry,
            ShardKey::Namespace => {
                let namespace = self.namespaces.name(self.data.namespace_of(i));
                Entry {
                    shard_hash: by.hash(b"", namespace.as_bytes()),
                    ..*entry
                }
            }
        });
        Some(Inventory::of(by, entries.collect()))
    }

    /// Returns the expected contents of a list with this label selector; `None` if another
    /// generator has seeded the objects. Makes every object of the data set once.
    #[must_use]
    pub fn select(&self, selector: Selector) -> Option<Fingerprint> {
        let entries = self.entries.as_ref()?;
        let mut selected = Fingerprint::default();
        for i in selector.numbers(&self.data) {
            let entry = usize::try_from(i).ok().and_then(|i| entries.get(i));
            if let Some(entry) = entry {
                selected.add_hashed(entry.hash, entry.bytes);
            }
        }
        Some(selected)
    }
}

/// Writes every object of `data` into existing namespaces. Dropping the future stops writing.
///
/// # Errors
/// [`SeedError`], the first of any writer. The objects written before it remain.
pub async fn seed(
    api: &Api,
    data: &Arc<DataSet>,
    namespaces: &Arc<Namespaces>,
    phase: &Phase,
) -> Result<SeededObjects, SeedError> {
    let next = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let resource = resource_of(data);
        let writer = Writer {
            client: api.client()?,
            data: Arc::clone(data),
            decoder: ItemDecoder::one_by_one(&resource),
            resource: resource.name,
            namespaces: Arc::clone(namespaces),
            next: Arc::clone(&next),
            part: WriterOutcome::default(),
            phase: phase.clone(),
        };
        writers.spawn(writer.run());
    }
    let mut all = WriterOutcome::default();
    while let Some(part) = writers.join_next().await {
        all.merge(part??);
    }
    all.entries.sort_unstable_by_key(|(i, _)| *i);
    let expected = Expected {
        fingerprint: all.found.fingerprint,
        revisions: Some(all.found.revisions),
        revision: all.revision,
    };
    let entries = all.entries.into_iter().map(|(_, entry)| entry).collect();
    let seeded = SeededObjects::new(data, namespaces, expected, Some(entries));
    until_listed(api, data, seeded.expected.revision).await?;
    Ok(seeded)
}

/// Waits until a list from the server's cache would contain the last write, since case `cached` may
/// get whatever the cache holds.
async fn until_listed(api: &Api, data: &DataSet, revision: i64) -> Result<(), KubeError> {
    let path = format!(
        "{}?limit=1&resourceVersion={revision}&resourceVersionMatch=NotOlderThan",
        resource_of(data).name.collection(None)
    );
    let mut client = api.client()?;
    let good = [StatusCode::OK];
    let nothing = Bytes::new();
    let list = client.must(&Method::GET, &path, JSON, &nothing, &good);
    list.await.map(drop)
}

/// The objects that one writer wrote.
#[derive(Debug, Default)]
struct WriterOutcome {
    found: Contents,
    revision: i64,
    entries: Vec<(u64, Entry)>,
}

impl WriterOutcome {
    fn merge(&mut self, other: Self) {
        self.found.merge(&other.found);
        self.revision = self.revision.max(other.revision);
        self.entries.extend(other.entries);
    }
}

/// A task that writes objects until none is left.
struct Writer {
    client: Client,
    data: Arc<DataSet>,
    resource: GroupVersionResource,
    namespaces: Arc<Namespaces>,
    next: Arc<AtomicU64>,
    decoder: ItemDecoder,
    part: WriterOutcome,
    phase: Phase,
}

impl Writer {
    async fn run(mut self) -> Result<WriterOutcome, SeedError> {
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= self.data.len() {
                return Ok(self.part);
            }
            self.write(i).await?;
            self.phase.advance(1);
        }
    }

    async fn write(&mut self, i: u64) -> Result<(), SeedError> {
        let namespace = self.namespaces.name(self.data.namespace_of(i));
        let key = self.data.key(i);
        let name = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let collection = self.resource.collection(Some(namespace));
        let wrong = |reason: String| SeedError::Object {
            key: format!("{collection}/{name}"),
            reason,
        };
        let body = object::body(&self.data, i, namespace).map_err(wrong)?;
        let post = (&Method::POST, collection.as_str(), MEDIA_TYPE);
        let mut reply = self
            .client
            .send(post.0, post.1, post.2, &body.into())
            .await?;
        if reply.status == StatusCode::CONFLICT {
            let path = format!("{collection}/{name}");
            if !reply.repeated {
                return Err(SeedError::ObjectExists(path));
            }
            // An earlier attempt, whose response was lost, has created it.
            let nothing = Bytes::new();
            let get = self.client.send(&Method::GET, &path, MEDIA_TYPE, &nothing);
            reply = get.await?;
        }
        if !reply.status.is_success() {
            return Err(reply.refused(&Method::POST, &collection).into());
        }
        self.take(i, &reply.body).map_err(wrong)
    }

    /// Records the object that the server has stored.
    fn take(&mut self, i: u64, answer: &[u8]) -> Result<(), String> {
        let object = envelope::open(answer).map_err(|e| e.to_string())?;
        let said = |wrong: InvalidResponse| wrong.to_string();
        let stored = self.decoder.event(object).map_err(said)?;
        let stored = stored.ok_or("no object came back")?;
        let mut check = Check::new(ROOT);
        let hash = check.visit(stored.key, stored.value, stored.revision);
        let bytes = check.relative_len(stored.key) + stored.value.len() as u64;
        let found = &mut self.part.found;
        found.fingerprint.add_hashed(hash, bytes);
        let product = hash.wrapping_mul(stored.revision as u64);
        found.revisions = found.revisions.wrapping_add(product);
        self.part.revision = self.part.revision.max(stored.revision);
        let entry = Entry {
            shard_hash: stored.shard_hash(),
            hash,
            bytes,
        };
        self.part.entries.push((i, entry));
        Ok(())
    }
}
