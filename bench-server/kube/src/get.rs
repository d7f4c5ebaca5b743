//! GET of one object: from etcd, or from the cache if the client sends a `resourceVersion`.

use etcd_api::kubernetes::GetOptions;
use kube_api::{ListOptions, Status};

use crate::metrics::Operation;
use crate::resource::object::Object;
use crate::resource_handler::ResourceHandler;
use crate::storage::error::storage_error;

/// Checks the name of an object to be read or written. The path can have no other characters that
/// names cannot have.
///
/// # Errors
/// 400 for a name with `%`.
pub(crate) fn check_name(name: &str) -> Result<(), Status> {
    match name.contains('%') {
        false => Ok(()),
        true => Err(Status::bad_request(format!(
            "Name parameter invalid: {name:?}: may not contain '%'"
        ))),
    }
}

impl ResourceHandler {
    /// Reads one object.
    ///
    /// # Errors
    /// 404 if the object does not exist, 504 if the requested revision is not reached.
    pub async fn get(
        &self,
        namespace: &str,
        name: &str,
        options: &ListOptions,
    ) -> Result<Object, Status> {
        check_name(name)?;
        let key = self.resource.key(namespace, name);
        let revision = options.revision().map_err(Status::into_revision_error)?;
        let revision = revision.map(|revision| revision as i64);
        let cache = self.cache.as_ref().filter(|cache| cache.is_ready());
        let object = match (revision, cache) {
            (Some(revision), Some(cache)) => {
                let late = |current| {
                    Status::too_large_resource_version(revision as u64, current as u64, 1)
                };
                cache
                    .wait_until_fresh(revision)
                    .await
                    .map_err(late)?
                    .tree
                    .get(key.as_bytes())
                    .cloned()
            }
            _ => self.get_stored(&key, revision.unwrap_or(0)).await?,
        };
        object.ok_or_else(|| Status::not_found(self.resource.name, self.resource.group, name))
    }

    /// Reads the object from storage, which must have reached revision `least`.
    async fn get_stored(&self, key: &str, least: i64) -> Result<Option<Object>, Status> {
        let timed = self.metrics.etcd_request(Operation::Get, self.resource);
        let whole = [&self.prefix[..], key.as_bytes()].concat();
        let found = self
            .backend
            .get(&whole, GetOptions::default())
            .await
            .map_err(storage_error)?;
        drop(timed);
        if found.revision < least {
            let (asked, current) = (least as u64, found.revision as u64);
            return Err(Status::too_large_resource_version(asked, current, 0));
        }
        let Some(kv) = found.kv else { return Ok(None) };
        match self.decoder().object(&whole, &kv.value, kv.mod_revision) {
            Some(object) => Ok(Some(object)),
            None => Err(Status::internal(format!(
                "the stored value of {key} does not decode; the server's log says why"
            ))),
        }
    }
}
