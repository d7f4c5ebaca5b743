//! Lists from storage: whole lists, pages, and single objects.

use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{GetOptions, ListOptions};
use index::Tree;
use kube_api::{ContinueToken, Status};
use memory::admission::{Admission, Admitted, Growing};
use tokio::sync::mpsc;

use super::page::{ListSource, ObjectList, Remainder};
use super::plan::{ListPlan, RevisionMatch};
use crate::metrics::Operation;
use crate::metrics::lists::{ListStats, ServedFrom};
use crate::resource::filter::Filter;
use crate::resource_handler::ResourceHandler;
use crate::shard::object_set::ObjectSet;
use crate::storage::bulk_load::{CHANNEL_CHUNKS, ListChunk, build_tree};
use crate::storage::error::storage_error;
use crate::storage::list_reader::{ListReader, ObjectsAtRevision, PAGE, StreamSupport, send_chunk};

/// The number of keys of the first read for a client's page. 500 is the page size that clients
/// request by default.
const FIRST_READ: u64 = 500;

/// The assumed size of an object, in bytes, before any has arrived.
const ASSUMED_BYTES: u64 = 8 << 10;

/// The number of objects that are decoded before the task yields to other connections of its
/// thread.
const DECODED_PER_TURN: u64 = 128;

/// The result of reading storage for a list.
struct StorageRead {
    list: ObjectsAtRevision,
    /// The remainder of the list, if only a page was read.
    remainder: Option<Remainder>,
    /// The number of objects that storage sent.
    fetched: u64,
    /// The memory that is admitted for the list, if it may be large.
    admitted: Option<Admitted>,
}

/// Changes the memory of a list to `bytes`.
///
/// # Errors
/// [`Refusal::TooManyRequests`] if memory does not become free in time.
async fn resize(room: &mut Growing, bytes: u64) -> Result<(), Error> {
    let resized = room.resize(bytes).await;
    resized.map_err(|_| Error::Refused(Refusal::TooManyRequests))
}

impl StorageRead {
    fn complete(list: ObjectsAtRevision) -> Self {
        Self {
            fetched: list.tree.len(),
            list,
            remainder: None,
            admitted: None,
        }
    }
}

impl ListReader<'_> {
    /// Reads a list as [`Self::read`] does, for one client. The size of the list is not known
    /// beforehand, so memory is requested while objects arrive.
    ///
    /// # Errors
    /// Those of storage, and [`Refusal::TooManyRequests`] if memory does not become free in time.
    async fn read_for_client(
        &self,
        streams: &StreamSupport,
        admission: &Admission,
    ) -> Result<(ObjectsAtRevision, Option<Admitted>), Error> {
        let (chunks, mut received) = mpsc::channel(1);
        let (admitted, incoming) = mpsc::channel(CHANNEL_CHUNKS);
        let admit = async move {
            let mut room = admission.growing();
            while let Some(chunk) = received.recv().await {
                let bytes = room.bytes() + ListChunk::bytes(&chunk);
                resize(&mut room, bytes).await?;
                send_chunk(&admitted, chunk).await?;
            }
            Ok(room.into_admitted())
        };
        let (revision, room, tree) = tokio::try_join!(
            self.each(streams, chunks),
            admit,
            build_tree(self.decoder, incoming)
        )?;
        Ok((ObjectsAtRevision { tree, revision }, room))
    }
}

impl ResourceHandler {
    /// Reads the one object that the list can contain. It is the whole list, regardless of the
    /// requested page.
    async fn single_from_etcd(&self, key: &str, revision: i64) -> Result<ObjectsAtRevision, Error> {
        let timer = self.metrics.etcd_request(Operation::Get, self.resource);
        let storage_key = [&self.prefix[..], key.as_bytes()].concat();
        let found = self
            .backend
            .get(&storage_key, GetOptions { revision })
            .await?;
        drop(timer);
        let mut tree = Tree::default();
        if let Some(kv) = &found.kv
            && let Some(object) = self
                .decoder()
                .object(&storage_key, &kv.value, kv.mod_revision)
        {
            tree.insert(object);
        }
        let revision = match revision {
            0 => found.revision,
            pinned => pinned,
        };
        Ok(ObjectsAtRevision { tree, revision })
    }

    /// Lists from storage.
    ///
    /// # Errors
    /// The Status to be sent: 410 for a compacted revision, 504 for a revision that storage has not
    /// reached, and others for further failures of storage.
    pub(super) async fn list_from_etcd(&self, plan: &ListPlan) -> Result<ObjectList, Status> {
        let revision = match plan.revision {
            RevisionMatch::Exact { revision, .. } => revision,
            _ => 0,
        };
        let only = plan.only_key(self.resource);
        let read = if let Some(key) = &only {
            let list = self.single_from_etcd(key, revision).await;
            list.map(StorageRead::complete)
        } else if plan.limit > 0 {
            self.page_from_etcd(plan, revision).await
        } else {
            let reader = ListReader {
                backend: &*self.backend,
                decoder: self.decoder(),
                namespace_prefix: &plan.namespace_prefix,
                start: &plan.start,
                revision,
            };
            let read = reader.read_for_client(&self.streams, &self.admission).await;
            read.map(|(list, admitted)| StorageRead {
                admitted,
                ..StorageRead::complete(list)
            })
        };
        let StorageRead {
            list,
            remainder,
            fetched,
            admitted,
        } = match read {
            Ok(read) => read,
            Err(error) => return Err(self.refused(plan, error).await),
        };
        if let RevisionMatch::NotOlderThan(wanted) = plan.revision
            && list.revision < wanted
        {
            return Err(Status::too_large_resource_version(
                wanted as u64,
                list.revision as u64,
                0,
            ));
        }
        // A page has already been filtered while it was read.
        let filtered = plan.limit > 0 && only.is_none();
        let state = ListSource {
            revision: list.revision,
            objects: ObjectSet::All(list.tree),
            remainder,
            stats: ListStats {
                fetched_from_storage: fetched,
                evaluated: if filtered { fetched } else { 0 },
                ..ListStats::by(ServedFrom::Etcd, "")
            },
        };
        let filter = if filtered {
            &Filter::none(self.resource)
        } else {
            &plan.filter
        };
        let mut list = state.page(plan.from(), 0, filter).await;
        list.admitted = admitted;
        if !plan.filter.is_empty() {
            list.meta.remaining_item_count = None;
        }
        Ok(list)
    }

    /// Returns the Status for a failure of storage.
    async fn refused(&self, plan: &ListPlan, error: Error) -> Status {
        match (error.refusal(), plan.revision) {
            (Some(Refusal::Compacted), RevisionMatch::Exact { token: true, .. }) => {
                let start = plan
                    .start
                    .strip_prefix(&plan.namespace_prefix)
                    .unwrap_or(&plan.start)
                    .to_owned();
                let token = ContinueToken {
                    resource_version: -1,
                    start,
                };
                Status::expired_continue(token.encode())
            }
            (Some(Refusal::FutureRevision), RevisionMatch::Exact { revision, .. }) => {
                // Read only for the message, which contains both revisions.
                let current = self.backend.current_revision(&self.prefix).await;
                let current = current.unwrap_or_default();
                Status::too_large_resource_version(revision as u64, current as u64, 0)
            }
            _ => storage_error(error),
        }
    }

    /// Reads one page, by as many reads of storage as necessary. Each read is of twice as many keys
    /// as the one before, up to [`PAGE`]. Memory is requested before each read: for the first by an
    /// assumed size of objects, then by the average size of those that have arrived.
    ///
    /// # Errors
    /// Those of storage, and [`Refusal::TooManyRequests`] if memory does not become free in time.
    async fn page_from_etcd(&self, plan: &ListPlan, revision: i64) -> Result<StorageRead, Error> {
        let prefix = [&self.prefix[..], plan.namespace_prefix.as_bytes()].concat();
        let decoder = self.decoder();
        let mut options = ListOptions {
            revision,
            limit: plan.limit.min(FIRST_READ) as i64,
            continue_key: Bytes::new(),
        };
        if !plan.start.is_empty() {
            options.continue_key = [&self.prefix[..], plan.start.as_bytes()].concat().into();
        }
        let mut room = self.admission.growing();
        let assumed = options.limit as u64 * ASSUMED_BYTES;
        resize(&mut room, assumed).await?;
        let (mut tree, mut fetched, mut decoded, mut bytes) = (Tree::default(), 0, 0, 0);
        loop {
            let timer = self.metrics.etcd_request(Operation::List, self.resource);
            let list_timer = self.metrics.lists.time_request(self.resource, false);
            let page = self.backend.list(&prefix, options.clone()).await?;
            drop((timer, list_timer));
            if options.revision == 0 {
                options.revision = page.revision;
            }
            let keys = page.kvs.len() as u64;
            let mut remaining = page.remaining()? + keys;
            fetched += keys;
            let sizes = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len());
            bytes += sizes.sum::<usize>() as u64;
            resize(&mut room, bytes).await?;
            let (mut last, mut whole) = (None, false);
            for kv in &page.kvs {
                let object = decoder.object(&kv.key, &kv.value, kv.mod_revision);
                if let Some(object) = object.filter(|object| plan.filter.matches(object)) {
                    tree.insert(object);
                }
                remaining -= 1;
                decoded += 1;
                last = Some(decoder.relative_key(&kv.key));
                // Without selectors, values that do not decode count, too.
                whole = tree.len() == plan.limit || plan.filter.is_empty() && decoded == plan.limit;
                if whole {
                    break;
                }
                if decoded % DECODED_PER_TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
            let last = last.filter(|_| remaining > 0);
            if let (false, Some(last)) = (whole, last) {
                options.continue_key = [&self.prefix[..], last, b"\0"].concat().into();
                options.limit = options.limit.saturating_mul(2).min(PAGE);
                if plan.filter.is_empty() {
                    options.limit = options.limit.min((plan.limit - decoded) as i64);
                }
                let next = options.limit as u64 * bytes.div_ceil(fetched);
                resize(&mut room, bytes + next).await?;
                continue;
            }
            return Ok(StorageRead {
                list: ObjectsAtRevision {
                    tree,
                    revision: options.revision,
                },
                remainder: last.map(|last| Remainder {
                    remaining: Some(remaining),
                    last: last.to_vec(),
                }),
                fetched,
                admitted: room.into_admitted(),
            });
        }
    }
}
