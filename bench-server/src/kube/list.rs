//! Which of cache and etcd answers a LIST, and with what: the apiserver's table of resourceVersion,
//! resourceVersionMatch, continue and limit.

use std::sync::Arc;

use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{GetOptions, KubernetesEtcd, ListOptions as EtcdListOptions};
use kube_api::{ContinueToken, ListOptions, Match, Status};

use super::cache::WatchCache;
use super::cache::fill::{Filled, PAGE, Source, StreamSupport, decode};
use super::figures::{Figures, Operation, ServedFrom};
use super::filter::{Filter, NAME};
use super::gates::FeatureGates;
use super::page::{Behind, From, Listing, State};
use super::resource::Resource;
use crate::store::index::Tree;

/// Where one resource's lists come from.
#[derive(Clone)]
pub struct Lister {
    /// The resource.
    pub resource: &'static Resource,
    /// Its prefix in storage.
    pub prefix: Vec<u8>,
    /// Its cache; `None` with `--watch-cache=false`.
    pub cache: Option<Arc<WatchCache>>,
    /// What is switched off.
    pub gates: FeatureGates,
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
    /// As storage has it; the cache is not asked.
    Stored,
}

/// A request after its options were understood.
#[derive(Debug)]
struct Plan {
    /// What the list is restricted to: empty, or `NAMESPACE/`.
    below: String,
    /// First key below the resource's prefix; empty for the beginning.
    start: String,
    wanted: Wanted,
    /// 0 is none.
    limit: u64,
    /// Whether the cache applies the limit.
    cache_limits: bool,
    filter: Filter,
}

impl Plan {
    /// The key of the only object that can be selected, where the name says so.
    fn only_key(&self, resource: &Resource) -> Option<String> {
        let name = self.filter.demands_field(NAME)?;
        let placed = resource.namespaced != self.below.is_empty();
        (placed && is_path_segment(name)).then(|| format!("{}{name}", self.below))
    }

    fn from(&self) -> From<'_> {
        From {
            below: &self.below,
            start: &self.start,
        }
    }
}

impl Lister {
    /// Answers a LIST of all namespaces (`namespace` empty) or of one.
    ///
    /// # Errors
    /// The Status to be sent: bad options, an expired or unreached revision, storage's failures.
    pub async fn list(&self, namespace: &str, options: &ListOptions) -> Result<Listing, Status> {
        options.validate_list()?;
        let plan = self.plan(namespace, options)?;
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
    async fn ask_cache(&self, cache: &WatchCache, plan: &Plan) -> Result<Option<Listing>, Status> {
        if !cache.is_ready() {
            let page = plan.limit > 0 && plan.filter.is_empty();
            let past_the_cache = match plan.wanted {
                Wanted::Exact { .. } | Wanted::Stored => true,
                Wanted::Consistent => {
                    !self.gates.consistent_list_from_cache || cache.lacks_progress()
                }
                Wanted::Any | Wanted::NotOlderThan(_) => false,
            };
            let etcd_anyway = page || past_the_cache;
            if etcd_anyway {
                return Ok(None);
            }
            return Err(not_ready(cache));
        }
        let late = |revision: i64, current: i64| {
            Status::too_large_resource_version(revision as u64, current as u64, 1)
        };
        let only = plan.only_key(self.resource);
        if only.is_some() && matches!(plan.wanted, Wanted::Exact { .. }) {
            return Ok(None);
        }
        let view = match plan.wanted {
            Wanted::Stored => return Ok(None),
            Wanted::Any => cache.view(),
            Wanted::NotOlderThan(revision) => cache
                .reach(revision)
                .await
                .map_err(|current| late(revision, current))?,
            Wanted::Exact { revision, .. } => {
                // Without progress a quiet resource's cache may never get there.
                let in_reach = revision <= cache.revision() || cache.has_progress();
                if !self.gates.list_from_cache_snapshot || !in_reach {
                    return Ok(None);
                }
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
                if !self.gates.consistent_list_from_cache || !cache.has_progress() {
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
        let candidates = match &only {
            Some(key) => {
                let mut one = Tree::default();
                if let Some(object) = view.tree.get(key.as_bytes()) {
                    one.insert(object.clone());
                }
                Some(one)
            }
            None => cache.candidates(&view, &plan.filter),
        };
        let state = State {
            revision: view.revision,
            tree: candidates.as_ref().unwrap_or(&view.tree),
            behind: None,
            served_from: ServedFrom::Cache,
        };
        Ok(Some(state.page(plan.from(), limit, &plan.filter).await))
    }

    /// Reads the only object that a list can have: whatever page of it is asked for, it is the whole list.
    async fn ask_etcd_for_one(&self, key: &str, revision: i64) -> Result<Filled, Error> {
        let timed = self.figures.etcd_request(Operation::Get, self.resource);
        let whole = [&self.prefix[..], key.as_bytes()].concat();
        let found = self.backend.get(&whole, GetOptions { revision }).await?;
        drop(timed);
        let mut tree = Tree::default();
        if let Some(kv) = &found.kv
            && let Some(object) = decode(
                self.resource,
                key.as_bytes(),
                &kv.value,
                kv.mod_revision,
                &self.figures,
            )
        {
            tree.insert(object);
        }
        let revision = match revision {
            0 => found.revision,
            pinned => pinned,
        };
        Ok(Filled { tree, revision })
    }

    async fn ask_etcd(&self, plan: &Plan) -> Result<Listing, Status> {
        let revision = match plan.wanted {
            Wanted::Exact { revision, .. } => revision,
            _ => 0,
        };
        let only = plan.only_key(self.resource);
        let read = if let Some(key) = &only {
            let filled = self.ask_etcd_for_one(key, revision).await;
            filled.map(|filled| (filled, None))
        } else if plan.limit > 0 {
            self.etcd_page(plan, revision).await
        } else {
            let source = Source {
                backend: &*self.backend,
                resource: self.resource,
                prefix: &self.prefix,
                below: &plan.below,
                start: &plan.start,
                revision,
                figures: &self.figures,
            };
            source
                .read(&self.streams)
                .await
                .map(|filled| (filled, None))
        };
        let (filled, behind) = match read {
            Ok(read) => read,
            Err(error) => return Err(self.refused(plan, error).await),
        };
        if let Wanted::NotOlderThan(wanted) = plan.wanted
            && filled.revision < wanted
        {
            return Err(Status::too_large_resource_version(
                wanted as u64,
                filled.revision as u64,
                0,
            ));
        }
        let state = State {
            revision: filled.revision,
            tree: &filled.tree,
            behind,
            served_from: ServedFrom::Etcd,
        };
        // A page was filtered while it was read.
        let filter = if plan.limit > 0 && only.is_none() {
            &Filter::none(self.resource)
        } else {
            &plan.filter
        };
        let mut listing = state.page(plan.from(), 0, filter).await;
        if !plan.filter.is_empty() {
            listing.meta.remaining_item_count = None;
        }
        Ok(listing)
    }

    /// Why a list cannot be read from storage, as the client sees it.
    async fn refused(&self, plan: &Plan, error: Error) -> Status {
        match (error.refusal(), plan.wanted) {
            (Some(Refusal::Compacted), Wanted::Exact { token: true, .. }) => {
                let start = plan
                    .start
                    .strip_prefix(&plan.below)
                    .unwrap_or(&plan.start)
                    .to_owned();
                let token = ContinueToken {
                    resource_version: -1,
                    start,
                };
                Status::expired_continue(token.encode())
            }
            (Some(Refusal::FutureRevision), Wanted::Exact { revision, .. }) => {
                // Only for the text: it names both.
                let current = self.backend.current_revision(&self.prefix).await;
                let current = current.unwrap_or_default();
                Status::too_large_resource_version(revision as u64, current as u64, 0)
            }
            _ => storage_error(error),
        }
    }

    /// One page with what lies behind it. With selectors, pages twice as large each time are read until enough
    /// objects are selected.
    async fn etcd_page(
        &self,
        plan: &Plan,
        revision: i64,
    ) -> Result<(Filled, Option<Behind>), Error> {
        let prefix = [&self.prefix[..], plan.below.as_bytes()].concat();
        let relative = |key: &Bytes| key.strip_prefix(&self.prefix[..]).unwrap_or(key).to_vec();
        let mut options = EtcdListOptions {
            revision,
            limit: i64::try_from(plan.limit).unwrap_or(i64::MAX),
            continue_key: Bytes::new(),
        };
        if !plan.start.is_empty() {
            options.continue_key = [&self.prefix[..], plan.start.as_bytes()].concat().into();
        }
        let mut tree = Tree::default();
        loop {
            let timed = self.figures.etcd_request(Operation::List, self.resource);
            let page = self.backend.list(&prefix, options.clone()).await?;
            drop(timed);
            if options.revision == 0 {
                options.revision = page.revision;
            }
            let mut remaining = page.count as u64;
            let mut last = None;
            for kv in &page.kvs {
                let key = relative(&kv.key);
                let object = decode(
                    self.resource,
                    &key,
                    &kv.value,
                    kv.mod_revision,
                    &self.figures,
                );
                if let Some(object) = object.filter(|object| plan.filter.matches(object)) {
                    tree.insert(object);
                }
                remaining -= 1;
                last = Some(key);
                if tree.len() == plan.limit {
                    break;
                }
            }
            let revision = options.revision;
            match last {
                Some(last) if remaining > 0 => {
                    if tree.len() == plan.limit || plan.filter.is_empty() {
                        return Ok((Filled { tree, revision }, Some(Behind { remaining, last })));
                    }
                    options.continue_key = [&self.prefix[..], &last, b"\0"].concat().into();
                    options.limit = options.limit.saturating_mul(2).min(PAGE.max(options.limit));
                }
                _ => return Ok((Filled { tree, revision }, None)),
            }
        }
    }

    /// Reads the table: what the options ask for.
    fn plan(&self, namespace: &str, options: &ListOptions) -> Result<Plan, Status> {
        let below = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let limit = options.limit;
        let filter = Filter::parse(self.resource, options)?;
        // resourceVersion=0 turns the limit off wherever the cache answers.
        let cache_limits = options.resource_version != "0";
        let mut plan = Plan {
            below,
            start: String::new(),
            wanted: Wanted::Consistent,
            limit,
            cache_limits,
            filter,
        };
        if !options.continue_token.is_empty() {
            // One object has no second page: upstream reads it from storage and passes the token over.
            if plan.only_key(self.resource).is_some() {
                plan.wanted = Wanted::Stored;
                return Ok(plan);
            }
            let token = ContinueToken::decode(&options.continue_token)
                .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
            if token.resource_version > 0 {
                plan.wanted = Wanted::Exact {
                    revision: token.resource_version,
                    token: true,
                };
            }
            plan.start = format!("{}{}", plan.below, token.start);
            return Ok(plan);
        }
        let revision = options.revision()?.map(|revision| revision as i64);
        plan.wanted = match (revision, &options.resource_version_match) {
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
        Ok(plan)
    }
}

/// Whether a name can be a part of a storage key.
fn is_path_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// What a client is told whose request needs a cache that is not filled: when to come back.
pub(crate) fn not_ready(cache: &WatchCache) -> Status {
    let seconds = (0.06 * cache.down().as_secs_f64()).exp().clamp(1.0, 30.0);
    Status::too_many_requests("storage is (re)initializing", seconds as u32)
}

/// Storage's failure as the client sees it.
pub(crate) fn storage_error(error: Error) -> Status {
    match error {
        Error::Refused(Refusal::Compacted) => Status::expired_resource_version(),
        // Who knows which revision was asked for names it; clients look at the cause.
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
