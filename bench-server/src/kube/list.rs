//! Which of cache and etcd answers a LIST, and with what: the apiserver's table of resourceVersion,
//! resourceVersionMatch, continue and limit.

use std::sync::Arc;

use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::keys::{KeyRange, prefix_end};
use etcd_api::kubernetes::{KubernetesEtcd, ListOptions as EtcdListOptions};
use kube_api::{ContinueToken, ListMeta, ListOptions, Match, Status};

use super::cache::WatchCache;
use super::cache::fill::{Filled, Source, StreamSupport, decode};
use super::figures::{Figures, Operation, ServedFrom};
use super::object::Object;
use super::resource::Resource;
use crate::store::index::{Cursor, Tree};

/// Where one resource's lists come from.
#[derive(Clone)]
pub struct Lister {
    /// The resource.
    pub resource: &'static Resource,
    /// Its prefix in storage.
    pub prefix: Vec<u8>,
    /// Its cache; `None` with `--watch-cache=false`.
    pub cache: Option<Arc<WatchCache>>,
    /// Whether a list without resourceVersion may come from the cache (gate ConsistentListFromCache).
    pub consistent_from_cache: bool,
    /// Storage.
    pub backend: Arc<dyn KubernetesEtcd>,
    /// Whether storage has RangeStream.
    pub streams: Arc<StreamSupport>,
    /// Metrics.
    pub figures: Figures,
}

impl std::fmt::Debug for Lister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lister({})", self.resource.name)
    }
}

/// A list that is ready to be sent.
#[derive(Debug)]
pub struct Listing {
    /// What the list says about itself.
    pub meta: ListMeta,
    /// The objects from its first on.
    pub items: Cursor<Object>,
    /// How many of them belong to the list.
    pub count: u64,
    /// Sum of their encoded lengths.
    pub items_len: u64,
    /// Who answered.
    pub served_from: ServedFrom,
}

/// How fresh a list must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// As fresh as storage at the time of the request.
    Consistent,
    /// Whatever there is.
    Any,
    /// At this revision or later.
    NotOlderThan(i64),
    /// At exactly this revision; `token` when a continue token asks.
    Exact { revision: i64, token: bool },
}

/// A request after its options were understood.
#[derive(Debug)]
struct Plan<'a> {
    /// Empty for all namespaces, else `NAMESPACE/`.
    below: &'a str,
    /// First key below the resource's prefix.
    start: String,
    wanted: Wanted,
    /// 0 is none.
    limit: u64,
    /// Whether the cache applies the limit.
    cache_limits: bool,
}

impl Lister {
    /// Answers a LIST of all namespaces (`namespace` empty) or of one.
    ///
    /// # Errors
    /// The Status to be sent: bad options, an expired or unreached revision, storage's failures.
    pub async fn list(&self, namespace: &str, options: &ListOptions) -> Result<Listing, Status> {
        options.validate_list()?;
        if options.selects() {
            return Err(Status::bad_request(
                "label and field selectors are not served yet",
            ));
        }
        let below = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let plan = plan(&below, options)?;
        let listing = match &self.cache {
            None => self.ask_etcd(&plan).await?,
            Some(cache) => match self.ask_cache(cache, &plan).await? {
                Some(listing) => listing,
                None => self.ask_etcd(&plan).await?,
            },
        };
        self.figures
            .served(self.resource, listing.served_from, listing.count);
        Ok(listing)
    }

    /// The cache's answer; `None` where the table sends the request to etcd.
    async fn ask_cache(
        &self,
        cache: &WatchCache,
        plan: &Plan<'_>,
    ) -> Result<Option<Listing>, Status> {
        if !cache.is_ready() {
            let etcd_anyway = plan.limit > 0 || matches!(plan.wanted, Wanted::Exact { .. });
            if etcd_anyway {
                return Ok(None);
            }
            let seconds = (0.06 * cache.down().as_secs_f64()).exp().clamp(1.0, 30.0);
            return Err(Status::too_many_requests(
                "storage is (re)initializing",
                seconds as u32,
            ));
        }
        let late = |revision: i64, current: i64| {
            Status::too_large_resource_version(revision as u64, current as u64, 1)
        };
        let view = match plan.wanted {
            Wanted::Any => cache.view(),
            Wanted::NotOlderThan(revision) => cache
                .reach(revision)
                .await
                .map_err(|current| late(revision, current))?,
            Wanted::Exact { revision, .. } => {
                cache
                    .reach(revision)
                    .await
                    .map_err(|current| late(revision, current))?;
                match cache.snapshot(revision) {
                    Some(view) => view,
                    None => return Ok(None),
                }
            }
            Wanted::Consistent => {
                if !self.consistent_from_cache || !cache.has_progress() {
                    return Ok(None);
                }
                let timed = self
                    .figures
                    .etcd_request(Operation::GetCurrentResourceVersion, self.resource);
                let current = self
                    .backend
                    .current_revision(&self.prefix)
                    .await
                    .map_err(storage_error)?;
                drop(timed);
                let reached = cache.reach(current).await;
                self.figures.consistent_read(self.resource, reached.is_ok());
                match reached {
                    Ok(view) => view,
                    Err(_) => return Ok(None),
                }
            }
        };
        let limit = if plan.cache_limits { plan.limit } else { 0 };
        let items = Items {
            revision: view.revision,
            tree: &view.tree,
            remaining: None,
        };
        Ok(Some(page(plan, items, limit, ServedFrom::Cache)))
    }

    async fn ask_etcd(&self, plan: &Plan<'_>) -> Result<Listing, Status> {
        let revision = match plan.wanted {
            Wanted::Exact { revision, .. } => revision,
            _ => 0,
        };
        let failed = |error: Error| match (error.refusal(), plan.wanted) {
            (Some(Refusal::Compacted), Wanted::Exact { token: true, .. }) => {
                let start = plan
                    .start
                    .strip_prefix(plan.below)
                    .unwrap_or(&plan.start)
                    .to_owned();
                Status::expired_continue(
                    ContinueToken {
                        resource_version: -1,
                        start,
                    }
                    .encode(),
                )
            }
            (Some(Refusal::Compacted), _) => Status::expired_resource_version(),
            _ => storage_error(error),
        };
        let (filled, remaining) = if plan.limit > 0 {
            self.etcd_page(plan, revision).await
        } else {
            let source = Source {
                backend: &*self.backend,
                resource: self.resource,
                prefix: &self.prefix,
                below: plan.below,
                start: &plan.start,
                revision,
                figures: &self.figures,
            };
            source
                .read(&self.streams)
                .await
                .map(|filled| (filled, None))
        }
        .map_err(failed)?;
        if let Wanted::NotOlderThan(wanted) = plan.wanted
            && filled.revision < wanted
        {
            return Err(Status::too_large_resource_version(
                wanted as u64,
                filled.revision as u64,
                1,
            ));
        }
        let items = Items {
            revision: filled.revision,
            tree: &filled.tree,
            remaining,
        };
        Ok(page(plan, items, plan.limit, ServedFrom::Etcd))
    }

    /// One page, and what remains behind it with the last key that was looked at.
    async fn etcd_page(
        &self,
        plan: &Plan<'_>,
        revision: i64,
    ) -> Result<(Filled, Option<(u64, Vec<u8>)>), Error> {
        let timed = self.figures.etcd_request(Operation::List, self.resource);
        let continue_key = match plan.start.as_str() {
            "" => Bytes::new(),
            start => [&self.prefix[..], start.as_bytes()].concat().into(),
        };
        let options = EtcdListOptions {
            revision,
            limit: i64::try_from(plan.limit).unwrap_or(i64::MAX),
            continue_key,
        };
        let prefix = [&self.prefix[..], plan.below.as_bytes()].concat();
        let page = self.backend.list(&prefix, options).await?;
        drop(timed);
        let mut tree = Tree::default();
        let relative = |key: &Bytes| key.strip_prefix(&self.prefix[..]).unwrap_or(key).to_vec();
        for kv in &page.kvs {
            let object = decode(
                self.resource,
                &relative(&kv.key),
                &kv.value,
                kv.mod_revision,
                &self.figures,
            );
            object.map(|object| tree.insert(object));
        }
        let remaining = (page.count as u64).saturating_sub(page.kvs.len() as u64);
        let behind = page
            .kvs
            .last()
            .filter(|_| remaining > 0)
            .map(|last| (remaining, relative(&last.key)));
        let revision = if revision == 0 {
            page.revision
        } else {
            revision
        };
        Ok((Filled { tree, revision }, behind))
    }
}

/// Reads the table: what the options ask for.
fn plan<'a>(below: &'a str, options: &ListOptions) -> Result<Plan<'a>, Status> {
    let limit = options.limit;
    let zero = options.resource_version == "0";
    if !options.continue_token.is_empty() {
        let token = ContinueToken::decode(&options.continue_token)
            .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
        let wanted = match token.resource_version {
            revision if revision > 0 => Wanted::Exact {
                revision,
                token: true,
            },
            _ => Wanted::Consistent,
        };
        // resourceVersion=0 turns the limit off wherever the cache answers.
        return Ok(Plan {
            below,
            start: format!("{below}{}", token.start),
            wanted,
            limit,
            cache_limits: !zero,
        });
    }
    let revision = options.revision()?.map(|revision| revision as i64);
    let wanted = match (revision, &options.resource_version_match) {
        (None, _) => Wanted::Consistent,
        (Some(0), _) => Wanted::Any,
        (Some(revision), Some(Match::Exact)) => Wanted::Exact {
            revision,
            token: false,
        },
        (Some(revision), None) if limit > 0 => Wanted::Exact {
            revision,
            token: false,
        },
        (Some(revision), _) => Wanted::NotOlderThan(revision),
    };
    Ok(Plan {
        below,
        start: String::new(),
        wanted,
        limit,
        cache_limits: !zero,
    })
}

/// Objects that a page is cut from.
struct Items<'t> {
    revision: i64,
    tree: &'t Tree<Object>,
    /// Set where the tree holds no more than the page: objects behind it, and the last key.
    remaining: Option<(u64, Vec<u8>)>,
}

/// Cuts a page. Costs O(log n + page), however many objects are behind it.
fn page(plan: &Plan<'_>, items: Items<'_>, limit: u64, served_from: ServedFrom) -> Listing {
    let start = if plan.start.is_empty() {
        plan.below
    } else {
        &plan.start
    };
    let end = prefix_end(plan.below.as_bytes());
    let range = KeyRange::new(start.as_bytes(), &end);
    let totals = items.tree.totals(range);
    let cursor = items.tree.cursor(range);
    let (mut count, mut items_len) = (totals.count, totals.weight);
    let mut behind = items.remaining;
    if limit > 0 && limit < count {
        let mut walk = cursor.clone();
        let mut last = Vec::new();
        items_len = 0;
        for at in 0..limit {
            let Some(object) = walk.next_ref() else { break };
            items_len += crate::store::index::Item::weight(object);
            if at + 1 == limit {
                last = object.key().to_vec();
            }
        }
        behind = Some((count - limit, last));
        count = limit;
    }
    let mut meta = ListMeta {
        resource_version: items.revision as u64,
        ..ListMeta::default()
    };
    if let Some((remaining, last)) = behind {
        let last = String::from_utf8_lossy(&last);
        let last = last.strip_prefix(plan.below).unwrap_or(&last);
        meta.continue_token = ContinueToken::after(items.revision, last).encode();
        meta.remaining_item_count = Some(remaining);
    }
    Listing {
        meta,
        items: cursor,
        count,
        items_len,
        served_from,
    }
}

/// Storage's failure as the client sees it.
pub(crate) fn storage_error(error: Error) -> Status {
    match error {
        Error::Refused(Refusal::Compacted) => Status::expired_resource_version(),
        // The text carries no numbers; clients look at the cause.
        Error::Refused(Refusal::FutureRevision) => Status::too_large_resource_version(0, 0, 0),
        Error::Unreachable { .. } | Error::Refused(Refusal::DeadlineExceeded) => {
            Status::server_timeout(error.to_string())
        }
        Error::Status {
            code: tonic::Code::Unavailable | tonic::Code::DeadlineExceeded,
            ..
        } => Status::server_timeout(error.to_string()),
        other => Status::internal(other.to_string()),
    }
}
