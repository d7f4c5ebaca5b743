//! LIST, served from the watch cache if possible, otherwise read from storage.
//!
//! - [`plan`]: parses the options
//! - [`from_cache`]: lists from the cache, and the reasons to read storage instead
//!   ([`NotFromCache`]); [`from_etcd`]: lists from storage
//! - [`page`]: selects the page of objects from either source
//! - [`mod@body`]: the response's body; [`encode_ahead`]: encodes its frames on another thread

pub mod body;
pub(crate) mod encode_ahead;
mod from_cache;
mod from_etcd;
pub mod page;
mod plan;

use kube_api::{ListOptions, Status};

use self::from_cache::{NotFromCache, NotServed};
use self::page::ObjectList;
use self::plan::ListPlan;
use crate::resource_handler::ResourceHandler;

impl ResourceHandler {
    /// Lists the objects of one namespace, or of all if `namespace` is empty.
    ///
    /// # Errors
    /// The Status to be sent: for invalid options, for a revision that is compacted or not reached,
    /// and for failures of storage.
    pub async fn list(&self, namespace: &str, options: &ListOptions) -> Result<ObjectList, Status> {
        options.validate_list()?;
        let plan = ListPlan::new(self.resource, namespace, options, self.gates)?;
        let from_cache = match &self.cache {
            Some(cache) => self.list_from_cache(cache, &plan).await,
            None => Err(NotFromCache::NoCache.into()),
        };
        let mut list = match from_cache {
            Ok(list) => list,
            Err(NotServed::Refuse(status)) => return Err(status),
            Err(NotServed::ReadStorage(reason)) => {
                self.count_not_from_cache(reason);
                self.list_from_etcd(&plan).await?
            }
        };
        if let Some(shard) = plan.filter.shard() {
            list.meta.shard_selector = shard.to_string();
        }
        self.metrics.lists.count(self.resource, list.stats);
        Ok(list)
    }
}
