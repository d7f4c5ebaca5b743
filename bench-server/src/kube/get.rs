//! GET of one object: from etcd, or from the cache when the client names a revision.

use etcd_api::kubernetes::GetOptions;
use kube_api::{ListOptions, Status};

use super::cache::fill::decode;
use super::figures::Operation;
use super::list::{Lister, storage_error};
use super::object::Object;

impl Lister {
    /// One object.
    ///
    /// # Errors
    /// 404 when there is none, 504 when the cache does not reach the revision asked for.
    pub async fn get(
        &self,
        namespace: &str,
        name: &str,
        options: &ListOptions,
    ) -> Result<Object, Status> {
        let key = self.resource.key(namespace, name);
        let object = match (options.revision()?, &self.cache) {
            (Some(revision), Some(cache)) => {
                let revision = revision as i64;
                let late = |current| {
                    Status::too_large_resource_version(revision as u64, current as u64, 1)
                };
                cache
                    .reach(revision)
                    .await
                    .map_err(late)?
                    .tree
                    .get(key.as_bytes())
                    .cloned()
            }
            _ => self.get_stored(&key).await?,
        };
        object.ok_or_else(|| Status::not_found(self.resource.name, self.resource.group, name))
    }

    async fn get_stored(&self, key: &str) -> Result<Option<Object>, Status> {
        let timed = self.figures.etcd_request(Operation::Get, self.resource);
        let whole = [&self.prefix[..], key.as_bytes()].concat();
        let found = self
            .backend
            .get(&whole, GetOptions::default())
            .await
            .map_err(storage_error)?;
        drop(timed);
        let Some(kv) = found.kv else { return Ok(None) };
        match decode(
            self.resource,
            key.as_bytes(),
            &kv.value,
            kv.mod_revision,
            &self.figures,
        ) {
            Some(object) => Ok(Some(object)),
            None => Err(Status::internal(format!(
                "stored value of {key} is no object"
            ))),
        }
    }
}
