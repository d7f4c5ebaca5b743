//! LIST: served from the watch cache where it can be, otherwise read from storage.
//!
//! - [`plan`]: what the options ask for
//! - [`from_cache`]: the cache's list, or why storage is read ([`NotFromCache`]); [`from_etcd`]:
//!   storage's
//! - [`page`]: the page that is cut out of either
//! - [`mod@body`]: the response's body; [`encode_ahead`]: its frames, made on another thread

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
    /// Lists the objects of all namespaces (`namespace` empty) or of one.
    ///
    /// # Errors
    /// The Status to be sent: for bad options, for a revision that is compacted or not reached, and
    /// for failures of storage.
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
